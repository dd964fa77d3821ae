"""Fitness as text, in the shape of the source documents, and as JSON."""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from prx.domain.answers import NotEnoughData
from prx.domain.scores import DIMENSIONS
from prx.domain.times import show_time
from prx.fitness.deployment import (
    DeploymentFitness,
    DimensionFitness,
    HistoryPoint,
    MetricFitness,
    Trend,
)
from prx.fitness.numbers import exact, rounded


@dataclass(frozen=True, slots=True)
class _Words:
    title: str
    header: tuple[str, str, str, str]
    widths: tuple[int, int, int]
    trend: str
    of_trend: dict[str, str]
    coverage: str
    no_data_for: str
    renormalised: str
    not_enough: str
    uneven: str
    local: str


_ENGLISH = _Words(
    title="Current Fitness Score",
    header=("Dimension", "Score", "Weight", "Contribution"),
    widths=(21, 8, 8),
    trend="Trend (last 7 days)",
    of_trend={"improving": "improving", "declining": "declining", "stable": "stable"},
    coverage="Coverage",
    no_data_for="no data for",
    renormalised="weights renormalised over the rest",
    not_enough="not enough data",
    uneven="the two windows do not have the same dimensions",
    local="Scores compare only within this deployment, not between installations.",
)
_SPANISH = _Words(
    title="Puntuacion de aptitud actual",
    header=("Dimension", "Puntuacion", "Peso", "Contribucion"),
    widths=(21, 12, 8),
    trend="Tendencia (ultimos 7 dias)",
    of_trend={"improving": "mejorando", "declining": "empeorando", "stable": "estable"},
    coverage="Cobertura",
    no_data_for="sin datos de",
    renormalised="pesos renormalizados sobre el resto",
    not_enough="datos insuficientes",
    uneven="las dos ventanas no tienen las mismas dimensiones",
    local="Las puntuaciones solo se comparan dentro de este despliegue, no entre instalaciones.",
)


def fitness_text(
    fitness: DeploymentFitness | NotEnoughData,
    trend: Trend | NotEnoughData,
    *,
    lang: str = "en",
    breakdown: bool = False,
) -> str:
    """What `prx evolution fitness` prints, without a final line break.

    Spanish has its own words and columns; the source documents print the English table in every other
    language. A dimension without data shows a dash and is named below the table; the weights shown then
    are the renormalised ones, so that contributions add up to the score.
    """
    words = _SPANISH if lang.lower().startswith("es") else _ENGLISH
    if isinstance(fitness, NotEnoughData):
        return f"{words.title}: {words.not_enough} ({fitness.why})\n\n{words.local}"
    lines = [f"{words.title}: {rounded(fitness.score, 2)}", "", *_table(fitness, words)]
    if fitness.missing:
        lines += ["", _coverage_line(fitness, words)]
    if breakdown:
        lines += ["", *_breakdown(fitness)]
    lines += ["", _trend_line(trend, words), "", words.local]
    return "\n".join(lines)


def history_text(points: Iterable[HistoryPoint]) -> str:
    """What `prx evolution fitness --history` prints, oldest window first."""
    lines = [_row(("Window (UTC)", "Fitness", "Sessions", "Coverage"), (22, 9, 10))]
    for point in points:
        start = point.start.strftime("%Y-%m-%d %H:%M")
        if isinstance(point.answer, NotEnoughData):
            cells = (start, "-", str(point.sessions), f"not enough data ({point.answer.why})")
        else:
            share = f"{rounded(point.answer.coverage * 100, 0)}%"
            cells = (start, rounded(point.answer.score, 2), str(point.sessions), share)
        lines.append(_row(cells, (22, 9, 10)) + (" (running)" if point.running else ""))
    return "\n".join([*lines, "", _ENGLISH.local])


def fitness_json(
    fitness: DeploymentFitness | NotEnoughData, trend: Trend | NotEnoughData, *, breakdown: bool = True
) -> dict[str, Any]:
    """The same answer for programs, unrounded; `status` is scored or not_enough_data."""
    note = {"comparable": "only within this deployment"}
    if isinstance(fitness, NotEnoughData):
        return {"status": "not_enough_data", "fitness": None, "why": fitness.why, **note}
    answer: dict[str, Any] = {
        "status": "scored",
        "fitness": fitness.score,
        "window": {"start": show_time(fitness.start), "end": show_time(fitness.end)},
        "sessions": fitness.sessions,
        "coverage": fitness.coverage,
        "dimensions": {d.name: _dimension_json(d, breakdown) for d in fitness.dimensions},
        "missing": [{"dimension": m.name, "weight": m.weight, "why": m.why} for m in fitness.missing],
        "trend": trend_json(trend),
        **note,
    }
    if fitness.metrics:
        answer["metrics"] = {m.metric.name: _metric_json(m) for m in fitness.metrics}
    if breakdown:
        answer["latency"] = None
        if fitness.latency is not None:
            answer["latency"] = {
                "p50_ms": fitness.latency.p50_ms,
                "p95_ms": fitness.latency.p95_ms,
                "calls": fitness.latency.calls,
                "total_stood_in_for_first_token": fitness.latency.flagged,
            }
    return answer


def _metric_json(found: MetricFitness) -> dict[str, Any]:
    own = found.metric
    return {
        "value": found.value,
        "type": own.type,
        "better": own.better,
        "role": own.role,
        "sessions": found.sessions,
        "coverage": found.coverage,
    }


def trend_json(trend: Trend | NotEnoughData) -> dict[str, Any]:
    """Difference to the window 7 days ago, or why there is none."""
    if isinstance(trend, NotEnoughData):
        return {"status": "not_enough_data", "why": trend.why}
    return {
        "status": "known",
        "delta": trend.delta,
        "word": trend.word,
        "days": 7,
        "same_dimensions": trend.same_dimensions,
    }


def history_json(points: Iterable[HistoryPoint]) -> list[dict[str, Any]]:
    """One object per window, oldest first."""
    return [_point_json(point) for point in points]


def _point_json(point: HistoryPoint) -> dict[str, Any]:
    row: dict[str, Any] = {
        "start": show_time(point.start),
        "end": show_time(point.end),
        "sessions": point.sessions,
        "running": point.running,
    }
    if isinstance(point.answer, NotEnoughData):
        return {**row, "status": "not_enough_data", "fitness": None, "why": point.answer.why}
    return {
        **row,
        "status": "scored",
        "fitness": point.answer.score,
        "coverage": point.answer.coverage,
        "dimensions": {d.name: d.score for d in point.answer.dimensions},
    }


def _dimension_json(dimension: DimensionFitness, breakdown: bool) -> dict[str, Any]:
    row = {
        "score": dimension.score,
        "weight": dimension.weight,
        "contribution": dimension.score * dimension.weight,
    }
    if breakdown:
        row |= {
            "configured_weight": dimension.configured,
            "sessions": dimension.sessions,
            "coverage": dimension.coverage,
        }
    return row


def _table(fitness: DeploymentFitness, words: _Words) -> list[str]:
    rows = {d.name: (d.name, rounded(d.score, 2), rounded(d.weight, 2), _product(d.score, d.weight))
            for d in fitness.dimensions}  # fmt: skip
    rows |= {m.name: (m.name, "-", "-", "-") for m in fitness.missing}
    shown = [rows[name] for name in DIMENSIONS if name in rows]
    return [_row(cells, words.widths) for cells in (words.header, *shown)]


def _row(cells: tuple[str, str, str, str], widths: tuple[int, int, int]) -> str:
    padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=False))
    return "".join([*padded, cells[3]])


def _product(score: float, weight: float) -> str:
    product: Decimal = exact(score) * exact(weight)
    return rounded(product, 3)


def _coverage_line(fitness: DeploymentFitness, words: _Words) -> str:
    share = rounded(fitness.coverage * 100, 0)
    missing = ", ".join(m.name for m in fitness.missing)
    return f"{words.coverage}: {share}%; {words.no_data_for} {missing}; {words.renormalised}"


def _trend_line(trend: Trend | NotEnoughData, words: _Words) -> str:
    if isinstance(trend, NotEnoughData):
        return f"{words.trend}: {words.not_enough} ({trend.why})"
    shown = rounded(trend.delta, 2)
    sign = "" if shown.startswith("-") else "+"
    note = "" if trend.same_dimensions else f"; {words.uneven}"
    return f"{words.trend}: {sign}{shown} ({words.of_trend[trend.word]}){note}"


def _breakdown(fitness: DeploymentFitness) -> list[str]:
    start, end = (at.strftime("%Y-%m-%d %H:%M") for at in (fitness.start, fitness.end))
    lines = [f"Window: {start} to {end} UTC, {fitness.sessions} sessions", ""]
    lines.append(_row(("Dimension", "n", "Coverage", "Detail"), (21, 8, 10)))
    found = {d.name: d for d in fitness.dimensions}
    why = {m.name: m.why for m in fitness.missing}
    for name in DIMENSIONS:
        if name in found:
            share = f"{rounded(found[name].coverage * 100, 0)}%"
            detail = _latency_detail(fitness) if name == "response_latency" else ""
            lines.append(_row((name, str(found[name].sessions), share, detail), (21, 8, 10)).rstrip())
        elif name in why:
            lines.append(_row((name, "0", "0%", f"missing: {why[name]}"), (21, 8, 10)))
    return [*lines, *_metrics(fitness.metrics)]


def _metrics(found: tuple[MetricFitness, ...]) -> list[str]:
    if not found:
        return []
    lines = ["", _row(("Metric", "Value", "n", "Coverage and use"), (21, 12, 8))]
    for one in found:
        own = one.metric
        used = f"{rounded(one.coverage * 100, 0)}%; {own.type}, {own.better} is better, {own.role}"
        value = "-" if one.value is None else rounded(one.value, 3)
        missing = "" if one.value is not None else f"; no feedback is called {own.name}"
        lines.append(_row((own.name, value, str(one.sessions), used + missing), (21, 12, 8)))
    return lines


def _latency_detail(fitness: DeploymentFitness) -> str:
    if fitness.latency is None:
        return ""
    flag = "; total time stood in where the first token is not known" if fitness.latency.flagged else ""
    p50, p95 = rounded(fitness.latency.p50_ms, 0), rounded(fitness.latency.p95_ms, 0)
    return f"p50 {p50} ms, p95 {p95} ms over {fitness.latency.calls} calls{flag}"
