"""Cost inefficiency: a cheaper model that does as well on the same intent."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from prx.analyze.found import Detected, Found, Undecided, name_of
from prx.analyze.observe import Seen
from prx.analyze.rates import difference_lower
from prx.analyze.rules import AnalyzeRules
from prx.analyze.sample import evidence_of, grouped, one_per_unit
from prx.domain.answers import NotEnoughData
from prx.domain.findings import FindingKind
from prx.domain.layers import Layer


@dataclass(frozen=True, slots=True)
class _Side:
    model: str
    rows: tuple[Seen, ...]
    good: int
    cost: float

    @property
    def total(self) -> int:
        return len(self.rows)


def cost_inefficiencies(rows: Sequence[Seen], rules: AnalyzeRules) -> Detected:
    """Per intent, a model whose sessions cost more than those of a non-inferior cheaper one.

    Non-inferior: lower bound of the difference in success above -`margin`, Bonferroni over all pairs.
    Cheaper: median cost per session at most `cost_ratio` of the other's. Observational: routing may have
    sent easier requests to the cheaper model, so this only suggests what an experiment then tests.
    """
    known = [s for s in rows if s.cost is not None and s.bad is not None and s.intent and s.model]
    pairs: list[tuple[str, _Side, _Side]] = []
    for intent, members in grouped(known, lambda s: s.intent).items():
        sides = [_side(m, g) for m, g in grouped(members, lambda s: s.model).items()]
        large = [s for s in sides if s.total >= rules.cost_units]
        pairs += [
            (str(intent), dear, cheap)
            for dear in large
            for cheap in large
            if cheap.cost <= rules.cost_ratio * dear.cost and dear.cost > 0
        ]
    if not pairs:
        why = f"no intent has two models of different price with {rules.cost_units} units each"
        return Detected(undecided=(Undecided("cost_inefficiency", NotEnoughData(why)),))
    alpha = rules.detector_alpha / len(pairs)
    best: dict[tuple[str, str], tuple[_Side, _Side, float]] = {}
    for intent, dear, cheap in pairs:
        low = difference_lower(cheap.good, cheap.total, dear.good, dear.total, alpha)
        seen = best.get((intent, dear.model))
        if low > -rules.margin and (seen is None or cheap.cost < seen[1].cost):
            best[intent, dear.model] = (dear, cheap, low)
    return Detected(tuple(_found(intent, *sides, rules) for (intent, _), sides in sorted(best.items())))


def _side(model: object, members: Sequence[Seen]) -> _Side:
    mine = tuple(one_per_unit(members))
    cost = statistics.median(seen.cost or 0.0 for seen in mine)
    return _Side(str(model), mine, sum(not seen.bad for seen in mine), cost)


def _found(intent: str, dear: _Side, cheap: _Side, low: float, rules: AnalyzeRules) -> Found:
    saved = 1 - cheap.cost / dear.cost
    return Found(
        kind=FindingKind.COST_INEFFICIENCY,
        severity=1 + sum(saved >= step for step in (0.3, 0.5, 0.7, 0.9)),
        summary=f"Intent {name_of(intent)}: model {name_of(cheap.model)} succeeds for {cheap.good} of "
        f"{cheap.total} units at ${cheap.cost:.5f} a session, {name_of(dear.model)} for {dear.good} of "
        f"{dear.total} at ${dear.cost:.5f}; observed, not randomised.",
        recommendation=f"Make {name_of(cheap.model)} the default for {name_of(intent)} and test it live.",
        layer=Layer.STRATEGY,
        evidence=evidence_of(dear.rows, rules.evidence_per_user),
        intent=intent,
        model=dear.model,
        alternative=cheap.model,
        numbers={
            "cost_usd": dear.cost,
            "alternative_cost_usd": cheap.cost,
            "saved_share": saved,
            "success": dear.good / dear.total,
            "alternative_success": cheap.good / cheap.total,
            "difference_low": low,
            "units": float(dear.total + cheap.total),
        },
    )
