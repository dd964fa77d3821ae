"""What the time before a change says: coverage, correlation, spread, traffic, failure rates."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from statistics import fmean, pvariance

from prx.domain.answers import NotEnoughData
from prx.domain.scores import DIMENSIONS, OwnMetric, SessionScore
from prx.release.breaker import Rate
from prx.release.watch import COMPOSITE, Level, level_of, moments
from prx.stats.correlation import intraclass_correlation

PRE_PERIOD = timedelta(days=14)
FAILURE_BASELINE = timedelta(days=7)
DEFAULT_RHO = 0.2
_LEAST_SPAN_HOURS = 1.0


@dataclass(frozen=True, slots=True)
class PrePeriod:
    """Facts about eligible, closed production sessions before an experiment.

    `sd` and `mean` are of the session composite in fitness points (renormalised over the dimensions that a
    session has), or of the primary metric in its unit; `rho` the intra-class correlation of it,
    `rho_measured` False where it is the default.
    """

    sessions: int
    units: int
    sessions_per_hour: float
    coverage: Mapping[str, float]
    mean: float
    sd: float
    rho: float
    rho_measured: bool

    @property
    def sessions_per_unit(self) -> float:
        """Mean number of sessions of a unit, at least 1."""
        return max(1.0, self.sessions / self.units) if self.units else 1.0


def eligible(score: SessionScore) -> bool:
    """Whether a session may enter an experiment: it has a unit to randomise."""
    return score.unit is not None and score.unit_source != "none"


def composite_of(score: SessionScore, weights: Mapping[str, float]) -> float | None:
    """Weighted mean over the dimensions that the session has; None when it has none."""
    present = {d: w for d, w in weights.items() if w > 0 and d in score.dimensions}
    total = sum(present.values())
    return sum(w * score.dimensions[d] for d, w in present.items()) / total if total else None


def measure(
    scores: Iterable[SessionScore],
    weights: Mapping[str, float],
    *,
    since: datetime,
    until: datetime,
    primary: str | None = None,
) -> PrePeriod | NotEnoughData:
    """Facts of the sessions in `scores`; they are read once, in any order.

    `primary`: own metric whose mean, spread and correlation are wanted instead of the composite's.
    """
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    seen: dict[str, int] = dict.fromkeys(DIMENSIONS, 0)
    values: list[float] = []
    sessions = 0
    first = until
    for score in scores:
        if not eligible(score):
            continue
        sessions += 1
        first = min(first, score.started_at)
        for dimension in score.dimensions:
            seen[dimension] = seen.get(dimension, 0) + 1
        value = composite_of(score, weights) if primary is None else score.metrics.get(primary)
        if primary is not None:
            seen[primary] = seen.get(primary, 0) + (value is not None)
        if value is not None and score.unit is not None:
            values.append(value)
            entry = sums[score.unit]
            entry[0] += 1
            entry[1] += value
            entry[2] += value * value
    if len(values) < 2:
        return NotEnoughData(f"{len(values)} scored sessions with a unit since {since:%Y-%m-%d}")
    rows = list(sums.values())
    found = intraclass_correlation([r[0] for r in rows], [r[1] for r in rows], [r[2] for r in rows])
    hours = max(_LEAST_SPAN_HOURS, (until - first).total_seconds() / 3600)
    return PrePeriod(
        sessions=sessions,
        units=len(sums),
        sessions_per_hour=sessions / hours,
        coverage={d: n / sessions for d, n in seen.items()},
        mean=fmean(values),
        sd=pvariance(values) ** 0.5,
        rho=DEFAULT_RHO if isinstance(found, NotEnoughData) else found,
        rho_measured=not isinstance(found, NotEnoughData),
    )


def failure_rate(scores: Iterable[SessionScore]) -> Rate:
    """Sessions with an agent failure among those where it is known."""
    known = [score.failed for score in scores if score.failed is not None]
    return Rate(sum(known), len(known))


def failure_rates(scores: Iterable[SessionScore]) -> tuple[Rate, dict[int, Rate]]:
    """The failure rate of all sessions, and of those that began in each UTC hour 0..23."""
    counts: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for score in scores:
        if score.failed is not None:
            count = counts[score.started_at.astimezone(UTC).hour]
            count[0] += score.failed
            count[1] += 1
    hours = {hour: Rate(failed, known) for hour, (failed, known) in sorted(counts.items())}
    return Rate(sum(r.failures for r in hours.values()), sum(r.sessions for r in hours.values())), hours


def sessions_per_day(scores: Iterable[SessionScore], until: datetime) -> float:
    """Sessions a day of those that have a unit to randomise, since the first of them and at least one day."""
    count, first = 0, until
    for score in scores:
        if eligible(score):
            count, first = count + 1, min(first, score.started_at)
    return count / max(1.0, (until - first) / timedelta(days=1))


def levels(
    scores: Iterable[SessionScore], weights: Mapping[str, float], metrics: Iterable[OwnMetric] = ()
) -> dict[str, Level]:
    """Level of the composite, of each dimension and of each own metric, with the spread between days and the
    likeness of the sessions of one unit.

    Own metrics count once their session is closed, and are turned so that more is better.
    """
    signs = {metric.name: -1.0 if metric.better == "lower" else 1.0 for metric in metrics}
    found: dict[str, _Values] = defaultdict(_Values)
    for score in scores:
        day, unit = f"{score.started_at:%Y-%m-%d}", score.unit or score.session_id
        value = composite_of(score, weights)
        if value is not None:
            found[COMPOSITE].add(day, unit, value)
        for dimension, part in score.dimensions.items():
            found[dimension].add(day, unit, part)
        for name, told in score.metrics.items() if score.closed else ():
            if name in signs:
                found[name].add(day, unit, signs[name] * told)
    return {metric: values.level() for metric, values in found.items()}


@dataclass(slots=True)
class _Values:
    """Scores of one metric by day, and count and sum of them by unit."""

    days: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    units: dict[str, list[float]] = field(default_factory=lambda: defaultdict(lambda: [0.0, 0.0]))

    def add(self, day: str, unit: str, value: float) -> None:
        self.days[day].append(value)
        self.units[unit][0] += 1
        self.units[unit][1] += value

    def level(self) -> Level:
        flat = level_of([moments(values) for values in self.days.values()])
        spread = flat.variance * flat.sessions
        # the variance of a mean over clusters, linearised, over that of as many single sessions
        alike = sum((total - count * flat.mean) ** 2 for count, total in self.units.values())
        return replace(flat, design=max(1.0, alike / spread) if spread > 0 else 1.0, units=len(self.units))
