"""What an experiment can be expected to find before it starts: sample, power, duration, P(promote)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import nctdtr, ndtri, stdtrit

from prx.domain.answers import NotEnoughData
from prx.domain.errors import BadStatistics
from prx.stats.groupsequential import boundaries, crossing
from prx.stats.power import check_effect, check_power, root_of
from prx.stats.stopping import SIDES, Design


@dataclass(frozen=True, slots=True)
class Traffic:
    """What the pre-period says about sessions; only forecasts rest on it, never error rates.

    `sd`: of one session's composite fitness. `icc`: correlation of two sessions of one unit, in [0, 1).
    `sessions_per_unit`: mean over the experiment, at least 1. `coverage`: share of the full information that
    partly observed dimensions leave, in (0, 1]. `split`: share to treatment; `ramp`: share that takes part.
    """

    sessions_per_hour: float
    sd: float
    icc: float = 0.2
    sessions_per_unit: float = 1.0
    split: float = 0.5
    ramp: float = 1.0
    coverage: float = 1.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.sessions_per_hour) and self.sessions_per_hour >= 0.0):
            raise BadStatistics(
                f"sessions per hour must be finite and not negative, got {self.sessions_per_hour!r}"
            )
        if not (math.isfinite(self.sd) and self.sd > 0.0):
            raise BadStatistics(
                f"a forecast needs a spread above 0, got sd = {self.sd!r}; measure a pre-period first"
            )
        if not 0.0 <= self.icc < 1.0 or not 1.0 <= self.sessions_per_unit < math.inf:
            raise BadStatistics(
                f"icc must lie in [0, 1) and sessions per unit be at least 1, got {self.icc!r} and "
                f"{self.sessions_per_unit!r}"
            )
        if not (0.0 < self.split < 1.0 and 0.0 < self.ramp <= 1.0 and 0.0 < self.coverage <= 1.0):
            raise BadStatistics(
                f"split must lie in (0, 1), ramp and coverage in (0, 1], got {self.split!r}, {self.ramp!r}, "
                f"{self.coverage!r}"
            )

    @property
    def design_effect(self) -> float:
        """Variance over that of independent, fully scored sessions: (1 + (n - 1) icc) / coverage."""
        return (1.0 + (self.sessions_per_unit - 1.0) * self.icc) / self.coverage

    def information(self, sessions: float) -> float:
        """Information 1 / SE^2 that `sessions`, over both arms, carry about the lift."""
        variance = self.sd**2 * self.design_effect
        return sessions * self.split * (1.0 - self.split) / variance

    def sessions_for(self, information: float) -> float:
        """Sessions over both arms that carry `information`."""
        return information / self.information(1.0)

    def sessions_by(self, hours: float) -> float:
        return self.sessions_per_hour * self.ramp * hours


@dataclass(frozen=True, slots=True)
class Chance:
    """Probability to promote, and to end for control, when the true lift is `lift` fitness points."""

    lift: float
    promote: float
    control: float
    expected_information: float


@dataclass(frozen=True, slots=True)
class Forecast:
    """What creation prints. Sessions count both arms; fractions are of the planned information.

    `hours_to_maximum` is `inf` without traffic. `smallest_effect_at_minimum` is what `min_sample_size` per
    arm sees with the design's power. `worth_starting`: at least 0.3 of the information can be reached in
    time. `equivalence_sessions`: sessions for the repeated interval to fit within +- delta when there is no
    lift.
    """

    max_sessions: float
    hours_to_maximum: float
    fraction_at_default: float
    fraction_at_maximum: float
    looks: int
    chances: tuple[Chance, ...] | NotEnoughData
    smallest_effect_at_minimum: float | NotEnoughData
    equivalence_sessions: float
    design_effect: float
    worth_starting: bool


def forecast(
    design: Design,
    traffic: Traffic,
    *,
    min_sample_size: int = 100,
    default_duration_hours: float = 168.0,
    max_duration_hours: float = 720.0,
    check_interval_hours: float = 24.0,
    outcome_window_hours: float = 24.0,
    lifts: Sequence[float] = (0.02, 0.03, 0.04),
    least_fraction: float = 0.3,
) -> Forecast:
    """Return what `design` can find under `traffic` within the maximum duration.

    A session counts once its outcome window has closed. P(promote) is exact integration over the looks that
    the traffic allows, with the rule "repeated interval above 0 and median-unbiased estimate at least
    delta"; guardrails, validity and the missingness bound can only lower it.
    """
    times = _tick_hours(check_interval_hours, max_duration_hours)
    lag = outcome_window_hours
    counted = [traffic.sessions_by(max(0.0, h - lag)) for h in times]
    smaller_arm = min(traffic.split, 1.0 - traffic.split)
    maximum = _max_sessions(design, traffic)
    reached = [_fraction(design, traffic, n) for n in counted]
    usable = [
        (h, r) for h, r, n in zip(times, reached, counted, strict=True) if n * smaller_arm >= min_sample_size
    ]
    fractions = _look_fractions([r for _, r in usable], design.min_gain)
    at_default = _fraction(design, traffic, traffic.sessions_by(max(0.0, default_duration_hours - lag)))
    at_maximum = _fraction(design, traffic, traffic.sessions_by(max(0.0, max_duration_hours - lag)))
    full = design.max_information
    if design.unit == "sessions_per_arm":
        full = traffic.information(maximum)
    rate = traffic.sessions_per_hour * traffic.ramp
    return Forecast(
        max_sessions=maximum,
        hours_to_maximum=maximum / rate + lag if rate > 0.0 else math.inf,
        fraction_at_default=at_default,
        fraction_at_maximum=at_maximum,
        looks=len(fractions),
        chances=chances(design, fractions, full_information=full, lifts=lifts)
        if fractions
        else NotEnoughData(f"no look can be reached: {min_sample_size} sessions per arm are needed in time"),
        smallest_effect_at_minimum=smallest_effect(
            min_sample_size / traffic.design_effect, traffic.sd, alpha=design.alpha, power=design.power
        ),
        equivalence_sessions=2.0
        * traffic.design_effect
        * equivalence_sample(design.delta, traffic.sd, alpha=design.alpha / 2.0, power=design.power)
        * design.inflation
        * 0.25
        / (traffic.split * (1.0 - traffic.split)),
        design_effect=traffic.design_effect,
        worth_starting=at_maximum >= least_fraction,
    )


def chances(
    design: Design, fractions: Sequence[float], *, full_information: float, lifts: Sequence[float]
) -> tuple[Chance, ...]:
    """Return P(promote) per true lift for looks at `fractions`, the last one final.

    `full_information` is 1 / SE^2 at fraction 1. A look promotes when z is at or above both its bound and
    the z whose median-unbiased estimate is delta, and ends for control when the interval lies below delta.
    """
    bounds = boundaries(
        fractions, alpha=design.alpha, sides=SIDES, spending=design.spending, final=True
    ).upper_z
    information = [f * full_information for f in fractions]
    promote = [
        max(bound, _z_for_estimate(information[: k + 1], bounds[:k], design.delta))
        for k, bound in enumerate(bounds)
    ]
    control = [
        min(high, design.delta * math.sqrt(i) - bound) if bound < math.inf else -math.inf
        for i, bound, high in zip(information, bounds, promote, strict=True)
    ]
    results = []
    for lift in lifts:
        exits = crossing(information, promote, control, drift=lift)
        won = math.fsum(exits.upper)
        below_min_effect = (
            crossing(information, (*promote[:-1], bounds[-1]), control, drift=lift).upper[-1]
            - exits.upper[-1]
        )
        kept = math.fsum(exits.lower) + below_min_effect
        results.append(Chance(lift, won, kept, exits.expected_information))
    return tuple(results)


def sample_per_arm(delta: float, sd: float, *, alpha: float = 0.05, power: float = 0.8) -> float:
    """Return units per arm at which one two-sided t test sees `delta` with `power` (noncentral t).

    Counts the upper tail only. Multiply by the design's inflation for looks and by the design effect for
    clusters.
    """
    _check_sd(sd)
    check_effect(delta)
    check_power(power)
    return root_of(
        lambda n: _t_power(n, delta / sd, alpha) - power, 1.0 + 1e-6, 1e12, what="sample", tolerance=1e-8
    )


def smallest_effect(
    per_arm: float, sd: float, *, alpha: float = 0.05, power: float = 0.8
) -> float | NotEnoughData:
    """Return the effect that a two-sided t test of `per_arm` effective units per arm sees with `power`."""
    _check_sd(sd)
    check_power(power)
    if not per_arm >= 2.0:
        return NotEnoughData(f"{per_arm:g} effective units per arm see nothing; at least 2 are needed")
    # the bracket grows from the normal approximation: far beyond it the noncentral t cannot be computed
    highest = float(ndtri(1.0 - alpha / 2.0) + ndtri(max(power, 0.5))) * math.sqrt(2.0 / per_arm)
    while _t_power(per_arm, highest, alpha) < power:
        highest *= 1.2
    return sd * root_of(
        lambda d: _t_power(per_arm, d, alpha) - power, 1e-9, highest, what="effect", tolerance=1e-12
    )


def equivalence_sample(delta: float, sd: float, *, alpha: float = 0.05, power: float = 0.8) -> float:
    """Return units per arm for two one-sided tests, each at `alpha`, to show |lift| < delta when it is 0.

    2 (sd / delta)^2 (z_{1 - alpha} + z_{(1 + power) / 2})^2.
    """
    _check_sd(sd)
    check_effect(delta)
    check_power(power)
    check_power(alpha)
    shift = float(ndtri(1.0 - alpha) + ndtri((1.0 + power) / 2.0))
    return 2.0 * (sd * shift / delta) ** 2


def _t_power(per_arm: float, standardised: float, alpha: float) -> float:
    df = 2.0 * (per_arm - 1.0)
    return float(1.0 - nctdtr(df, standardised * math.sqrt(per_arm / 2.0), stdtrit(df, 1.0 - alpha / 2.0)))


def _check_sd(sd: float) -> None:
    if not (math.isfinite(sd) and sd > 0.0):
        raise BadStatistics(f"the standard deviation must be finite and above 0, got {sd!r}")


def _tick_hours(interval: float, longest: float) -> list[float]:
    if not (0.0 < interval <= longest < math.inf):
        raise BadStatistics(
            f"the check interval {interval!r} must be above 0 and at most the duration {longest!r}"
        )
    ticks = [interval * (k + 1) for k in range(int(longest / interval + 1e-9))]
    return ticks if math.isclose(ticks[-1], longest) else [*ticks, longest]


def _max_sessions(design: Design, traffic: Traffic) -> float:
    if design.unit == "sessions_per_arm":
        return design.max_information / min(traffic.split, 1.0 - traffic.split)
    return traffic.sessions_for(design.max_information)


def _fraction(design: Design, traffic: Traffic, sessions: float) -> float:
    if design.unit == "sessions_per_arm":
        return min(1.0, sessions / _max_sessions(design, traffic))
    return min(1.0, traffic.information(sessions) / design.max_information)


def _look_fractions(reached: Sequence[float], min_gain: float) -> list[float]:
    """The ticks that become looks: enough gain, or the last; nothing after the planned information."""
    looks: list[float] = []
    for k, fraction in enumerate(reached):
        before = looks[-1] if looks else 0.0
        if before >= 1.0 or fraction <= before:
            continue
        if fraction - before >= min_gain or fraction >= 1.0 or k == len(reached) - 1:
            looks.append(fraction)
    return looks


def _z_for_estimate(information: Sequence[float], earlier: Sequence[float], delta: float) -> float:
    """z at the last of `information` whose median-unbiased estimate by stage-wise ordering is `delta`."""
    lower = [-b for b in earlier]

    def excess(z: float) -> float:
        exits = crossing(information, [*earlier, z], [*lower, -math.inf], drift=delta)
        return math.fsum(exits.upper) - 0.5

    highest = delta * math.sqrt(information[-1]) + 9.0
    if excess(highest) >= 0.0:
        # More than half of the paths with lift delta have ended upwards before: no result here reads as
        # delta.
        return math.inf
    return root_of(excess, -40.0, highest, what="z for the smallest effect", tolerance=1e-9)
