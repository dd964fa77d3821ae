"""From the numbers of one look to its conclusion: a closed set of outcomes, the first rule that matches."""

import math
from dataclasses import dataclass
from typing import Literal

from prx.domain.answers import Answer, Broken, Failed, Interval, NotEnoughData, Passed
from prx.domain.errors import BadStatistics

EndReason = Literal["max_information", "max_duration"]
KeepReason = Literal["no_relevant_gain", "futile", "below_min_effect"]
OpenReason = Literal["running", "extended", "max_information", "max_duration", "guardrail_unproven"]


@dataclass(frozen=True, slots=True)
class Invalid:
    """The comparison is void (sample ratio, contamination, baseline, lost sessions); nobody wins."""

    why: str
    winner: None = None
    ends: bool = True


@dataclass(frozen=True, slots=True)
class Harmful:
    """The treatment is worse: its composite is below 0 for certain, or a guardrail tripped."""

    why: str
    lift: Interval | NotEnoughData
    winner: Literal["control"] = "control"
    ends: bool = True


@dataclass(frozen=True, slots=True)
class Promote:
    """The treatment wins; `estimate` is the median-unbiased lift in fitness points."""

    lift: Interval
    estimate: float
    winner: Literal["treatment"] = "treatment"
    ends: bool = True


@dataclass(frozen=True, slots=True)
class Equivalent:
    """The lift lies within the smallest effect of interest on both sides; control stays."""

    lift: Interval
    winner: Literal["control"] = "control"
    ends: bool = True


@dataclass(frozen=True, slots=True)
class KeepControl:
    """The treatment is not better by the smallest effect of interest; control stays."""

    lift: Interval
    reason: KeepReason
    winner: Literal["control"] = "control"
    ends: bool = True


@dataclass(frozen=True, slots=True)
class Inconclusive:
    """No rule matched: the experiment keeps running, or `ends` with nobody winning and control serving.

    `blocked_by`: what stood between a winning composite and promotion, in words.
    """

    reason: OpenReason
    lift: Interval | NotEnoughData
    ends: bool
    blocked_by: tuple[str, ...] = ()
    winner: None = None


Conclusion = Invalid | Harmful | Promote | Equivalent | KeepControl | Inconclusive


@dataclass(frozen=True, slots=True)
class Rules:
    """What the plan fixed: `delta` in fitness points, ages in hours."""

    delta: float = 0.02
    min_duration_hours: float = 24.0
    default_duration_hours: float = 168.0
    act_on_futility: bool = False

    def __post_init__(self) -> None:
        if not (math.isfinite(self.delta) and self.delta > 0.0):
            raise BadStatistics(
                f"the smallest effect of interest must be finite and above 0, got {self.delta!r}"
            )
        if not (self.min_duration_hours >= 0.0 and self.default_duration_hours >= 0.0):
            raise BadStatistics("durations must be numbers that are not negative")


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything one tick knows; lifts in fitness points, treatment minus control.

    `interval`, `median_unbiased`: of the latest look. `missingness_bound`: Delta less what missing sessions
    could hide, at the look's own bound (`MissingBound.lower`). `validity`: one answer per check. `harm`: one
    per breaker guardrail, `Failed` when it tripped. `guardrails`: one per dimension and cost, `Passed` when
    non-inferior. `rank_test`: only where `rank_test_needed` says so. `ending`: why this is the final look,
    else None.
    """

    age_hours: float
    interval: Interval | NotEnoughData
    median_unbiased: float | NotEnoughData
    missingness_bound: float | NotEnoughData | Broken
    validity: tuple[Answer, ...]
    guardrails: tuple[Answer, ...]
    harm: tuple[Answer, ...] = ()
    rank_test: Answer | None = None
    futile: bool = False
    ending: EndReason | None = None

    def __post_init__(self) -> None:
        numbers = [self.age_hours]
        numbers += [x for x in (self.median_unbiased, self.missingness_bound) if isinstance(x, float | int)]
        if isinstance(self.interval, Interval):
            numbers += [self.interval.low, self.interval.high]
        if not all(math.isfinite(x) for x in numbers):
            raise BadStatistics(
                "evidence holds a number that is not finite; pass NotEnoughData or Broken instead"
            )
        if isinstance(self.interval, Interval) and self.interval.low > self.interval.high:
            raise BadStatistics(f"the interval {self.interval} ends before it starts")


def conclude(evidence: Evidence, rules: Rules) -> Conclusion:
    """Return the first conclusion that matches, in the order of the types above.

    Promotion needs every check passed: an answer that is missing, broken or not yet known never promotes.
    An `Inconclusive` that does not end is `extended` once `default_duration_hours` have passed.
    """
    void = [a.why for a in evidence.validity if isinstance(a, Failed)]
    if void:
        return Invalid("; ".join(void))
    tripped = [a.why for a in evidence.harm if isinstance(a, Failed)]
    if tripped:
        return Harmful("; ".join(tripped), evidence.interval)
    interval, middle = evidence.interval, evidence.median_unbiased
    if isinstance(interval, NotEnoughData) or isinstance(middle, NotEnoughData):
        return _open(evidence, rules, (), unproven=False)
    if interval.high < 0.0:
        return Harmful(f"the lift is below 0: at most {interval.high:.4f}", interval)
    wins = interval.low > 0.0 and middle >= rules.delta
    blocks = _blocks(evidence, rules)
    if wins and not blocks:
        return Promote(interval, middle)
    if interval.low > -rules.delta and interval.high < rules.delta:
        return Equivalent(interval)
    keep = _keep_reason(evidence, rules, interval, middle)
    if keep is not None:
        return KeepControl(interval, keep)
    unproven = wins and any(not isinstance(a, Passed) for a in evidence.guardrails)
    return _open(evidence, rules, blocks if wins else (), unproven=unproven)


def rank_test_needed(*, planned_per_arm: float, blinded_skewness: float, traffic_split: float) -> bool:
    """Return whether `test = "auto"` asks for Brunner-Munzel besides the mean test.

    True when the planned sessions per arm are under 25 skewness^2 (Cochran's rule; skewness of the blinded
    pool), or the share of traffic to treatment lies outside 0.4 to 0.6. Raises: BadStatistics.
    """
    if not (math.isfinite(blinded_skewness) and planned_per_arm > 0.0 and 0.0 < traffic_split < 1.0):
        raise BadStatistics(
            "needs a finite skewness, a planned sample above 0 and a split in (0, 1); got "
            f"{blinded_skewness!r}, {planned_per_arm!r}, {traffic_split!r}"
        )
    return planned_per_arm < 25.0 * blinded_skewness**2 or not 0.4 <= traffic_split <= 0.6


def _blocks(evidence: Evidence, rules: Rules) -> tuple[str, ...]:
    """Why a winning composite may not be promoted now; empty when nothing stands in the way."""
    named = [
        *(("validity", a) for a in evidence.validity),
        *(("harm check", a) for a in evidence.harm if isinstance(a, Broken)),
        *(("guardrail", a) for a in evidence.guardrails),
    ]
    if evidence.rank_test is not None:
        named.append(("rank test", evidence.rank_test))
    found = [f"{what}: {a.why}" for what, a in named if not isinstance(a, Passed)]
    if not evidence.validity:
        found.append("validity: no check ran")
    if not evidence.guardrails:
        found.append("guardrail: no check ran")
    bound = evidence.missingness_bound
    if isinstance(bound, NotEnoughData | Broken):
        found.append(f"missing sessions: {bound.why}")
    elif bound <= 0.0:
        found.append(f"missing sessions could explain the lift (worst case {bound:.4f})")
    if evidence.age_hours < rules.min_duration_hours:
        found.append(f"runs for {evidence.age_hours:g} h, {rules.min_duration_hours:g} h needed")
    return tuple(found)


def _keep_reason(evidence: Evidence, rules: Rules, interval: Interval, middle: float) -> KeepReason | None:
    if interval.high < rules.delta:
        return "no_relevant_gain"
    if evidence.futile and rules.act_on_futility:
        return "futile"
    if evidence.ending is not None and interval.low > 0.0 and middle < rules.delta:
        return "below_min_effect"
    return None


def _open(evidence: Evidence, rules: Rules, blocks: tuple[str, ...], *, unproven: bool) -> Inconclusive:
    if evidence.ending is not None:
        reason: OpenReason = "guardrail_unproven" if unproven else evidence.ending
        return Inconclusive(reason, evidence.interval, ends=True, blocked_by=blocks)
    late = evidence.age_hours >= rules.default_duration_hours
    return Inconclusive("extended" if late else "running", evidence.interval, ends=False, blocked_by=blocks)
