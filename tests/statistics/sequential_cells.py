"""Cells that concern looking repeatedly: error rates, coverage, traffic, and negative controls."""

import math
from functools import cache
from typing import Any

import numpy as np
from monte_carlo import Cell
from scipy.special import ndtr, ndtri, stdtr

from prx.stats.anytime import critical_z
from prx.stats.groupsequential import boundaries
from prx.stats.inference import stagewise_tail
from prx.stats.power import drift_with_futility, fixed_information, futility_bounds, inflation
from prx.stats.spending import spent
from prx.stats.stopping import Design, Look, State, design_by_power, look, start
from prx.stats.tails import t_to_z
from prx.stats.variety import LEAST_EVENTS

LOOKS = 30
PER_LOOK = 20
DAYS = np.arange(1, LOOKS + 1)

Array = np.ndarray


def normal(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return rng.normal(0.7, 0.15, shape)


def beta(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return rng.beta(8.0, 2.0, shape)


def zero_inflated(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return np.where(rng.random(shape) < 0.3, 0.0, rng.beta(6.0, 2.0, shape))


def bimodal(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return np.where(rng.random(shape) < 0.4, rng.beta(2.0, 20.0, shape), rng.beta(20.0, 2.0, shape))


def rounded(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return np.round(rng.beta(4.0, 1.5, shape) * 4.0) / 4.0


LAWS = {
    "normal": normal,
    "beta": beta,
    "zero_inflated": zero_inflated,
    "bimodal": bimodal,
    "rounded": rounded,
}


def welch_z(control: Array, treatment: Array) -> tuple[Array, Array]:
    """z with its t tail mapped, and standard error, at every look; input (runs, looks, sessions per look)."""
    per_look = control.shape[2]
    n = per_look * np.arange(1, control.shape[1] + 1)
    parts = []
    for arm in (control, treatment):
        total = arm.sum(axis=2).cumsum(axis=1)
        squares = (arm * arm).sum(axis=2).cumsum(axis=1)
        mean = total / n
        parts.append((mean, np.maximum(squares / n - mean * mean, 1e-12) / (n - 1)))
    (c, vc), (t, vt) = parts
    se = np.sqrt(vc + vt)
    df = (vc + vt) ** 2 * (n - 1) / (vc**2 + vt**2)
    score = (t - c) / se
    return np.sign(score) * -ndtri(np.maximum(stdtr(df, -np.abs(score)), 1e-300)), se


@cache
def bounds(spending: str, looks: int = LOOKS) -> Array:
    return np.array(boundaries([(k + 1) / looks for k in range(looks)], spending=spending).upper_z)


def shared_fractions(law: str, spending: str) -> Any:
    def simulate(rng: np.random.Generator, runs: int) -> Array:
        shape = (runs, LOOKS, PER_LOOK)
        z, _ = welch_z(LAWS[law](rng, shape), LAWS[law](rng, shape))
        return (np.abs(z) >= bounds(spending)).any(axis=1)

    return simulate


def rare_outcome(rate: float, small: int, big: int, *, gated: bool) -> Any:
    """An uneven split with an outcome of 0 or 1; gated: looks as `prx.stats.enough_variety` allows them."""

    def simulate(rng: np.random.Generator, runs: int) -> Array:
        few = rng.binomial(small, rate, (runs, LOOKS)).cumsum(axis=1)
        many = rng.binomial(big, rate, (runs, LOOKS)).cumsum(axis=1)
        sizes = small * DAYS, big * DAYS
        a, b = few / sizes[0], many / sizes[1]
        va, vb = a * (1.0 - a) / (sizes[0] - 1), b * (1.0 - b) / (sizes[1] - 1)
        least = LEAST_EVENTS if gated else 1
        allowed = (np.minimum(few, sizes[0] - few) >= least) & (np.minimum(many, sizes[1] - many) >= least)
        safe = np.where(allowed, va + vb, 1.0)
        score = np.where(allowed, (a - b) / np.sqrt(safe), 0.0)
        df = safe**2 / np.where(allowed, va**2 / (sizes[0] - 1) + vb**2 / (sizes[1] - 1), 1.0)
        z = -ndtri(np.maximum(stdtr(df, -np.abs(score)), 1e-300))
        return ((z >= bounds("hsd:-4")) & allowed).any(axis=1)

    return simulate


def naive_peeking(rng: np.random.Generator, runs: int) -> Array:
    z, _ = welch_z(normal(rng, (runs, LOOKS, PER_LOOK)), normal(rng, (runs, LOOKS, PER_LOOK)))
    return (np.abs(z) >= 1.959963985).any(axis=1)


def spending_as_nominal(rng: np.random.Generator, runs: int) -> Array:
    z, _ = welch_z(normal(rng, (runs, LOOKS, PER_LOOK)), normal(rng, (runs, LOOKS, PER_LOOK)))
    values = np.array([spent("obf", float(t), alpha=0.05, sides=1) for t in DAYS / LOOKS])
    return (2.0 * ndtr(-np.abs(z)) < values).any(axis=1)


@cache
def product_design() -> Design:
    return design_by_power()


def fold_run(design: Design, c: Array, t: Array, lift: float = 0.0) -> State:
    """Run the product's fold over daily batches of sessions of one run, information as estimated each day."""
    state = start(design)
    seen_c: list[Array] = []
    seen_t: list[Array] = []
    for day, (more_c, more_t) in enumerate(zip(c, t, strict=True), 1):
        seen_c.append(more_c)
        seen_t.append(more_t + lift)
        a, b = np.concatenate(seen_c), np.concatenate(seen_t)
        if min(len(a), len(b)) < 20:
            continue
        va, vb = a.var(ddof=1) / len(a), b.var(ddof=1) / len(b)
        se = math.sqrt(va + vb)
        if se == 0.0:
            continue
        df = (va + vb) ** 2 / (va**2 / (len(a) - 1) + vb**2 / (len(b) - 1))
        z = t_to_z(float((b.mean() - a.mean()) / se), float(df))
        state = look(design, state, 1.0 / (va + vb), z, hours=24.0 * day, final=day == len(c))
        if state.ended or (not state.note and state.looks[-1].crossed != "none"):
            break
    return state


def estimated_information(law: str, *, uneven: bool = False) -> Any:
    spread = float(np.std(LAWS[law](np.random.default_rng(1), (200_000,))))
    per_day = max(8, round(2.0 * spread**2 * product_design().max_information / 26.0))

    def simulate(rng: np.random.Generator, runs: int) -> Array:
        out = np.zeros(runs, dtype=bool)
        for r in range(runs):
            sizes = rng.poisson(per_day * rng.gamma(0.7, 1.4, LOOKS)) if uneven else np.full(LOOKS, per_day)
            c = [LAWS[law](rng, (int(n),)) for n in sizes]
            t = [LAWS[law](rng, (int(n),)) for n in (rng.poisson(sizes) if uneven else sizes)]
            state = fold_run(product_design(), c, t)
            out[r] = bool(state.looks) and state.looks[-1].crossed != "none"
        return out

    return simulate


def brownian(rng: np.random.Generator, runs: int, information: Array, effect: float) -> Array:
    """z at each look of a score process with unit-variance information and true `effect`."""
    gaps = np.diff(information, prepend=0.0)
    steps = rng.normal(size=(runs, len(gaps))) * np.sqrt(gaps) + effect * gaps
    return steps.cumsum(axis=1) / np.sqrt(information)


def first_exit(z: Array, upper: Array, lower: Array | None = None) -> Array:
    """Index of the look at which each run stops: its first exit, else the last look."""
    out = (z >= upper) | (z <= (-upper if lower is None else lower))
    out[:, -1] = True
    return out.argmax(axis=1)


def repeated_coverage(multiple: float) -> Any:
    """Coverage at the stop when the true effect is `multiple` of the design effect."""

    def simulate(rng: np.random.Generator, runs: int) -> Array:
        design = product_design()
        information = design.max_information * DAYS / LOOKS
        theta = multiple * design.delta
        z = brownian(rng, runs, information, theta)
        k = first_exit(z, bounds("hsd:-4"))
        here = z[np.arange(runs), k]
        return np.abs(here - theta * np.sqrt(information[k])) <= bounds("hsd:-4")[k]

    return simulate


def naive_coverage(rng: np.random.Generator, runs: int) -> Array:
    design = product_design()
    information = design.max_information * DAYS / LOOKS
    z = brownian(rng, runs, information, design.delta)
    k = first_exit(z, bounds("pocock"))
    return np.abs(z[np.arange(runs), k] - design.delta * np.sqrt(information[k])) <= 1.959963985


def _tails(rng: np.random.Generator, runs: int, multiple: float) -> Array:
    design = product_design()
    information = design.max_information * DAYS / LOOKS
    theta = multiple * design.delta
    upper = bounds("hsd:-4")
    z = brownian(rng, runs, information, theta)
    stops = first_exit(z, upper)
    tails = np.empty(runs)
    for r, k in enumerate(stops):
        looks = tuple(
            Look(
                24.0 * j, float(information[j]), (j + 1) / LOOKS, float(z[r, j]), float(upper[j]), 0.0, False
            )
            for j in range(k + 1)
        )
        tails[r] = stagewise_tail(looks, theta * math.sqrt(information[k]))
    return tails


def stagewise_coverage(multiple: float) -> Any:
    return lambda rng, runs: np.abs(_tails(rng, runs, multiple) - 0.5) <= 0.475


def overestimates(multiple: float) -> Any:
    """How often the median-unbiased estimate lies above the truth."""
    return lambda rng, runs: _tails(rng, runs, multiple) < 0.5


def traffic_of_design(multiple: float, *, futility: bool = False) -> Any:
    """Sessions used, as a share of the fixed sample with equal power."""
    fractions = [(k + 1) / LOOKS for k in range(LOOKS)]

    def simulate(rng: np.random.Generator, runs: int) -> Array:
        upper = bounds("hsd:-4")
        fixed = fixed_information(1.0)
        lower = None
        phi = inflation(fractions)
        if futility:
            drift = drift_with_futility(fractions, upper, beta=0.2, spending="hsd:-4")
            phi = drift**2 / fixed
            lower = np.array(futility_bounds(fractions, upper, effect=drift, beta=0.2, spending="hsd:-4"))
        information = phi * fixed * DAYS / LOOKS
        z = brownian(rng, runs, information, multiple)
        return information[first_exit(z, upper, lower)] / fixed

    return simulate


def saving_over_confidence_sequence(rng: np.random.Generator, runs: int) -> Array:
    """1 - our traffic over that of an asymptotic confidence sequence, both with power 0.8, same streams.

    The sequence is tightest at its own horizon and looked at on the same days; its horizon is 1.72 of the
    fixed sample, which gives it power 0.8.
    """
    fixed = fixed_information(1.0)
    step = inflation([(k + 1) / LOOKS for k in range(LOOKS)]) * fixed / LOOKS
    horizon = 1.72 * fixed
    days = np.arange(1, math.ceil(horizon / step) + 1)
    information = days * step
    z = brownian(rng, runs, information, 1.0)
    mixture = np.array([critical_z(float(i), planned_information=horizon) for i in information])
    ours = information[first_exit(z[:, :LOOKS], bounds("hsd:-4"))]
    theirs = np.minimum(information[first_exit(z, mixture)], horizon)
    # Averages are compared, not single streams: scale so that the mean over runs is the saving.
    return 1.0 - ours / theirs.mean()


def cells() -> list[Cell]:
    made: list[Cell] = []
    group = "Type-I error, 30 daily looks, shared information fractions"
    for i, law in enumerate(LAWS):
        made.append(
            Cell(
                f"type1-shared-{law}",
                group,
                f"{law} scores, HSD -4",
                1100 + i,
                20_000,
                2_000,
                shared_fractions(law, "hsd:-4"),
                0.045,
                0.055,
                fast_runs=2_000,
            )
        )
    for i, spending in enumerate(("obf", "pocock", "power:2")):
        made.append(
            Cell(
                f"type1-shared-{spending.replace(':', '')}",
                group,
                f"beta scores, {spending}",
                1200 + i,
                20_000,
                2_000,
                shared_fractions("beta", spending),
                0.045,
                0.055,
            )
        )
    for i, (rate, small, big) in enumerate(((0.02, 40, 160), (0.1, 20, 180), (0.2, 40, 160))):
        made.append(
            Cell(
                f"type1-rare-{rate:g}-{small}-{big}",
                "Type-I error, rare outcomes and uneven splits, looks only where scores vary enough",
                f"{rate:.0%} failures, split {small} to {big}",
                1250 + i,
                20_000,
                2_000,
                rare_outcome(rate, small, big, gated=True),
                0.0,
                0.055,
                fast_runs=4_000 if i == 1 else 0,
            )
        )
    control = "Negative controls: the same harness must refuse them"
    made.append(
        Cell(
            "control-rare-ungated",
            control,
            "10% failures, split 20 to 180, looks wherever a single score differs",
            1303,
            20_000,
            2_000,
            rare_outcome(0.1, 20, 180, gated=False),
            0.045,
            0.055,
            control=True,
        )
    )
    made.append(
        Cell(
            "control-naive-peeking",
            control,
            "|z| >= 1.96 at each of 30 looks (28 % expected)",
            1300,
            20_000,
            2_000,
            naive_peeking,
            0.045,
            0.055,
            control=True,
            fast_runs=2_000,
        )
    )
    made.append(
        Cell(
            "control-spending-as-nominal",
            control,
            "p below the cumulative spending value (7.9 % expected)",
            1301,
            20_000,
            2_000,
            spending_as_nominal,
            0.045,
            0.055,
            control=True,
            fast_runs=8_000,
        )
    )
    made.append(
        Cell(
            "control-naive-interval",
            control,
            "95 % interval without allowance, Pocock stops, design effect",
            1302,
            20_000,
            2_000,
            naive_coverage,
            0.94,
            0.97,
            control=True,
            fast_runs=8_000,
        )
    )
    group = "Type-I error, 30 daily ticks, information estimated in each run"
    for i, law in enumerate(LAWS):
        made.append(
            Cell(
                f"type1-estimated-{law}",
                group,
                f"{law} scores, HSD -4, the product's fold",
                1400 + i,
                2_000,
                100,
                estimated_information(law),
                0.04,
                0.06,
                fast_runs=40 if law == "zero_inflated" else 0,
            )
        )
    made.append(
        Cell(
            "type1-estimated-uneven",
            group,
            "zero-inflated scores, traffic with bursts and gaps, arms uneven",
            1410,
            2_000,
            100,
            estimated_information("zero_inflated", uneven=True),
            0.04,
            0.06,
        )
    )
    group = "After the stop (G7)"
    for i, m in enumerate((0.0, 0.5, 1.0, 2.0)):
        made.append(
            Cell(
                f"coverage-repeated-{m:g}",
                group,
                f"repeated interval covers, lift {m:g} delta" + ("" if m else " (exactly 95 % in theory)"),
                1500 + i,
                20_000,
                5_000,
                repeated_coverage(m),
                0.95,
                1.0,
                fast_runs=5_000,
            )
        )
        made.append(
            Cell(
                f"coverage-stagewise-{m:g}",
                group,
                f"stage-wise interval covers, lift {m:g} delta",
                1510 + i,
                4_000,
                200,
                stagewise_coverage(m),
                0.94,
                0.97,
                fast_runs=150 if m == 1.0 else 0,
            )
        )
        made.append(
            Cell(
                f"median-unbiased-{m:g}",
                group,
                f"estimate above the truth, lift {m:g} delta",
                1520 + i,
                4_000,
                200,
                overestimates(m),
                0.47,
                0.53,
            )
        )
    group = "Traffic (G8), as a share of the fixed sample with power 0.8"
    made += [
        Cell(
            "traffic-design-effect",
            group,
            "mean at the design effect",
            1600,
            40_000,
            10_000,
            traffic_of_design(1.0),
            0.0,
            0.80,
            rate=False,
            fast_runs=10_000,
        ),
        Cell(
            "traffic-double-effect",
            group,
            "mean at double the effect",
            1601,
            40_000,
            10_000,
            traffic_of_design(2.0),
            0.0,
            0.43,
            rate=False,
        ),
        Cell(
            "traffic-futility-null",
            group,
            "mean under no effect, futility acted on",
            1602,
            40_000,
            10_000,
            traffic_of_design(0.0, futility=True),
            0.0,
            0.65,
            rate=False,
            fast_runs=10_000,
        ),
        Cell(
            "traffic-futility-effect",
            group,
            "mean at the design effect, futility acted on",
            1603,
            40_000,
            10_000,
            traffic_of_design(1.0, futility=True),
            0.0,
            0.80,
            rate=False,
        ),
        Cell(
            "traffic-saving",
            group,
            "saved against an asymptotic confidence sequence tuned at its horizon",
            1604,
            40_000,
            10_000,
            saving_over_confidence_sequence,
            0.25,
            1.0,
            rate=False,
            fast_runs=10_000,
        ),
    ]
    return made
