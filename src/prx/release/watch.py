"""Watch after a promotion: has fitness dropped for certain, and by enough to matter?"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from prx.domain.answers import NotEnoughData

COMPOSITE = "fitness"
MIN_UNITS = 20


@dataclass(frozen=True, slots=True)
class WatchRules:
    """Drops that undo a promotion, in fitness points, and the certainty that is asked for.

    `limits`: of own metrics, in their own units; their levels come with a sign so that more is better.
    """

    regression_delta: float = 0.05
    max_regression: float = 0.10
    alpha: float = 0.01 / 7
    min_sessions: int = 30
    tuned_sessions: float = 300.0
    limits: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Level:
    """Mean score of a metric over sessions, its variance between sessions and between days.

    `days`: number of days that the sessions come from, at least 1; days with few sessions count in part.
    `design`: how many times larger the variance of the mean is than with independent sessions, because those
    of one unit are alike; at least 1. `units`: number of them.
    """

    mean: float
    variance: float
    sessions: int
    day_variance: float
    days: float
    design: float = 1.0
    units: int = 0

    def squared_error(self, day_variance: float) -> float:
        """Variance of the mean, with this spread between days."""
        return self.design * self.variance / self.sessions + day_variance / self.days


@dataclass(frozen=True, slots=True)
class Moments:
    """Sessions of one day: how many, their mean, and the sum of squares around it."""

    sessions: int
    mean: float
    squares: float


def moments(values: Sequence[float]) -> Moments:
    """Of the scores of one day, at least one."""
    mean = math.fsum(values) / len(values)
    return Moments(len(values), mean, math.fsum((value - mean) ** 2 for value in values))


def level_of(days: Sequence[Moments], *, design: float = 1.0, units: int = 0) -> Level:
    """The level of sessions given day by day, at least one.

    The variance between days is the moment estimate of a one-way layout with unequal days (Searle, Casella
    and McCulloch, Variance Components, 1992, section 3.6), never below 0; one day tells nothing of it. `days`
    is the number of equally full days that would give the mean the same error (Kish).
    """
    sessions = sum(day.sessions for day in days)
    mean = math.fsum(day.sessions * day.mean for day in days) / sessions
    inside = math.fsum(day.squares for day in days)
    across = math.fsum(day.sessions * (day.mean - mean) ** 2 for day in days)
    full_days = sessions**2 / sum(day.sessions**2 for day in days)
    between = 0.0
    if len(days) > 1 and sessions > len(days):
        within = inside / (sessions - len(days))
        size = sessions - sessions / full_days
        between = max(0.0, (across - (len(days) - 1) * within) / size)
    return Level(mean, (inside + across) / sessions, sessions, between, full_days, max(1.0, design), units)


def _day_spread(old: Level, now: Level) -> float:
    """Variance between days of both sides together, each by the days that could tell of it."""
    weights = old.days - 1.0, now.days - 1.0
    total = sum(weights)
    return (weights[0] * old.day_variance + weights[1] * now.day_variance) / total if total > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Drop:
    """How far a metric fell: estimate and anytime-valid lower bound, fitness points."""

    metric: str
    estimate: float
    lower: float
    sessions: int
    limit: float

    @property
    def certain(self) -> bool:
        """The drop is at least as large as allowed, and surely above zero."""
        return self.estimate >= self.limit and self.lower > 0


@dataclass(frozen=True, slots=True)
class Regressed:
    """At least one metric fell for certain."""

    drops: tuple[Drop, ...]

    @property
    def why(self) -> str:
        """The numbers, for the incident."""
        return "; ".join(
            f"{d.metric} fell by {d.estimate:.3f} (surely above {d.lower:.3f}, limit {d.limit:g}) "
            f"over {d.sessions} sessions"
            for d in self.drops
        )


@dataclass(frozen=True, slots=True)
class Holding:
    """No certain drop so far."""

    drops: tuple[Drop, ...]


def watch(
    before: Mapping[str, Level], after: Mapping[str, Level], rules: WatchRules, *, concurrent: bool = False
) -> Regressed | Holding | NotEnoughData:
    """Compare each metric (and the composite, under the name `fitness`) with its level before.

    `concurrent`: `before` is of the units held back on the previous version over the same days, so the days
    fall on both alike and add nothing to the error; it needs 20 units a side.

    Bound: one-sided normal-mixture confidence sequence for a mean with estimated variance, tuned at
    `tuned_sessions` (Waudby-Smith et al., arXiv:2103.06476, Theorem 2.2 with the one-sided boundary of
    its appendix B.8), so that a look after every session is allowed. The spread between days is that of
    both sides together: the first days after a change cannot show it alone.
    """
    drops = []
    for metric, now in after.items():
        old = before.get(metric)
        if old is None or min(now.sessions, old.sessions) < rules.min_sessions:
            continue
        if concurrent and min(now.units, old.units) < MIN_UNITS:
            continue
        usual = rules.regression_delta if metric == COMPOSITE else rules.max_regression
        limit = rules.limits.get(metric, usual)
        estimate = old.mean - now.mean
        between = 0.0 if concurrent else _day_spread(old, now)
        error = math.sqrt(old.squared_error(between) + now.squared_error(between))
        seen = 1 / (1 / now.sessions + 1 / old.sessions) if concurrent else now.sessions
        lower = estimate - _critical(seen, rules) * error
        drops.append(Drop(metric, estimate, lower, now.sessions, limit))
    if not drops:
        units = f" of {MIN_UNITS} units on either side" if concurrent else ""
        return NotEnoughData(f"no metric has {rules.min_sessions} sessions{units} since the promotion")
    certain = tuple(drop for drop in drops if drop.certain)
    return Regressed(certain) if certain else Holding(tuple(drops))


def _critical(sessions: float, rules: WatchRules) -> float:
    rho2 = (
        -2 * math.log(2 * rules.alpha) + math.log(-2 * math.log(2 * rules.alpha) + 1)
    ) / rules.tuned_sessions
    x = sessions * rho2
    return math.sqrt(2 * (1 + 1 / x) * math.log(1 + math.sqrt(x + 1) / (2 * rules.alpha)))
