"""Everything that a look shows beside its conclusion, as plain values for record, screen and JSON."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from prx.domain.answers import Answer, Broken, Failed, NotEnoughData, Passed
from prx.domain.scores import DIMENSIONS
from prx.stats.effects import effect_sizes
from prx.stats.estimator import Composite
from prx.stats.missing import MissingBound
from prx.stats.secondary import Measured, Secondary, secondary_tests
from prx.stats.stopping import Design
from prx.stats.stopping import Look as Taken
from prx.stats.twosample import brunner_munzel, mann_whitney
from prx.stats.unitsums import Floats

_WORDS = {Passed: "pass", Failed: "fail", NotEnoughData: "not_enough_data", Broken: "error"}


def answer_words(answer: Answer) -> dict[str, str]:
    """An answer as plain values."""
    return {"answer": _WORDS[type(answer)], "why": answer.why}


def dimension_details(
    measured: Mapping[str, Composite | NotEnoughData],
    design: Design,
    looks: tuple[Taken, ...],
    earlier: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """Per metric: both arms, the difference with its naive 95 % interval, p-values, coverages.

    Each metric is tested over all looks against a boundary of its own. looks: with the one just taken;
    earlier: what this function gave at those before it.
    """
    rows = {
        name: {"not_enough_data": found.why} if isinstance(found, NotEnoughData) else _one(found)
        for name, found in measured.items()
    }
    history = {name: [_measured(past.get(name)) for past in (*earlier, rows)] for name in rows}
    tests = secondary_tests(design, looks, history, tests=max(len(DIMENSIONS), len(rows)))
    return {name: {**row, **_adjusted(tests.get(name))} for name, row in rows.items()}


def missing_details(bound: MissingBound | NotEnoughData, bound_z: float) -> dict[str, Any]:
    """What missing sessions could hide; `lower`: its limit at the bound of the look, if any."""
    if isinstance(bound, NotEnoughData):
        return {"not_enough_data": bound.why}
    lower = None if math.isinf(bound_z) else bound.lower(bound_z)
    return {"total": bound.total, "worst_case": bound.delta, "lower": lower, "bounds": dict(bound.bounds)}


def rank_details(found: Composite, values: tuple[Floats, Floats]) -> dict[str, Any]:
    """Rank tests and effect sizes, reported beside the test that decides."""
    ranks, munzel = mann_whitney(*values), brunner_munzel(*values)
    return {
        "mann_whitney_p": None if isinstance(ranks, NotEnoughData) else ranks.p_value,
        "brunner_munzel_p": None if isinstance(munzel, NotEnoughData) else munzel.p_value,
        "effects": _plain(effect_sizes(found, *values)),
    }


def _measured(row: Mapping[str, Any] | None) -> Measured | None:
    return Measured(row["z"], row["se"] ** -2) if row and "z" in row else None


def _adjusted(test: Secondary | None) -> dict[str, Any]:
    if test is None:
        return {}
    bound = None if math.isinf(test.bound_z) else test.bound_z
    return {
        "p_value": test.p_value,
        "p_bonferroni": test.bonferroni,
        "p_holm": test.holm,
        "bound": bound,
    }


def _one(found: Composite) -> dict[str, float]:
    interval, part = found.interval(), found.dimensions[0]
    return {
        "control": part.control,
        "treatment": part.treatment,
        "difference": found.delta,
        "se": found.se,
        "z": found.z,
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
