"""Latency outliers and drifts of models and tools."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from prx.analyze.found import Detected, Found, Undecided, name_of
from prx.analyze.observe import Seen
from prx.analyze.rates import benjamini_hochberg
from prx.analyze.rules import AnalyzeRules
from prx.analyze.sample import evidence_of
from prx.domain.answers import NotEnoughData
from prx.domain.findings import FindingKind
from prx.domain.layers import Layer
from prx.stats.twosample import mann_whitney

_MAX_VALUES = 500
_RECENT = 0.75


@dataclass(frozen=True, slots=True)
class Shift:
    """Log milliseconds of one side against the other, one value per unit."""

    p_value: float
    ratio: float
    median_ms: float
    rest_ms: float
    units: int


@dataclass(frozen=True, slots=True)
class _Subject:
    what: str
    name: str
    kind: str


def latency_outliers(rows: Sequence[Seen], rules: AnalyzeRules) -> Detected:
    """Models and tools slower than the others of their kind, or than themselves before.

    One-sided Mann-Whitney test on unit medians of log latency, Benjamini-Hochberg over all subjects, and
    medians at least `latency_ratio` apart. "Recent" is the last quarter of the window.
    """
    shifts: dict[_Subject, Shift] = {}
    for what in ("model", "tool"):
        shifts |= _shifts(rows, what, rules)
    if not shifts:
        why = f"no model or tool has {rules.latency_units} units with a latency beside as many others"
        return Detected(undecided=(Undecided("latency_outlier", NotEnoughData(why)),))
    kept = benjamini_hochberg({s: shift.p_value for s, shift in shifts.items()}, rules.detector_alpha)
    slow = [s for s in shifts if s in kept and shifts[s].ratio >= rules.latency_ratio]
    return Detected(tuple(_found(subject, shifts[subject], rows, rules) for subject in slow))


def _shifts(rows: Sequence[Seen], what: str, rules: AnalyzeRules) -> dict[_Subject, Shift]:
    names = sorted({name for seen in rows for name, _ in _waits(seen, what)})
    times = [seen.at for seen in rows]
    cut = min(times) + (max(times) - min(times)) * _RECENT if times else None
    shifts: dict[_Subject, Shift] = {}
    for name in names:
        own = [(s, v) for s in rows for n, v in _waits(s, what) if n == name]
        rest = [(s, v) for s in rows for n, v in _waits(s, what) if n != name]
        sides = {"outlier": (own, rest)}
        if cut is not None:
            sides["drift"] = ([(s, v) for s, v in own if s.at >= cut], [(s, v) for s, v in own if s.at < cut])
        for kind, (slow, usual) in sides.items():
            shift = shift_of(_unit_medians(slow), _unit_medians(usual), rules)
            if shift is not None:
                shifts[_Subject(what, name, kind)] = shift
    return shifts


def _waits(seen: Seen, what: str) -> tuple[tuple[str, float], ...]:
    return seen.models if what == "model" else seen.tools


def _unit_medians(values: Sequence[tuple[Seen, float]]) -> list[float]:
    by_unit: dict[str, list[float]] = {}
    for seen, value in values:
        by_unit.setdefault(seen.unit, []).append(value)
    return [statistics.median(found) for found in by_unit.values()]


def shift_of(mine: Sequence[float], rest: Sequence[float], rules: AnalyzeRules) -> Shift | None:
    """How much slower `mine` is than `rest`; None below `latency_units` values on a side or all equal."""
    if min(len(mine), len(rest)) < rules.latency_units:
        return None
    own, other = mine[:_MAX_VALUES], rest[:_MAX_VALUES]
    tested = mann_whitney(other, own, method="asymptotic", alternative="greater")
    if isinstance(tested, NotEnoughData):
        return None
    here, there = statistics.median(mine), statistics.median(rest)
    return Shift(tested.p_value, math.exp(here - there), math.exp(here), math.exp(there), len(mine))


def _found(subject: _Subject, shift: Shift, rows: Sequence[Seen], rules: AnalyzeRules) -> Found:
    than = "than it was before" if subject.kind == "drift" else f"than other {subject.what}s"
    is_model = subject.what == "model"
    waits = {s.session_id: dict(_waits(s, subject.what)).get(subject.name) for s in rows}
    hit = sorted(
        (s for s in rows if waits[s.session_id] is not None), key=lambda s: -(waits[s.session_id] or 0)
    )
    if is_model:
        advice = f"Let routing weigh latency more, or move intents off {name_of(subject.name)}."
    else:
        advice = (
            f"Give tool {name_of(subject.name)} a shorter timeout, cache its results or call it less often."
        )
    return Found(
        kind=FindingKind.LATENCY_OUTLIER,
        severity=1 + sum(shift.ratio >= step for step in (1.5, 2.0, 4.0, 8.0)),
        summary=f"{subject.what} {name_of(subject.name)} is {shift.ratio:.1f} times slower {than}: median "
        f"{shift.median_ms:.0f} ms against {shift.rest_ms:.0f} ms over {shift.units} units.",
        recommendation=advice,
        layer=Layer.STRATEGY,
        evidence=evidence_of(hit, rules.evidence_per_user),
        model=subject.name if is_model else None,
        tool=None if is_model else subject.name,
        part=subject.kind,
        numbers={
            "ratio": shift.ratio,
            "median_ms": shift.median_ms,
            "rest_median_ms": shift.rest_ms,
            "units": float(shift.units),
            "p_value": shift.p_value,
        },
    )
