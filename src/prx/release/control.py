"""The failure rate beside a change: of those who do not have it, as far as they are enough to tell."""

from prx.release.breaker import BreakerRules, Rate, concurrent_rate

WELL_KNOWN = 200


def beside_rate(control: Rate, hour: Rate, frozen: Rate, rules: BreakerRules) -> Rate:
    """The baseline of a change that has a concurrent control.

    Args: `control`: of its control since it began; `hour`: of the control's own last hour; `frozen`: before
        it. A control with fewer than 200 sessions in the hour is too thin to be trusted with a low rate, and
        says nothing of this hour of the day: the larger of its rate and the frozen one counts then.
    """
    found = concurrent_rate(control, hour, frozen, rules)
    return found if hour.sessions >= WELL_KNOWN else max(found, frozen, key=lambda rate: rate.share)
