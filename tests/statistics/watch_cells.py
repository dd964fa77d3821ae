"""Cells for the watch after a promotion: false rollbacks, and drops that it finds.

Sessions, units and days are vectorised; every look calls `prx.release.watch.watch` on levels that `level_of`
makes of the days so far, hourly from the promotion at 07:00 to the end of its window 168 h later. As in the
engine, a change from which units are held back is held against the past only once a day has not brought
enough of them.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from monte_carlo import Cell

from prx.domain.answers import NotEnoughData
from prx.release.watch import COMPOSITE, Level, Moments, Regressed, WatchRules, level_of, watch

Array = np.ndarray
RULES = WatchRules()
DAYS_BEFORE, HOURS, BEGAN, FIRST_DAY = 14, 168, 7, 24
MEAN, SD = 0.7, 0.2
METRICS = 7  # the composite and the six dimensions, each with its own days and noise


@dataclass(frozen=True)
class World:
    """Sessions a day, spread between days (sd), share held back, and what the change does to the composite.

    `per_unit`: mean sessions of a unit in the window, whose intra-class correlation is 0.2 above 1.
    """

    per_day: float
    drop: float = 0.0
    spread: float = 0.04
    held: float = 0.0
    per_unit: float = 1.0


def _noise(rng: np.random.Generator, unit: Array, clustered: bool) -> Array:
    if not clustered:
        return rng.normal(0.0, SD, len(unit))
    own = rng.normal(0.0, SD * np.sqrt(0.2), unit.max() + 1 if len(unit) else 0)
    return own[unit] + rng.normal(0.0, SD * np.sqrt(0.8), len(unit))


def _level(values: Array, day: Array, unit: Array, clustered: bool) -> Level:
    n = np.bincount(day)
    n, total, squares = (a[n > 0] for a in (n, np.bincount(day, values), np.bincount(day, values * values)))
    mean = total / n
    days = [
        Moments(int(k), float(m), float(q))
        for k, m, q in zip(n, mean, squares - n * mean * mean, strict=True)
    ]
    if not clustered or len(values) < RULES.min_sessions:
        return level_of(days, units=len(values))
    off = values - values.mean()
    sums = np.bincount(unit, off)
    return level_of(days, design=float((sums**2).sum() / (off**2).sum()), units=len(np.unique(unit)))


def rolled_back(rng: np.random.Generator, world: World) -> float:
    """Hours from the promotion to the rollback; infinite when there is none within the window."""
    clustered = world.per_unit > 1.0

    def draw(first: int, days: int) -> tuple[Array, Array]:
        at = np.sort(rng.random(rng.poisson(world.per_day * days)) * 24 * days) + first
        units = max(1, round(world.per_day * 7 / world.per_unit))
        return at, rng.integers(0, units, len(at)) if clustered else np.arange(len(at))

    names = (COMPOSITE, *(f"dimension{k}" for k in range(1, METRICS)))
    at, unit = draw(0, DAYS_BEFORE)
    before, day = {}, (at // 24).astype(int)
    for name in names:
        y = MEAN + rng.normal(0, world.spread, DAYS_BEFORE + 1)[day] + _noise(rng, unit, clustered)
        before[name] = _level(y, day, unit, clustered)
    at, unit = draw(BEGAN, HOURS // 24)
    day = (at // 24).astype(int)
    held = rng.random(unit.max() + 1)[unit] < world.held
    scores = {}
    for name in names:
        shift = rng.normal(0, world.spread, HOURS // 24 + 2)[day]
        scores[name] = MEAN + shift + _noise(rng, unit, clustered)
    scores[COMPOSITE] = scores[COMPOSITE] - world.drop * ~held
    for hour in range(1, HOURS + 1):
        upto = int(np.searchsorted(at, BEGAN + hour))
        there, kept = ~held[:upto], held[:upto]

        def levels(mask: Array, upto: int = upto) -> dict[str, Level]:
            days, units = day[:upto][mask], unit[:upto][mask]
            return {name: _level(y[:upto][mask], days, units, clustered) for name, y in scores.items()}

        if there.sum() < RULES.min_sessions:
            continue
        after = levels(there)
        found = watch(levels(kept), after, RULES, concurrent=True) if kept.any() else NotEnoughData("")
        if isinstance(found, NotEnoughData) and (world.held == 0.0 or hour >= FIRST_DAY):
            found = watch(before, after, RULES)
        if isinstance(found, Regressed):
            return float(hour)
    return np.inf


def within(world: World, hours: float) -> Callable[[np.random.Generator, int], Array]:
    """Per run: 1 when the change is rolled back within `hours`."""

    def simulate(rng: np.random.Generator, runs: int) -> Array:
        return np.array([rolled_back(rng, world) <= hours for _ in range(runs)], float)

    return simulate


def _cell(name: str, claim: str, seed: int, world: World, hours: float, *, found: float = 0.0) -> Cell:
    return Cell(
        name=f"watch-{name}",
        group="Watch: drops found"
        if found
        else "Watch: rollbacks of a change that changed nothing, in 168 h",
        claim=claim,
        seed=seed,
        runs=200,
        batch=20,
        simulate=within(world, hours),
        low=found,
        high=1.0 if found else 0.05,
        fast_runs=8 if name in ("false-600-held", "found-600-held") else 0,
    )


def cells() -> list[Cell]:
    spread = "day-to-day spread 0.04"
    found = "a drop of 0.10 found within 168 h"
    return [
        _cell(
            "false-600-held", f"600 sessions a day, 10 % held back, {spread}", 5300, World(600, held=0.1), 168
        ),
        _cell(
            "false-600-units",
            f"600 sessions a day of units with 5 each, 10 % held back, {spread}",
            5301,
            World(600, held=0.1, per_unit=5),
            168,
        ),
        _cell(
            "false-300-held", f"300 sessions a day, 20 % held back, {spread}", 5302, World(300, held=0.2), 168
        ),
        _cell("false-600-alone", f"600 sessions a day, nobody held back, {spread}", 5303, World(600), 168),
        _cell("false-100-alone", f"100 sessions a day, nobody held back, {spread}", 5304, World(100), 168),
        _cell(
            "found-600-held",
            f"600 sessions a day, 10 % held back, {spread}: {found}",
            5310,
            World(600, drop=0.1, held=0.1),
            168,
            found=0.9,
        ),
        _cell(
            "found-600-units",
            f"600 sessions a day of units with 5 each, 10 % held back, {spread}: {found}",
            5311,
            World(600, drop=0.1, held=0.1, per_unit=5),
            168,
            found=0.9,
        ),
        _cell(
            "found-300-held",
            f"300 sessions a day, 20 % held back, {spread}: {found}",
            5312,
            World(300, drop=0.1, held=0.2),
            168,
            found=0.9,
        ),
        Cell(
            name="watch-found-600-alone",
            group="Watch: drops found",
            claim=f"600 sessions a day, nobody held back, {spread}: {found}",
            seed=5313,
            runs=200,
            batch=20,
            simulate=within(World(600, drop=0.1), 168),
        ),
    ]
