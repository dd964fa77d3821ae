"""Watch after a promotion: has fitness dropped for certain, and by enough to matter?"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from prx.domain.answers import NotEnoughData

COMPOSITE = "fitness"


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

    `days`: number of days that the sessions come from, at least 1.
    """

    mean: float
    variance: float
    sessions: int
    day_variance: float
    days: float

    @property
    def squared_error(self) -> float:
        """Variance of the mean, day-to-day spread included."""
        return self.variance / self.sessions + self.day_variance / self.days


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
    before: Mapping[str, Level], after: Mapping[str, Level], rules: WatchRules
) -> Regressed | Holding | NotEnoughData:
    """Compare each metric (and the composite, under the name `fitness`) with its frozen level before.

    Bound: one-sided normal-mixture confidence sequence for a mean with estimated variance, tuned at
    `tuned_sessions` (Waudby-Smith et al., arXiv:2103.06476, Theorem 2.2 with the one-sided boundary of
    its appendix B.8), so that a look after every session is allowed.
    """
    drops = []
    for metric, now in after.items():
        old = before.get(metric)
        if old is None or now.sessions < rules.min_sessions or old.sessions < rules.min_sessions:
            continue
        usual = rules.regression_delta if metric == COMPOSITE else rules.max_regression
        limit = rules.limits.get(metric, usual)
        estimate = old.mean - now.mean
        error = math.sqrt(old.squared_error + now.squared_error)
        lower = estimate - _critical(now.sessions, rules) * error
        drops.append(Drop(metric, estimate, lower, now.sessions, limit))
    if not drops:
        return NotEnoughData(f"no metric has {rules.min_sessions} sessions since the promotion")
    certain = tuple(drop for drop in drops if drop.certain)
    return Regressed(certain) if certain else Holding(tuple(drops))


def _critical(sessions: int, rules: WatchRules) -> float:
    rho2 = (
        -2 * math.log(2 * rules.alpha) + math.log(-2 * math.log(2 * rules.alpha) + 1)
    ) / rules.tuned_sessions
    x = sessions * rho2
    return math.sqrt(2 * (1 + 1 / x) * math.log(1 + math.sqrt(x + 1) / (2 * rules.alpha)))
