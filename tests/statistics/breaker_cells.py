"""Cells for the circuit breaker: how often it trips without cause, and how soon it finds a regression.

The world is vectorised; the rule is not: every tick calls `prx.release.breaker.tick`, with what its caller in
the engine would give it, and keeps `slow_since` as the engine does.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import numpy as np
from monte_carlo import Cell

from prx.release.breaker import LAST_CALLS, BreakerRules, Hold, Rate, Trip, concurrent_rate, frozen_rate, tick

Array = np.ndarray
CREATED = datetime(2026, 3, 3, 7, 0, tzinfo=UTC)
TICK = timedelta(minutes=5)
PER_HOUR = 12
RATES = (5, 10, 20, 50, 100, 200, 500)
CALL_FAILS = 0.05
CALLS_PER_SESSION, ICC = 5, 0.3
RULES, STRICT = BreakerRules(), BreakerRules(strict_ratio=True)


@dataclass(frozen=True)
class Traffic:
    """`calls_per_hour`; sessions of one call, or of 5 whose calls fail alike (intra-class correlation 0.3).

    `swing`: traffic and failure rate both move by this share around their mean over a day, in phase, so that
    the busiest hour fails most. `baseline`: sessions known from before, None for those of 7 days; `by_hour`:
    whether their hours are known. `worse`: factor on the failure rate from the change on. `control`:
    traffic of a concurrent control over that of the changed side.
    """

    calls_per_hour: float
    clustered: bool = False
    swing: float = 0.0
    baseline: int | None = None
    by_hour: bool = True
    worse: float = 1.0
    control: float = 0.0

    @property
    def sessions_per_hour(self) -> float:
        return self.calls_per_hour / (CALLS_PER_SESSION if self.clustered else 1)

    def share(self, hours: Array) -> Array:
        """Factor of the day at each hour since midnight."""
        return 1.0 + self.swing * np.sin(2 * np.pi * (hours - 9) / 24)

    def failed(self, rng: np.random.Generator, chance: Array) -> Array:
        """Whether each session fails, given its calls' mean failure rate."""
        if not self.clustered:
            return rng.random(len(chance)) < chance
        spread = 1.0 / ICC - 1.0
        own = rng.beta(chance * spread, (1.0 - chance) * spread)
        return rng.random(len(chance)) < 1.0 - (1.0 - own) ** CALLS_PER_SESSION


def sessions(rng: np.random.Generator, traffic: Traffic, since: float, hours: float, worse: float) -> tuple:
    """(begin in hours since midnight, failed) of Poisson traffic, in order of time."""
    most = traffic.sessions_per_hour * (1.0 + traffic.swing)
    at = np.sort(since + hours * rng.random(rng.poisson(most * hours)))
    at = at[rng.random(len(at)) * (1.0 + traffic.swing) < traffic.share(at)]
    return at, traffic.failed(rng, CALL_FAILS * worse * traffic.share(at))


def before(rng: np.random.Generator, traffic: Traffic) -> tuple[Rate, dict[int, Rate]]:
    """The frozen week, whole and by hour of the day."""
    if traffic.baseline is not None:
        failed = traffic.failed(rng, np.full(traffic.baseline, CALL_FAILS))
        return Rate(int(failed.sum()), traffic.baseline), {}
    at, failed = sessions(rng, traffic, 0.0, 168.0, 1.0)
    hour = at.astype(int) % 24
    known = range(24) if traffic.by_hour else ()
    hours = {h: Rate(int(failed[hour == h].sum()), int((hour == h).sum())) for h in known}
    return Rate(int(failed.sum()), len(failed)), hours


def minutes_to_trip(
    rng: np.random.Generator, traffic: Traffic, watch_hours: float, rules: BreakerRules
) -> float:
    """Minutes from the change to the trip; infinite when there is none within `watch_hours`."""
    week, hours = before(rng, traffic)
    start = CREATED.hour + CREATED.minute / 60
    at, failed = sessions(rng, traffic, start, watch_hours, traffic.worse)
    total = np.concatenate(([0], np.cumsum(failed)))
    apart = replace(traffic, calls_per_hour=traffic.calls_per_hour * traffic.control)
    beside_at, beside_failed = sessions(rng, apart, start, watch_hours, 1.0)
    beside = np.concatenate(([0], np.cumsum(beside_failed)))
    ends = start + np.arange(1, round(watch_hours * PER_HOUR) + 1) / PER_HOUR
    upto = np.searchsorted(at, ends)
    since = np.searchsorted(at, ends - rules.window_hours)
    last = np.maximum(0, upto - LAST_CALLS)
    slow = None
    for k in range(len(ends)):
        now = CREATED + TICK * (k + 1)
        n, early, tail = upto[k], since[k], last[k]
        frozen = frozen_rate(week, hours, now, rules)
        k_now, k_early = np.searchsorted(beside_at, (ends[k], ends[k] - rules.window_hours))
        hour = Rate(int(beside[k_now] - beside[k_early]), int(k_now - k_early))
        found = tick(
            Rate(int(total[n] - total[early]), int(n - early)),
            Rate(int(total[n] - total[tail]), int(n - tail)),
            concurrent_rate(Rate(int(beside[k_now]), int(k_now)), hour, frozen, rules),
            age=now - CREATED,
            slow_since=slow,
            now=now,
            rules=rules,
            control=hour,
            control_baseline=frozen,
        )
        if isinstance(found, Trip):
            return 5.0 * (k + 1)
        slow = found.reading.slow_since if isinstance(found, Hold) else None
    return np.inf


def trips(
    traffic: Traffic, hours: float, rules: BreakerRules = RULES
) -> Callable[[np.random.Generator, int], Array]:
    """Per run: 1 when the breaker trips within `hours` of the change."""

    def simulate(rng: np.random.Generator, runs: int) -> Array:
        return np.array([minutes_to_trip(rng, traffic, hours, rules) < np.inf for _ in range(runs)], float)

    return simulate


KINDS = {
    "plain": ("independent calls", {}),
    "sessions": ("5-call sessions, intra-class correlation 0.3", {"clustered": True}),
    "swing": ("60 % day-night swing of traffic and of failures", {"swing": 0.6}),
    "thin": ("baseline of 500 calls, no hours known", {"baseline": 500}),
}


def _false_trips() -> list[Cell]:
    made = []
    for (kind, (words, how)), hours in ((item, h) for item in KINDS.items() for h in (24, 168)):
        for rate in RATES:
            made.append(
                Cell(
                    name=f"breaker-false-{kind}-{hours}h-{rate}",
                    group=f"Breaker: trips within {hours} h of a change that changed nothing ",
                    claim=f"{rate} calls/h, {words}",
                    seed=5000 + len(made),
                    runs=300,
                    batch=50,
                    simulate=trips(Traffic(rate, **how), hours),
                    low=0.0,
                    high=(30 if kind == "thin" else 21) / 300,
                    fast_runs=40 if hours == 24 and rate in (5, 100) else 0,
                )
            )
    return made


def _beside() -> list[Cell]:
    """Those of `beside_cells`, which stands on this module and so is not imported above."""
    return [Cell(**vars(one)) for one in __import__("beside_cells").cells()]


def _found() -> list[Cell]:
    goals = (
        (
            "5x-25min-100",
            100,
            5.0,
            25 / 60,
            0.5,
            "5x found within 25 min (median at most 25 min), 100 calls/h",
        ),
        ("5x-24h-100", 100, 5.0, 24.0, 0.99, "5x found within 24 h, 100 calls/h"),
        ("3x-6h-100", 100, 3.0, 6.0, 0.95, "3x found within 6 h, 100 calls/h"),
        ("5x-4h-20", 20, 5.0, 4.0, 0.80, "5x found within 4 h, 20 calls/h"),
        ("5x-24h-5", 5, 5.0, 24.0, 0.90, "5x found within 24 h, 5 calls/h"),
    )
    made = []
    for k, (name, rate, worse, hours, least, claim) in enumerate(goals):
        for j, (kind, baseline) in enumerate((("7 days of traffic", None), ("500 calls", 500))):
            made.append(
                Cell(
                    name=f"breaker-found-{name}-{'thin' if baseline else 'week'}",
                    group="Breaker: regressions found",
                    claim=f"{claim}, baseline of {kind}",
                    seed=5100 + 10 * k + j,
                    runs=300,
                    batch=50,
                    simulate=trips(Traffic(rate, worse=worse, baseline=baseline), hours),
                    low=least,
                    high=1.0,
                    fast_runs=60 if name == "5x-25min-100" else 0,
                )
            )
    return made


def _others() -> list[Cell]:
    ratio = Cell(
        name="control-breaker-ratio",
        group="Negative controls: the same harness must refuse them",
        claim="the plain 2x rule (`strict_ratio`), 100 calls/h, 24 h",
        seed=5200,
        runs=300,
        batch=50,
        simulate=trips(Traffic(100), 24, STRICT),
        low=0.0,
        high=21 / 300,
        control=True,
        fast_runs=40,
    )
    week_only = Cell(
        name="breaker-false-week-only",
        group="Breaker: what the same-hour baseline is for",
        claim="no same-hour baseline, 100 calls/h, 24 h, 60 % day-night swing",
        seed=5201,
        runs=300,
        batch=50,
        simulate=trips(Traffic(100, swing=0.6, by_hour=False), 24),
    )
    return [ratio, week_only]


def cells() -> list[Cell]:
    return [*_false_trips(), *_beside(), *_found(), *_others()]
