"""The fitness of a deployment: one agent's sessions of a window, its trend and its history."""

import math
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from prx.domain.answers import NotEnoughData
from prx.domain.errors import InvalidInput
from prx.domain.scores import DIMENSIONS, OwnMetric, SessionScore
from prx.fitness.curves import log_linear, percentile
from prx.fitness.metrics import RATE
from prx.fitness.numbers import exact
from prx.fitness.rules import FitnessRules

TREND_SPAN = timedelta(days=7)
STABLE_WITHIN = 0.01
_LATENCY = "response_latency"
WHY_MISSING: Mapping[str, str] = {
    "response_relevance": "no answer was judged",
    "task_completion": "no task outcome was told and no tool call has a known result",
    "response_latency": "no call carries a latency",
    "token_efficiency": "no session has token counts, a known success and a frozen token target",
    "memory_precision": "no recalled memory was judged",
    "user_satisfaction": "no thumb, and no correction detection before a later user turn",
}


@dataclass(frozen=True, slots=True)
class DimensionFitness:
    """One dimension: `score` in 0..1, `weight` renormalised over dimensions with data, `sessions` that
    have it and the share of all sessions that they are, `configured` the weight before."""

    name: str
    score: float
    weight: float
    sessions: int
    coverage: float
    configured: float


@dataclass(frozen=True, slots=True)
class MissingDimension:
    """A weighted dimension that no session of the window has, with the reason."""

    name: str
    weight: float
    why: str


@dataclass(frozen=True, slots=True)
class LatencyPercentiles:
    """Of the window's calls, in milliseconds; `flagged` when a total stood in for a first token."""

    p50_ms: float
    p95_ms: float
    calls: int
    flagged: bool


@dataclass(frozen=True, slots=True)
class MetricFitness:
    """One own metric, in its unit: mean over the `sessions` that have it, None without any; of a rate the
    share of all sessions so far."""

    metric: OwnMetric
    value: float | None
    sessions: int
    coverage: float


@dataclass(frozen=True, slots=True)
class DeploymentFitness:
    """Fitness in 0..1 of the sessions that started in [start, end); `coverage`: weight with data."""

    score: float
    start: datetime
    end: datetime
    sessions: int
    coverage: float
    dimensions: tuple[DimensionFitness, ...]
    missing: tuple[MissingDimension, ...] = ()
    latency: LatencyPercentiles | None = None
    metrics: tuple[MetricFitness, ...] = ()


@dataclass(frozen=True, slots=True)
class Trend:
    """This window minus the one 7 days ago, in fitness points. `same_dimensions` False: the windows do
    not have data for the same dimensions, so part of the difference is not the agent's."""

    delta: float
    word: str
    same_dimensions: bool


@dataclass(frozen=True, slots=True)
class HistoryPoint:
    """One window of the history; `running` while it is not over."""

    start: datetime
    end: datetime
    sessions: int
    answer: DeploymentFitness | NotEnoughData
    running: bool


def composite(dimensions: Mapping[str, float], weights: Mapping[str, float]) -> float | None:
    """sum(score x weight) over the weighted dimensions present, weights renormalised; None for none."""
    present = [(dimensions[name], w) for name, w in weights.items() if w > 0 and name in dimensions]
    total = math.fsum(w for _, w in present)
    return math.fsum(score * w for score, w in present) / total if total > 0 else None


def deployment_fitness(
    scores: Iterable[SessionScore], *, rules: FitnessRules, start: datetime, end: datetime
) -> DeploymentFitness | NotEnoughData:
    """Fitness of the sessions of `scores` that started in [start, end); the caller has picked one agent
    and env. Streams: memory grows with the calls that have a latency only (8 bytes each)."""
    return _Window(start, end).filled(scores).answer(rules)


def current_fitness(
    scores: Iterable[SessionScore], *, rules: FitnessRules, now: datetime
) -> DeploymentFitness | NotEnoughData:
    """Fitness of the evaluation window that ends at `now`."""
    return deployment_fitness(scores, rules=rules, start=now - rules.window, end=now)


def fitness_trend(
    current: DeploymentFitness | NotEnoughData, before: DeploymentFitness | NotEnoughData
) -> Trend | NotEnoughData:
    """`current` minus `before` (the window 7 days earlier), and improving, declining or stable for it."""
    if isinstance(current, NotEnoughData):
        return NotEnoughData("no score now")
    if isinstance(before, NotEnoughData):
        return NotEnoughData(f"7 days ago: {before.why}")
    delta = exact(current.score) - exact(before.score)
    bound = exact(STABLE_WITHIN)
    word = "stable" if abs(delta) <= bound else "improving" if delta > 0 else "declining"
    now_has, had = ({d.name for d in side.dimensions} for side in (current, before))
    return Trend(float(delta), word, now_has == had)


def fitness_history(
    scores: Iterable[SessionScore], *, rules: FitnessRules, since: datetime, now: datetime
) -> Iterator[HistoryPoint]:
    """One point per window from `since` to `now`, oldest first, windows without a session included.

    Windows are aligned to the epoch in UTC, so that the same window is the same row whenever it is shown.
    `scores` come oldest first, and start at `window_start(since, rules)` or earlier.
    Raises: InvalidInput when they are not in order.
    """
    window = _Window(window_start(since, rules), window_start(since, rules) + rules.window)
    for score in scores:
        if score.started_at < window.start:
            if window.sessions or window.start > window_start(since, rules):
                raise InvalidInput("scores for a history must come oldest first; sort them by start")
            continue
        if score.started_at >= now:
            break
        while score.started_at >= window.end:
            yield window.point(rules, now)
            window = _Window(window.end, window.end + rules.window)
        window.add(score)
    while window.start < now:
        yield window.point(rules, now)
        window = _Window(window.end, window.end + rules.window)


def window_start(at: datetime, rules: FitnessRules) -> datetime:
    """Start of the aligned history window that holds `at`."""
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    return epoch + (at - epoch) // rules.window * rules.window


def fitness_alert(fitness: DeploymentFitness | NotEnoughData, rules: FitnessRules) -> str | None:
    """What to tell when fitness is below `minimum_acceptable`; None when it is not, or is not known."""
    if isinstance(fitness, NotEnoughData) or exact(fitness.score) >= exact(rules.minimum_acceptable):
        return None
    floor = Decimal(str(rules.minimum_acceptable))
    worst = min(fitness.dimensions, key=lambda d: (d.score - 1) * d.weight)
    return (
        f"fitness {exact(fitness.score):.3f} of {fitness.sessions} sessions is below "
        f"the minimum {floor:.2f}; "
        f"{worst.name} costs most ({worst.score:.2f}); see `prx evolution findings`"
    )


class _Window:
    """Running sums of one window."""

    def __init__(self, start: datetime, end: datetime) -> None:
        self.start, self.end = start, end
        self.sessions = 0
        self._sums = dict.fromkeys(DIMENSIONS, 0.0)
        self._counts = dict.fromkeys(DIMENSIONS, 0)
        self._told: dict[str, tuple[float, int]] = {}
        self._waits = array("d")
        self._flagged = False

    def add(self, score: SessionScore) -> None:
        self.sessions += 1
        for name, value in score.dimensions.items():
            if name in self._sums:
                self._sums[name] += value
                self._counts[name] += 1
        for name, value in score.metrics.items():
            total, count = self._told.get(name, (0.0, 0))
            self._told[name] = total + value, count + 1
        self._waits.extend(score.ttft_ms)
        self._flagged = self._flagged or score.ttft_flagged

    def filled(self, scores: Iterable[SessionScore]) -> "_Window":
        for score in scores:
            if self.start <= score.started_at < self.end:
                self.add(score)
        return self

    def point(self, rules: FitnessRules, now: datetime) -> HistoryPoint:
        return HistoryPoint(self.start, self.end, self.sessions, self.answer(rules), self.end > now)

    def answer(self, rules: FitnessRules) -> DeploymentFitness | NotEnoughData:
        if self.sessions < rules.min_sessions_for_score:
            return NotEnoughData(
                f"{self.sessions} sessions in the window, {rules.min_sessions_for_score} needed"
            )
        latency = self._percentiles()
        scored = {name: self._score(name, latency, rules) for name in DIMENSIONS if self._counts[name]}
        value = composite(scored, rules.weights)
        if value is None:
            return NotEnoughData(
                f"{self.sessions} sessions in the window, none has data for a weighted dimension"
            )
        weights = {name: rules.weights.get(name, 0.0) for name in DIMENSIONS}
        covered = math.fsum(w for name, w in weights.items() if name in scored)
        return DeploymentFitness(
            score=value,
            start=self.start,
            end=self.end,
            sessions=self.sessions,
            coverage=min(1.0, covered),
            dimensions=tuple(self._dimension(n, scored[n], weights[n], covered) for n in scored),
            missing=tuple(
                MissingDimension(n, weights[n], WHY_MISSING[n])
                for n in DIMENSIONS
                if n not in scored and weights[n] > 0
            ),
            latency=latency,
            metrics=tuple(map(self._metric, rules.metrics)),
        )

    def _metric(self, metric: OwnMetric) -> MetricFitness:
        total, count = self._told.get(metric.name, (0.0, 0))
        if metric.type == RATE:
            # Sessions of which nothing was told yet have no event so far; leaving them out would show 100 %.
            count = self.sessions
        return MetricFitness(metric, total / count if count else None, count, count / self.sessions)

    def _dimension(self, name: str, score: float, configured: float, covered: float) -> DimensionFitness:
        count = self._counts[name]
        share = count / self.sessions
        return DimensionFitness(name, score, configured / covered, count, share, configured)

    def _score(self, name: str, latency: LatencyPercentiles | None, rules: FitnessRules) -> float:
        if name == _LATENCY and latency is not None:
            return sum(
                0.5 * log_linear(ms, target=rules.target_ms, ceiling=rules.ceiling_ms)
                for ms in (latency.p50_ms, latency.p95_ms)
            )
        return self._sums[name] / self._counts[name]

    def _percentiles(self) -> LatencyPercentiles | None:
        if not self._waits:
            return None
        return LatencyPercentiles(
            percentile(self._waits, 0.50), percentile(self._waits, 0.95), len(self._waits), self._flagged
        )
