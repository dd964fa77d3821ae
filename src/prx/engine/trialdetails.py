"""Everything that a look shows beside its conclusion, as plain values for record, screen and JSON."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from prx.domain.answers import Answer, Broken, Failed, NotEnoughData, Passed
from prx.domain.scores import DIMENSIONS
from prx.stats.effects import effect_sizes
from prx.stats.estimator import Composite
from prx.stats.missing import MissingBound
from prx.stats.multiplicity import bonferroni, holm
from prx.stats.twosample import brunner_munzel, mann_whitney
from prx.stats.unitsums import Floats

_WORDS = {Passed: "pass", Failed: "fail", NotEnoughData: "not_enough_data", Broken: "error"}


def answer_words(answer: Answer) -> dict[str, str]:
    """An answer as plain values."""
    return {"answer": _WORDS[type(answer)], "why": answer.why}


def dimension_details(measured: Mapping[str, Composite | NotEnoughData]) -> dict[str, Any]:
    """Per metric: both arms, the difference with its naive 95 % interval, p-values, coverages."""
    p_values = {name: c.p_value for name, c in measured.items() if isinstance(c, Composite)}
    size = max(len(DIMENSIONS), len(p_values))
    plain, stepped = bonferroni(p_values, tests=size), holm(p_values, tests=size)
    return {
        name: {"not_enough_data": found.why}
        if isinstance(found, NotEnoughData)
        else {**_one(found), "p_bonferroni": plain[name], "p_holm": stepped[name]}
        for name, found in measured.items()
    }


def missing_details(bound: MissingBound | NotEnoughData) -> dict[str, Any]:
    """What missing sessions could hide."""
    if isinstance(bound, NotEnoughData):
        return {"not_enough_data": bound.why}
    return {"total": bound.total, "worst_case": bound.delta, "bounds": dict(bound.bounds)}


def rank_details(found: Composite, values: tuple[Floats, Floats]) -> dict[str, Any]:
    """Rank tests and effect sizes, reported beside the test that decides."""
    ranks, munzel = mann_whitney(*values), brunner_munzel(*values)
    return {
        "mann_whitney_p": None if isinstance(ranks, NotEnoughData) else ranks.p_value,
        "brunner_munzel_p": None if isinstance(munzel, NotEnoughData) else munzel.p_value,
        "effects": _plain(effect_sizes(found, *values)),
    }


def _one(found: Composite) -> dict[str, float]:
    interval, part = found.interval(), found.dimensions[0]
    return {
        "control": part.control,
        "treatment": part.treatment,
        "difference": found.delta,
        "low": interval.low,
        "high": interval.high,
        "p_naive": found.p_value,
        "control_coverage": part.control_coverage,
        "treatment_coverage": part.treatment_coverage,
    }


def _plain(value: Any) -> Any:
    if isinstance(value, NotEnoughData):
        return {"not_enough_data": value.why}
    if is_dataclass(value):
        return {part.name: _plain(getattr(value, part.name)) for part in fields(value)}
    return value
