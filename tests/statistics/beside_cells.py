"""Cells for the breaker where a concurrent control is its baseline, as in the engine."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from breaker_cells import (
    CREATED,
    KINDS,
    PER_HOUR,
    RULES,
    TICK,
    Array,
    Traffic,
    before,
    sessions,
)
from monte_carlo import Cell

from prx.release.breaker import LAST_CALLS, Hold, Rate, Trip, frozen_rate, tick
from prx.release.control import beside_rate

HOURS = 168


def trips_beside(rng: np.random.Generator, traffic: Traffic, share: float) -> bool:
    """Whether the breaker trips within 168 h; `share`: the control's traffic over the changed side's."""
    week, hours = before(rng, traffic)
    start = CREATED.hour + CREATED.minute / 60
    at, failed = sessions(rng, traffic, start, HOURS, traffic.worse)
    apart = replace(traffic, calls_per_hour=traffic.calls_per_hour * share)
    control_at, control_failed = sessions(rng, apart, start, HOURS, 1.0)
    sums = [np.concatenate(([0], np.cumsum(one))) for one in (failed, control_failed)]

    def rate(side: int, first: int, end: int) -> Rate:
        return Rate(int(sums[side][end] - sums[side][first]), int(end - first))

    slow = None
    for k in range(1, HOURS * PER_HOUR + 1):
        now, end = CREATED + TICK * k, start + k / PER_HOUR
        n, early = np.searchsorted(at, (end, end - RULES.window_hours))
        held, held_early = np.searchsorted(control_at, (end, end - RULES.window_hours))
        frozen, hour = frozen_rate(week, hours, now, RULES), rate(1, held_early, held)
        found = tick(
            rate(0, early, n),
            rate(0, max(0, n - LAST_CALLS), n),
            beside_rate(rate(1, 0, held), hour, frozen, RULES),
            age=now - CREATED,
            slow_since=slow,
            now=now,
            rules=RULES,
            control=hour,
            control_baseline=frozen,
        )
        if isinstance(found, Trip):
            return True
        slow = found.reading.slow_since if isinstance(found, Hold) else None
    return False


def false_trips(traffic: Traffic, share: float) -> Callable[[np.random.Generator, int], Array]:
    """Per run: 1 when the breaker trips."""

    def simulate(rng: np.random.Generator, runs: int) -> Array:
        return np.array([trips_beside(rng, traffic, share) for _ in range(runs)], float)

    return simulate


def cells() -> list[Cell]:
    """An experiment's half, and a tenth that is held back."""
    made = []
    for share, words in (
        (1.0, "an experiment's control, half of the sessions"),
        (1 / 9, "a tenth held back"),
    ):
        for kind in ("plain", "sessions", "swing"):
            told, how = KINDS[kind]
            made.append(
                Cell(
                    name=f"breaker-beside-{kind}-100-{share:.1f}",
                    group="Breaker: trips within 168 h of a harmless change beside a concurrent control",
                    claim=f"100 calls/h on the changed side, {told}, {words}",
                    seed=5400 + len(made),
                    runs=300,
                    batch=50,
                    simulate=false_trips(Traffic(100, **how), share),
                    low=0.0,
                    high=21 / 300,
                )
            )
    return made
