"""One bounded step on one typed parameter of the strategy."""

from dataclasses import dataclass

import msgspec

from prx.domain.answers import Failed, NotEnoughData
from prx.domain.changes import StrategyPatch
from prx.domain.findings import Finding, FindingKind
from prx.domain.parameters import stepped
from prx.domain.plaintext import quoted
from prx.domain.versions import RouterWeights, Strategy


@dataclass(frozen=True, slots=True)
class Share:
    """`good` of `total` answers, with bounds 0..1 of the rate as the caller's interval gives them."""

    good: int
    total: int
    low: float
    high: float


def strategy_step(finding: Finding, strategy: Strategy) -> StrategyPatch | NotEnoughData | Failed:
    """The one step that `finding` calls for: a default model for its intent, more weight on latency, or a
    shorter timeout of a slow tool."""
    if finding.intent is not None and finding.alternative is not None:
        return default_model_step(finding.intent, finding.alternative, strategy)
    if finding.kind is FindingKind.LATENCY_OUTLIER and finding.model is not None:
        return router_step("epsilon", strategy.router, up=True)
    if finding.kind is FindingKind.LATENCY_OUTLIER and finding.tool is not None:
        path = f"timeouts.{finding.tool}"
        present = strategy.timeouts.get(finding.tool)
        if present is not None:
            return numeric_step(path, present, up=False)
    return NotEnoughData("no parameter of the strategy answers this finding")


def default_model_step(intent: str, model: str, strategy: Strategy) -> StrategyPatch | Failed:
    """Make `model` the default for `intent`."""
    old = strategy.default_models.get(intent)
    if old == model:
        return Failed(f"{quoted(model, 60)} is already the default for {quoted(intent, 60)}", "no_change")
    return StrategyPatch(path=f"default_models.{intent}", old=old, new=model)


def router_step(term: str, weights: RouterWeights, *, up: bool) -> StrategyPatch | Failed:
    """Move one router weight by one step of the parameter table."""
    return numeric_step(f"router.{term}", float(msgspec.structs.asdict(weights)[term]), up=up)


def numeric_step(path: str, present: float, *, up: bool) -> StrategyPatch | Failed:
    """One step of the parameter table on a number."""
    new = stepped(path, present, up=up)
    if new is None:
        return Failed(f"{quoted(path, 80)} is at the end of its range ({present:g})", "out_of_range")
    return StrategyPatch(path=path, old=present, new=new)


def automix_step(
    threshold: float, *, kept: Share, escalated_cheap: Share, wanted: float
) -> StrategyPatch | NotEnoughData | Failed:
    """Move the Automix threshold by one step, in the direction that the answers near it call for.

    kept: cheap answers just above the threshold, which were served; escalated_cheap: cheap answers just
    below it, which were thrown away although known; wanted: success rate that must hold, 0..1. Up when kept
    answers are surely worse than wanted; down when the thrown-away ones are surely good enough.
    """
    if kept.total and kept.high < wanted:
        return numeric_step("automix_threshold", threshold, up=True)
    if escalated_cheap.total and escalated_cheap.low >= wanted:
        return numeric_step("automix_threshold", threshold, up=False)
    return NotEnoughData("the answers near the threshold do not clearly call for another one")
