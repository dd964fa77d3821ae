"""Facts of each model for the router, measured from records once a day."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import timedelta
from statistics import median

from prx.domain.records import PRODUCTION, Interaction, Terminal, Trace
from prx.domain.routing import START_ELO, ModelFacts, ModelTable
from prx.domain.scores import SessionScore
from prx.engine.turn import Turn

WINDOW = timedelta(days=14)
MIN_SESSIONS = 30
_POINTS = 400 / math.log(10)

Counts = dict[tuple[str, str], list[int]]


def refresh_model_facts(turn: Turn) -> ModelTable:
    """Measure the agent's models and keep the table where the router finds it."""
    scores = {score.session_id: score for score in turn.scores(turn.now - WINDOW)}
    traces = turn.context.records.traces(
        agent=turn.agent, env=PRODUCTION, since=turn.now - WINDOW, until=turn.now
    )
    table = ModelTable(agent=turn.agent, at=turn.now, models=measured(traces, scores))
    with turn.transaction() as tx:
        tx.put(table)
    return table


def measured(traces: Iterable[Trace], scores: Mapping[str, SessionScore]) -> tuple[ModelFacts, ...]:
    """One entry per model seen. A session counts for its main model, and only where its success is known;
    a rate of fewer than MIN_SESSIONS is left out. Medians of price and time are over completed calls."""
    counts: Counts = defaultdict(lambda: [0, 0])
    sessions: dict[str, int] = defaultdict(int)
    prices: dict[str, list[float]] = defaultdict(list)
    waits: dict[str, list[float]] = defaultdict(list)
    for trace in traces:
        for call in trace.interactions:
            _note(call, prices, waits)
        score = scores.get(trace.start.session_id)
        if score is None or score.model is None:
            continue
        sessions[score.model] += 1
        if score.success is not None and score.intent is not None:
            cell = counts[score.model, score.intent]
            cell[0] += score.success
            cell[1] += 1
    large = {key: (good, total) for key, (good, total) in counts.items() if total >= MIN_SESSIONS}
    ratings = _ratings(large)
    return tuple(
        ModelFacts(
            model=model,
            capability={i: round(g / t, 6) for (m, i), (g, t) in sorted(large.items()) if m == model},
            elo=ratings.get(model, START_ELO),
            price_usd=median(prices[model]) if prices[model] else None,
            latency_ms=median(waits[model]) if waits[model] else None,
            sessions=sessions[model],
        )
        for model in sorted({*waits, *prices, *sessions})
    )


def _note(call: Interaction, prices: dict[str, list[float]], waits: dict[str, list[float]]) -> None:
    if call.terminal is not Terminal.COMPLETED or not call.model:
        return
    if call.cost_usd is not None:
        prices[call.model].append(call.cost_usd)
    if call.latency_ms is not None:
        waits[call.model].append(call.latency_ms)


def _ratings(cells: Mapping[tuple[str, str], tuple[int, int]]) -> dict[str, float]:
    """Elo from log odds of success against the mean of all models on the same intent, so that a model is not
    rated up for having been given the easy requests (400 points are odds of 10 to 1, as in Elo 1978)."""
    odds = {key: math.log((good + 0.5) / (total - good + 0.5)) for key, (good, total) in cells.items()}
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for intent in {i for _, i in odds}:
        beside = {m: value for (m, i), value in odds.items() if i == intent}
        if len(beside) < 2:
            continue
        mean = sum(beside.values()) / len(beside)
        for model, value in beside.items():
            weight = cells[model, intent][1]
            sums[model][0] += weight * (value - mean)
            sums[model][1] += weight
    return {model: round(START_ELO + _POINTS * total / weight, 3) for model, (total, weight) in sums.items()}
