"""Cells for streams of experiments: false discoveries of unattended promotion, beside LORD++ and SAFFRON."""

from collections.abc import Callable
from functools import cache

import numpy as np
from monte_carlo import Cell
from scipy.special import ndtr

from prx.stats.onlinefdr import AutomaticExperiment, promotion_level

STREAM = 40
Q = 0.10
RUNNING = 3  # experiments that have started but not finished when a new one is planned
POWER_SHIFT = 2.8016  # E Z of a real effect: 80 % power at two-sided 0.05
Array = np.ndarray
Rule = Callable[[Array], Array]


def ours(p: Array) -> Array:
    """Which experiments of one stream are promoted unattended, by the product's rule."""
    started: list[AutomaticExperiment] = []
    for i in range(len(p)):
        seen = [
            AutomaticExperiment(past.level, float(p[j]) if j < i - RUNNING else None)
            for j, past in enumerate(started)
        ]
        started.append(AutomaticExperiment(promotion_level(seen, q=Q)))
    levels = np.array([e.level for e in started])
    return p <= levels


@cache
def gammas(exponent: float) -> Array:
    j = np.arange(1, STREAM + 1)
    raw = (
        np.log(np.maximum(j, 2)) / (j * np.exp(np.sqrt(np.log(j))))
        if exponent == 0.0
        else j.astype(float) ** -exponent
    )
    tail = np.arange(1, 100_000)
    whole = (
        np.log(np.maximum(tail, 2)) / (tail * np.exp(np.sqrt(np.log(tail))))
        if exponent == 0.0
        else tail.astype(float) ** -exponent
    )
    return raw / whole.sum()


def lord_plus_plus(p: Array) -> Array:
    """Ramdas, Yang, Wainwright and Jordan (2017), W0 = q / 2, synchronous: each result known at once."""
    gamma, wealth = gammas(0.0), Q / 2.0
    wins: list[int] = []
    out = np.zeros(len(p), dtype=bool)
    for t in range(len(p)):
        level = gamma[t] * wealth
        if wins:
            level += (Q - wealth) * gamma[t - wins[0] - 1]
            level += Q * sum(gamma[t - w - 1] for w in wins[1:])
        out[t] = p[t] <= level
        if out[t]:
            wins.append(t)
    return out


def saffron(p: Array) -> Array:
    """Ramdas, Zrnic, Wainwright and Jordan (2018), lambda = 1/2, W0 = q / 2, synchronous."""
    gamma, lam, wealth = gammas(1.6), 0.5, Q / 2.0
    candidate = p <= lam
    wins: list[int] = []
    out = np.zeros(len(p), dtype=bool)
    for t in range(len(p)):

        def after(start: int, t: int = t) -> int:
            return int(candidate[start:t].sum())

        level = wealth * gamma[t - after(0)]
        for k, w in enumerate(wins):
            share = (1.0 - lam) * Q - wealth if k == 0 else (1.0 - lam) * Q
            level += share * gamma[t - w - 1 - after(w + 1)]
        out[t] = p[t] <= min(lam, level)
        if out[t]:
            wins.append(t)
    return out


def attended(p: Array) -> Array:
    """Every win at the experiment's own level: no control over the stream."""
    return p <= 0.025


def stream(rng: np.random.Generator, share: float) -> tuple[Array, Array]:
    real = rng.random(STREAM) < share
    return real, ndtr(-(rng.normal(size=STREAM) + POWER_SHIFT * real))


def false_share(rule: Rule, share: float) -> Callable[[np.random.Generator, int], Array]:
    """False wins and wins per stream; the ratio of their means is the marginal false discovery rate."""

    def simulate(rng: np.random.Generator, runs: int) -> Array:
        false, wins = np.zeros(runs), np.zeros(runs)
        for r in range(runs):
            real, p = stream(rng, share)
            won = rule(p)
            false[r], wins[r] = (won & ~real).sum(), max(1, won.sum())
        # Linearised ratio: its mean over runs is mFDR up to O(1 / runs), and its spread gives the error.
        ratio = false.mean() / wins.mean()
        return ratio + (false - ratio * wins) / wins.mean()

    return simulate


def power(rule: Rule, share: float) -> Callable[[np.random.Generator, int], Array]:
    def simulate(rng: np.random.Generator, runs: int) -> Array:
        out = np.zeros(runs)
        for r in range(runs):
            real, p = stream(rng, share)
            out[r] = (rule(p) & real).sum() / (STREAM * share)
        return out

    return simulate


RULES: dict[str, Rule] = {"ours": ours, "lord++": lord_plus_plus, "saffron": saffron}


def cells() -> list[Cell]:
    made: list[Cell] = []
    group = "False discoveries over streams of 40 experiments, 3 running at a time (mFDR)"
    for i, share in enumerate((0.0, 0.1, 0.3, 0.5)):
        made.append(
            Cell(
                name=f"stream-mfdr-{share:g}",
                group=group,
                claim=f"unattended promotion, {share:.0%} of changes are real",
                seed=1800 + i,
                runs=40_000 if share == 0.0 else 10_000,
                batch=1_000,
                simulate=false_share(ours, share),
                low=0.0,
                high=0.10,
                rate=False,
                fast_runs=300 if share == 0.1 else 0,
            )
        )
    made.append(
        Cell(
            name="control-stream-unlimited",
            group="Negative controls: the same harness must refuse them",
            claim="promote every win at its own level, 10% of changes are real",
            seed=1810,
            runs=10_000,
            batch=1_000,
            simulate=false_share(attended, 0.1),
            low=0.0,
            high=0.10,
            rate=False,
            control=True,
            fast_runs=1_000,
        )
    )
    for name, rule in RULES.items():
        for k, share in enumerate((0.1, 0.3, 0.5)):
            made.append(
                Cell(
                    name=f"stream-power-{name.replace('+', 'p')}-{share:g}",
                    group="Power over streams: share of real improvements promoted unattended",
                    claim=f"{name}, {share:.0%} of changes are real",
                    seed=1820 + k,  # the same streams for every rule
                    runs=4_000,
                    batch=1_000,
                    simulate=power(rule, share),
                    rate=False,
                )
            )
    return made
