"""Metrics that a change may not hurt: harm, watched without pause, and the gate at promotion."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from prx.domain.answers import Answer, Failed, NotEnoughData, Passed
from prx.domain.errors import BadStatistics
from prx.stats.anytime import critical_z
from prx.stats.effects import ArmMean, delta_lift
from prx.stats.estimator import Composite
from prx.stats.tails import t_interval, t_to_z

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Guardrail:
    """What counts as a regression of one metric, all in its own unit (share of control if relative).

    margin: largest regression that the gate accepts; harm_at: smallest estimated regression that may trip;
    tuned_at: regression that the watch sees soonest.
    """

    margin: float = 0.10
    harm_at: float = 0.05
    tuned_at: float = 0.10
    better: Literal["higher", "lower"] = "higher"
    scale: Literal["absolute", "relative"] = "absolute"

    def __post_init__(self) -> None:
        if not all(math.isfinite(v) and v > 0 for v in (self.margin, self.harm_at, self.tuned_at)):
            raise BadStatistics(f"the limits of a guardrail must be finite and above 0: {self}")


@dataclass(frozen=True, slots=True)
class Reading:
    """Change of one metric so that below 0 is worse, with its error."""

    change: float
    se: float
    df: float


Results = Mapping[str, Composite | NotEnoughData]


def harm(
    results: Results, rules: Mapping[str, Guardrail] | None = None, *, family: float = 0.01
) -> dict[str, Answer]:
    """Which guardrails trip, at this tick and any other: one-sided, anytime, Bonferroni over `results`.

    Failed (`guardrail_harm`) where the asymptotic confidence sequence at family / number lies below 0 and
    the estimate is at or beyond `harm_at`; else Passed, which says only that no harm is shown. Every
    guardrail of the experiment must be in `results` at every tick, with or without data. Range: as
    `anytime.asymptotic_interval`.
    """
    return {
        name: _harm(name, found, _rule(name, rules), family / len(results)) for name, found in results.items()
    }


def gate(
    results: Results, rules: Mapping[str, Guardrail] | None = None, *, confidence: float = 0.95
) -> dict[str, Answer]:
    """Whether each metric is shown to be non-inferior at promotion, each at `confidence` one-sided.

    Passed: the bound lies above -margin. Failed (`guardrail_regression`): the whole interval lies below it.
    Otherwise not enough data. No Bonferroni, since all have to pass (intersection-union test, Berger 1982).
    """
    return {name: _gate(name, found, _rule(name, rules), confidence) for name, found in results.items()}


def reading(result: Composite, rule: Guardrail) -> Reading | NotEnoughData:
    """The metric's change in the unit of its guardrail, signed so that below 0 is worse."""
    change, se = result.delta, result.se
    if rule.scale == "relative":
        lift = delta_lift(
            ArmMean(result.control.mean, result.control.variance),
            ArmMean(result.treatment.mean, result.treatment.variance),
            df=result.df,
        )
        if isinstance(lift, NotEnoughData):
            return lift
        change, se = lift.estimate, lift.se
    return Reading(change if rule.better == "higher" else -change, se, result.df)


def watch_information(drop: float, alpha: float) -> float:
    """1 / se^2 at which a regression of `drop` just reaches the one-sided anytime boundary at `alpha`."""
    return (critical_z(1.0, planned_information=1.0, alpha=alpha, sides=1) / drop) ** 2


def _harm(name: str, found: Composite | NotEnoughData, rule: Guardrail, alpha: float) -> Answer:
    read = found if isinstance(found, NotEnoughData) else reading(found, rule)
    if isinstance(read, NotEnoughData):
        return NotEnoughData(f"{name}: {read.why}")
    planned = watch_information(rule.tuned_at, alpha)
    limit = critical_z(read.se**-2, planned_information=planned, alpha=alpha, sides=1)
    z = t_to_z(read.change / read.se, read.df)
    said = f"{name} changed by {_said(read.change, rule)} (z {z:.2f}, limit -{limit:.2f})"
    if z <= -limit and read.change <= -rule.harm_at + _ROUNDING:
        return Failed(said, "guardrail_harm")
    if z <= -limit:
        return Passed(f"{said}: worse for certain, but by less than {_size(rule.harm_at, rule)}")
    return Passed(f"{said}: no harm shown")


def _gate(name: str, found: Composite | NotEnoughData, rule: Guardrail, confidence: float) -> Answer:
    read = found if isinstance(found, NotEnoughData) else reading(found, rule)
    if isinstance(read, NotEnoughData):
        return NotEnoughData(f"{name}: {read.why}")
    bounds = t_interval(read.change, read.se, read.df, 2 * confidence - 1)
    ends = (bounds.low, bounds.high) if rule.better == "higher" else (bounds.high, bounds.low)
    said = f"{name} changed by {_said(ends[0], rule)} to {_said(ends[1], rule)}"
    if bounds.low > -rule.margin:
        return Passed(f"{said}, within the margin of {_size(rule.margin, rule)}")
    if bounds.high < -rule.margin:
        return Failed(f"{said}, worse than the margin of {_size(rule.margin, rule)}", "guardrail_regression")
    return NotEnoughData(f"{said}: not yet shown to be within the margin of {_size(rule.margin, rule)}")


def _said(change: float, rule: Guardrail) -> str:
    shown = change if rule.better == "higher" else -change
    return ("-" if shown < 0 else "+") + _size(abs(shown), rule)


def _size(change: float, rule: Guardrail) -> str:
    return f"{change:.1%}" if rule.scale == "relative" else f"{change:.4g}"


def _rule(name: str, rules: Mapping[str, Guardrail] | None) -> Guardrail:
    return Guardrail() if rules is None or name not in rules else rules[name]
