"""Estimator and sequential design together on users who come back: error rates of the whole look.

Each run simulates two arms of users. A user has a level (constant over sessions,
which gives the intra-class correlation), a number of sessions, and days on which they fall; dimensions are
scored or not. Every day the product's `composite` and `look` see the sums so far, as a tick would.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from monte_carlo import Cell
from scipy.special import ndtr

from prx.domain.answers import NotEnoughData
from prx.stats.estimator import Composite, composite
from prx.stats.groupsequential import boundaries
from prx.stats.missing import MissingBound, missing_bound
from prx.stats.stopping import Design, State, design_by_power, look, start
from prx.stats.unitsums import ArmTable

DAYS = 30
WEIGHTS = {"completion": 0.4, "relevance": 0.4, "satisfaction": 0.2}
Array = np.ndarray


@dataclass(frozen=True)
class World:
    """How users behave. `coverage`: share of sessions scored per dimension, for control and treatment."""

    users: int = 100
    icc: float = 0.4
    sessions: str = "uniform"  # 1 to 20 each; "zipf": heavy-tailed up to 60; "one"; "four"
    late: bool = True  # users appear over the whole experiment and return afterwards
    coverage: Mapping[str, tuple[float, float]] = field(
        default_factory=lambda: {
            "completion": (1.0, 1.0),
            "relevance": (0.5, 0.5),
            "satisfaction": (0.3, 0.3),
        }
    )
    hidden: float = (
        0.0  # share of the treatment's would-be failures of "completion" that skip their tool calls
    )


MISSING_BY_ARM = {"completion": (0.95, 0.75), "relevance": (0.5, 0.5), "satisfaction": (0.25, 0.40)}


@dataclass(frozen=True)
class Arm:
    """Sums so far for days 1..DAYS: sessions (DAYS, users), and per dimension counts, totals and squares."""

    sessions: Array
    n: Mapping[str, Array]
    total: Mapping[str, Array]
    squares: Mapping[str, Array]

    def on(self, day: int) -> ArmTable:
        """The estimator's columns at the end of `day`; users without a session yet are left out."""
        seen = self.sessions[day] > 0
        count = int(seen.sum())
        return ArmTable(
            units=count,
            unit=np.arange(count),
            stratum=np.zeros(count, dtype=np.int64),
            sessions=self.sessions[day][seen],
            n={d: v[day][seen] for d, v in self.n.items()},
            total={d: v[day][seen] for d, v in self.total.items()},
        )


def session_counts(rng: np.random.Generator, world: World) -> Array:
    if world.sessions == "zipf":
        return np.minimum(rng.zipf(1.8, world.users), 60)
    fixed = {"one": 1, "four": 4}.get(world.sessions)
    return rng.integers(1, 21, world.users) if fixed is None else np.full(world.users, fixed)


def arm(rng: np.random.Generator, world: World, which: int) -> Arm:
    counts = session_counts(rng, world)
    user = np.repeat(np.arange(world.users), counts)
    entry = rng.integers(0, DAYS, world.users) if world.late else np.zeros(world.users, dtype=np.int64)
    # Half of the users arrive in the first third, so that early looks have something to see.
    entry = np.where(rng.random(world.users) < 0.5, entry // 3, entry)
    day = entry[user] + (rng.random(len(user)) * (DAYS - entry[user])).astype(np.int64)
    level = rng.normal(size=world.users)
    cells = day * world.users + user
    size = DAYS * world.users

    def by_day(values: Array | None, which_rows: Array) -> Array:
        picked = None if values is None else values[which_rows]
        table = np.bincount(cells[which_rows], weights=picked, minlength=size).reshape(DAYS, world.users)
        return table.cumsum(axis=0)

    n, total, squares = {}, {}, {}
    everything = np.ones(len(user), dtype=bool)
    for dimension, shares in world.coverage.items():
        latent = math.sqrt(world.icc) * level[user] + math.sqrt(1.0 - world.icc) * rng.normal(size=len(user))
        score = _scores(dimension, latent)
        scored = rng.random(len(user)) < shares[which]
        if dimension == "completion" and which == 1 and world.hidden > 0.0:
            scored &= ~((score < 0.5) & (rng.random(len(user)) < world.hidden))
        n[dimension] = by_day(None, scored)
        total[dimension] = by_day(score, scored)
        squares[dimension] = by_day(score * score, scored)
    return Arm(by_day(None, everything), n, total, squares)


def _scores(dimension: str, latent: Array) -> Array:
    if dimension == "completion":
        return (latent > -0.6).astype(float)  # task done or not: 73 %
    if dimension == "relevance":
        return np.clip(np.round((0.72 + 0.18 * latent) * 4.0) / 4.0, 0.0, 1.0)  # judge on five steps
    return np.clip(ndtr(latent + 0.4), 0.0, 1.0)


def ticks(world: World, rng: np.random.Generator) -> list[tuple[int, ArmTable, ArmTable]]:
    control, treatment = arm(rng, world, 0), arm(rng, world, 1)
    return [(day, control.on(day), treatment.on(day)) for day in range(DAYS)]


def design_for(world: World, seed: int = 5) -> Design:
    """A plan whose information is reached a few days before the last; from a pilot, as a pre-period would."""
    reached = []
    for r in range(40):
        rng = np.random.default_rng([seed, r])
        _, c, t = ticks(world, rng)[-1]
        result = composite(c, t, weights=WEIGHTS, rho=0.2)
        if isinstance(result, Composite):
            reached.append(result.information)
    plan = design_by_power(0.02)
    scale = math.sqrt(plan.max_information / (float(np.median(reached)) / 1.1))
    return design_by_power(0.02 * scale)


def run_looks(
    world: World, design: Design, rng: np.random.Generator
) -> tuple[State, list[MissingBound | None]]:
    """The fold over 30 daily ticks up to the first crossing, with the missingness bound of every look."""
    state = start(design)
    worst: list[MissingBound | None] = []
    for day, c, t in ticks(world, rng):
        result = composite(c, t, weights=WEIGHTS, rho=0.2)
        if isinstance(result, NotEnoughData):
            continue
        before = len(state.looks)
        state = look(
            design, state, result.information, result.z, hours=24.0 * (day + 1), final=day == DAYS - 1
        )
        if len(state.looks) > before:
            bound = (
                missing_bound(result, c, t, rho=0.2, behavioural=("completion",)) if world.hidden else None
            )
            worst.append(bound if isinstance(bound, MissingBound) else None)
            if state.ended or (state.looks[-1].crossed != "none" and not world.hidden):
                break
    return state, worst


def rejects(world: World) -> Any:
    planned = cache(lambda: design_for(world))

    def simulate(rng: np.random.Generator, runs: int) -> Array:
        design = planned()
        out = np.zeros(runs, dtype=bool)
        for r in range(runs):
            state, _ = run_looks(world, design, rng)
            out[r] = any(k.crossed != "none" for k in state.looks)
        return out

    return simulate


def hidden_wins(world: World, *, guarded: bool) -> Any:
    """How often a treatment that hides failures crosses upwards (guarded: beyond what gaps explain)."""
    planned = cache(lambda: design_for(world))

    def simulate(rng: np.random.Generator, runs: int) -> Array:
        design = planned()
        out = np.zeros(runs, dtype=bool)
        for r in range(runs):
            state, worst = run_looks(world, design, rng)
            for k, bound in zip(state.looks, worst, strict=True):
                safe = bound is not None and bound.lower(k.upper_z) > 0.0
                if k.crossed == "up" and (safe or not guarded):
                    out[r] = True
                    break
        return out

    return simulate


def session_level(world: World) -> Any:
    """Negative control: sessions taken as independent, on the same looks."""

    def simulate(rng: np.random.Generator, runs: int) -> Array:
        upper = np.array(boundaries([(k + 1) / DAYS for k in range(DAYS)]).upper_z)
        out = np.zeros(runs, dtype=bool)
        for r in range(runs):
            c, t = arm(rng, world, 0), arm(rng, world, 1)
            z = np.zeros(DAYS)
            for day in range(DAYS):
                delta, variance = 0.0, 0.0
                for d, w in WEIGHTS.items():
                    for a, sign in ((c, -1.0), (t, 1.0)):
                        n = a.n[d][day].sum()
                        if n < 20:
                            variance = math.inf
                            break
                        mean = a.total[d][day].sum() / n
                        delta += sign * w * mean
                        variance += w * w * (a.squares[d][day].sum() / n - mean * mean) / (n - 1)
                z[day] = delta / math.sqrt(variance) if variance < math.inf else 0.0
            out[r] = bool((np.abs(z) >= upper).any())
        return out

    return simulate


def cells() -> list[Cell]:
    group = "Type-I error on returning users, whole look (estimator and fold), 30 daily ticks"
    worlds = {
        "icc0-60-users": World(users=60, icc=0.0),
        "icc0.4-60-users": World(users=60, icc=0.4),
        "icc0.4-100-users-zipf": World(users=100, icc=0.4, sessions="zipf"),
        "icc0.6-100-users-missing-by-arm": World(users=100, icc=0.6, coverage=MISSING_BY_ARM),
        "icc0.2-200-users-all-there-at-once": World(users=200, icc=0.2, late=False),
    }
    made = [
        Cell(
            f"clustered-{name}",
            group,
            name.replace("-", " "),
            1700 + i,
            7_000 if i < 3 else 3_000,
            200,
            rejects(world),
            0.043,
            0.058,
            fast_runs=30 if i == 1 else 0,
        )
        for i, (name, world) in enumerate(worlds.items())
    ]
    control = "Negative controls: the same harness must refuse them"
    made.append(
        Cell(
            "control-session-level",
            control,
            "session-level standard errors, ICC 0.4 (over 15 % expected)",
            1750,
            2_000,
            200,
            session_level(World(users=100, icc=0.4)),
            0.043,
            0.058,
            control=True,
            fast_runs=200,
        )
    )
    group = "A treatment that hides a fifth of its failures (no tool call, so no score)"
    hiding = World(users=800, icc=0.3, hidden=0.2, sessions="uniform", late=False)
    made += [
        Cell(
            "hidden-guarded",
            group,
            "wins with the missingness bound",
            1760,
            1_000,
            50,
            hidden_wins(hiding, guarded=True),
            0.0,
            0.025,
            fast_runs=12,
        ),
        Cell(
            "hidden-unguarded",
            "Negative controls: the same harness must refuse them",
            "hides a fifth of its failures, no missingness bound",
            1761,
            1_000,
            50,
            hidden_wins(hiding, guarded=False),
            0.0,
            0.025,
            control=True,
        ),
    ]
    return made
