"""What a change may be expected to bring, honestly labelled as an assumption."""

from prx.domain.findings import Finding, FindingKind
from prx.domain.proposals import ExpectedEffect
from prx.propose.draft import ProposeRules

_COST_WEIGHT = 0.10
_LATENCY_WEIGHT = 0.15


def expected_effect(finding: Finding, rules: ProposeRules) -> ExpectedEffect:
    """Fitness points over all traffic that fixing `finding` may bring.

    With a rate: excess x share of the units x `signal_weight`, of which `recovered` is assumed; low: the
    edit hurts as much, high: all of the excess at the upper 95 % bound of the rate. Cost and latency
    findings carry no rate: between no gain and a twentieth of their dimension's weight.
    """
    rate = finding.rate
    if rate is not None:
        rest = rate.rest_count / max(1, rate.rest_total)
        share = rate.total / max(1, rate.total + rate.rest_total)
        full = (rate.count / max(1, rate.total) - rest) * share * rules.signal_weight
        most = max(full, (rate.high - rest) * share * rules.signal_weight)
        estimate = full * rules.recovered
        return ExpectedEffect(
            estimate=round(estimate, 6),
            low=round(-estimate, 6),
            high=round(most, 6),
            source=f"assumed, not measured: {rules.recovered:.0%} of the excess failure rate of finding "
            f"{finding.finding_id} goes away; the interval runs from as much harm to all of it",
        )
    weight = _LATENCY_WEIGHT if finding.kind is FindingKind.LATENCY_OUTLIER else _COST_WEIGHT
    return ExpectedEffect(
        estimate=0.0,
        low=round(-0.05 * weight, 6),
        high=round(0.05 * weight, 6),
        source="assumed, not measured: quality about equal; the gain is in cost or latency",
    )
