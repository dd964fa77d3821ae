"""Repeated failures, clustered by intent and model."""

from collections import Counter
from collections.abc import Sequence

from prx.analyze.cells import Cell, concentrated, severity_of
from prx.analyze.found import Detected, Found, Undecided, name_of
from prx.analyze.observe import Seen
from prx.analyze.rates import fisher_upper
from prx.analyze.rules import AnalyzeRules
from prx.analyze.sample import evidence_of, one_per_unit
from prx.domain.answers import NotEnoughData
from prx.domain.findings import FindingKind
from prx.domain.layers import Layer

_MAINLY = 0.8


def repeated_failures(rows: Sequence[Seen], rules: AnalyzeRules) -> Detected:
    """Cells (intent, model) in which sessions fail more often than elsewhere."""
    cells = concentrated(rows, key=lambda s: (s.intent, s.model), bad=lambda s: s.bad, rules=rules)
    if isinstance(cells, NotEnoughData):
        return Detected(undecided=(Undecided("repeated_failure", cells),))
    return Detected(tuple(_found(cell, rows, rules) for cell in cells))


def _found(cell: Cell, rows: Sequence[Seen], rules: AnalyzeRules) -> Found:
    intent, model = cell.bad[0].intent, cell.bad[0].model
    better = better_model(rows, intent, model, rules)
    rate = cell.rate
    where = f"intent {name_of(intent)} on model {name_of(model)}"
    prompt = _main_prompt(cell.bad)
    if better is not None:
        advice = f"Route {name_of(intent)} to {name_of(better)}, which fails less often on the same intent."
    elif prompt is not None:
        advice = f"Say in prompt {name_of(prompt)} what {name_of(intent)} needs; no model does better here."
    else:
        advice = (
            f"Read the evidence sessions of {name_of(intent)}; correct the tool or instruction they share."
        )
    return Found(
        kind=FindingKind.REPEATED_FAILURE,
        severity=severity_of(rate),
        summary=f"{where}: {rate.count} of {rate.total} units failed ({rate.count / rate.total:.0%}, 95 % "
        f"{rate.low:.0%} to {rate.high:.0%}), elsewhere {rate.rest_count} of {rate.rest_total}.",
        recommendation=advice,
        layer=Layer.STRATEGY if better is not None else Layer.PROMPT,
        evidence=evidence_of(cell.bad, rules.evidence_per_user),
        intent=intent,
        model=model,
        prompt=prompt,
        alternative=better,
        rate=rate,
    )


def better_model(
    rows: Sequence[Seen], intent: str | None, model: str | None, rules: AnalyzeRules
) -> str | None:
    """Another model that fails significantly less on the same intent (Bonferroni over models), if any."""
    if intent is None or model is None:
        return None
    mine = [s for s in rows if s.intent == intent and s.bad is not None]
    units = {
        name: list(one_per_unit(s for s in mine if s.model == name))
        for name in sorted({s.model for s in mine if s.model})
    }
    own = units.pop(model, [])
    counts = {n: (sum(bool(s.bad) for s in u), len(u)) for n, u in units.items() if len(u) >= rules.min_units}
    failed = sum(bool(s.bad) for s in own)
    alpha = rules.detector_alpha / max(1, len(counts))
    passing = {n: c for n, c in counts.items() if fisher_upper(failed, len(own), *c) <= alpha}
    return min(passing, key=lambda n: (passing[n][0] / passing[n][1], n), default=None)


def _main_prompt(bad: Sequence[Seen]) -> str | None:
    served = Counter(name for seen in bad for name in seen.prompts)
    return next((name for name, n in sorted(served.items()) if n >= _MAINLY * len(bad)), None)
