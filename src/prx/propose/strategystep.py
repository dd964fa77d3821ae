"""One bounded step on one typed parameter of the strategy."""

from dataclasses import dataclass

import msgspec

from prx.domain.answers import Failed, NotEnoughData
from prx.domain.changes import StrategyPatch
from prx.domain.findings import Finding, FindingKind
from prx.domain.plaintext import quoted
from prx.domain.versions import RouterWeights, Strategy
from prx.propose.draft import ProposeRules

_WEIGHT_RANGE = (0.0, 1.0)
_SMALLEST_STEP = 0.01
_AUTOMIX_RANGE = (0.3, 0.95)


@dataclass(frozen=True, slots=True)
class Share:
    """`good` of `total` answers, with bounds 0..1 of the rate as the caller's interval gives them."""

    good: int
    total: int
    low: float
    high: float


def strategy_step(
    finding: Finding, strategy: Strategy, rules: ProposeRules
) -> StrategyPatch | NotEnoughData | Failed:
    """The one step that `finding` calls for: a default model for its intent, or more weight on latency."""
    if finding.intent is not None and finding.alternative is not None:
        return default_model_step(finding.intent, finding.alternative, strategy)
    if finding.kind is FindingKind.LATENCY_OUTLIER and finding.model is not None:
        return router_step("epsilon", strategy.router, up=True, rules=rules)
    return NotEnoughData("no parameter of the strategy answers this finding")


def default_model_step(intent: str, model: str, strategy: Strategy) -> StrategyPatch | Failed:
    """Make `model` the default for `intent`."""
    old = strategy.default_models.get(intent)
    if old == model:
        return Failed(f"{quoted(model, 60)} is already the default for {quoted(intent, 60)}", "no_change")
    return StrategyPatch(path=f"default_models.{intent}", old=old, new=model)


def router_step(
    term: str, weights: RouterWeights, *, up: bool, rules: ProposeRules
) -> StrategyPatch | Failed:
    """Move one router weight by `rules.step` of itself (0.01 from zero), kept within 0..1."""
    old = float(msgspec.structs.asdict(weights)[term])
    size = old * rules.step if old > 0 else _SMALLEST_STEP
    low, high = _WEIGHT_RANGE
    new = round(min(high, max(low, old + size if up else old - size)), 6)
    if new == old:
        return Failed(f"router.{term} is at the end of its range ({old:g})", "out_of_range")
    return StrategyPatch(path=f"router.{term}", old=old, new=new)


def automix_step(
    threshold: float, *, kept: Share, escalated_cheap: Share, wanted: float, rules: ProposeRules
) -> StrategyPatch | NotEnoughData | Failed:
    """Move the Automix threshold by one step, in the direction that the answers near it call for.

    kept: cheap answers just above the threshold, which were served; escalated_cheap: cheap answers just
    below it, which were thrown away although known; wanted: success rate that must hold, 0..1. Up when kept
    answers are surely worse than wanted; down when the thrown-away ones are surely good enough.
    """
    if kept.total and kept.high < wanted:
        new = threshold + rules.automix_step
    elif escalated_cheap.total and escalated_cheap.low >= wanted:
        new = threshold - rules.automix_step
    else:
        return NotEnoughData("the answers near the threshold do not clearly call for another one")
    low, high = _AUTOMIX_RANGE
    new = round(min(high, max(low, new)), 6)
    if new == threshold:
        return Failed(f"the Automix threshold is at the end of its range ({threshold:g})", "out_of_range")
    return StrategyPatch(path="automix_threshold", old=threshold, new=new)
