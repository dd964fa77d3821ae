"""An agent's fitness out of the stored session scores."""

from datetime import datetime, timedelta

from prx.domain.answers import NotEnoughData
from prx.domain.records import PRODUCTION
from prx.domain.scores import OwnMetric
from prx.fitness.deployment import (
    TREND_SPAN,
    DeploymentFitness,
    HistoryPoint,
    Trend,
    current_fitness,
    fitness_history,
    fitness_trend,
    window_start,
)
from prx.fitness.rules import FitnessRules
from prx.records.port import RecordStore
from prx.settings import Settings

Answer = DeploymentFitness | NotEnoughData


def rules_from(settings: Settings, token_targets: tuple[float, float] | None = None) -> FitnessRules:
    """The rules that the configuration gives; `token_targets` are the frozen ones, for `auto`."""
    given = settings.fitness
    fixed = (given.target_tokens, given.ceiling_tokens)
    target, ceiling = fixed if not isinstance(fixed[0], str) else token_targets or (None, None)
    return FitnessRules(
        weights=given.weights.as_dict(),
        evaluation_window_hours=given.evaluation_window_hours,
        min_sessions_for_score=given.min_sessions_for_score,
        minimum_acceptable=given.thresholds.minimum_acceptable,
        regression_delta=given.thresholds.regression_delta,
        target_ms=given.target_ms,
        ceiling_ms=given.ceiling_ms,
        target_tokens=None if target is None else float(target),
        ceiling_tokens=None if ceiling is None else float(ceiling),
        session_idle_minutes=settings.record.session_idle_minutes,
        outcome_window_hours=settings.experiments.outcome_window_hours,
        metrics=own_metrics(settings),
    )


def own_metrics(settings: Settings) -> tuple[OwnMetric, ...]:
    """The operator's own metrics, in order of name."""
    return tuple(
        OwnMetric(
            name=name,
            type=metric.type,
            better=metric.better,
            window_hours=metric.window_hours,
            role=metric.role,
            margin=metric.margin,
        )
        for name, metric in sorted(settings.metrics.items())
    )


def fitness_now(
    records: RecordStore, agent: str, rules: FitnessRules, now: datetime
) -> tuple[Answer, Trend | NotEnoughData]:
    """Fitness of the window that ends now, and its difference to the window 7 days earlier."""
    current = _window(records, agent, rules, now)
    if isinstance(current, NotEnoughData):
        newest = _newest(records, agent, now)
        if newest is not None and newest < now - rules.window:
            told = f"{current.why}; the newest session began {newest:%Y-%m-%d %H:%M} UTC, see --history"
            current = NotEnoughData(told)
    return current, fitness_trend(current, _window(records, agent, rules, now - TREND_SPAN))


def fitness_over(
    records: RecordStore, agent: str, rules: FitnessRules, now: datetime, last: timedelta
) -> tuple[HistoryPoint, ...]:
    """One point per evaluation window of the last `last`, oldest first."""
    since = now - last
    scores = records.scores(agent=agent, env=PRODUCTION, since=window_start(since, rules), until=now)
    return tuple(fitness_history(scores, rules=rules, since=since, now=now))


def _window(records: RecordStore, agent: str, rules: FitnessRules, end: datetime) -> Answer:
    scores = records.scores(agent=agent, env=PRODUCTION, since=end - rules.window, until=end)
    return current_fitness(scores, rules=rules, now=end)


def _newest(records: RecordStore, agent: str, now: datetime) -> datetime | None:
    found = records.traces(agent=agent, env=PRODUCTION, until=now, newest_first=True, limit=1)
    return next((trace.start.at for trace in found), None)
