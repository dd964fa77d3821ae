"""Cells that concern looking at any time: exact and asymptotic intervals, and the watch on guardrails."""

from collections.abc import Callable

import numpy as np
from monte_carlo import Cell
from scipy.special import ndtri, stdtr

from prx.domain.answers import Failed, Interval
from prx.stats.anytime import Tally, critical_z, exact_difference, exact_interval
from prx.stats.estimator import ArmTable, by_dimension
from prx.stats.guardrails import harm

Array = np.ndarray
Law = Callable[[np.random.Generator, tuple[int, ...]], Array]
MEANS = (0.3, 0.9, 0.95, 0.99)
DIMENSIONS = ("relevance", "completion", "latency", "tokens", "memory", "satisfaction")


def bernoulli(mean: float) -> Law:
    return lambda rng, shape: (rng.random(shape) < mean).astype(float)


def smooth(mean: float) -> Law:
    return lambda rng, shape: rng.beta(4 * mean, 4 * (1 - mean), shape)


def fails_rarely(mean: float) -> Law:
    """Nearly perfect scores with a rare complete failure: the worst case for a normal approximation."""
    share = (1 - mean) / 0.98
    return lambda rng, shape: np.where(rng.random(shape) < share, 0.0, 0.98 + 0.02 * rng.random(shape))


def exact_misses(law: Law, units: int, *, looks_until: int = 30, growth: float = 1.06):
    """Whether the difference of two equal arms ever leaves its exact interval; the arms fill unevenly."""

    def one(rng: np.random.Generator) -> bool:
        scores = law(rng, (2, units)).cumsum(axis=1)
        lead = rng.integers(0, 5)
        n = 1
        while n <= units:
            other = max(1, n - lead)
            seen = exact_difference(
                Tally(n, float(scores[0, n - 1])), Tally(other, float(scores[1, other - 1])), alpha=0.05
            )
            assert isinstance(seen, Interval)
            if not seen.low <= 0.0 <= seen.high:
                return True
            n = n + 1 if n < looks_until else int(n * growth) + 1
        return False

    def simulate(rng: np.random.Generator, runs: int) -> Array:
        return np.array([one(rng) for _ in range(runs)])

    return simulate


def exact_arm_misses(law: Law, mean: float, units: int):
    """Whether the interval of one arm ever leaves out the true mean; a look after each of the first units."""

    def one(rng: np.random.Generator) -> bool:
        total = law(rng, (units,)).cumsum()
        n = 1
        while n <= units:
            seen = exact_interval(Tally(n, float(total[n - 1])), alpha=0.05, best_at=100)
            assert isinstance(seen, Interval)
            if not seen.low <= mean <= seen.high:
                return True
            n = n + 1 if n < 100 else int(n * 1.02) + 1
        return False

    def simulate(rng: np.random.Generator, runs: int) -> Array:
        return np.array([one(rng) for _ in range(runs)])

    return simulate


def _welch_path(control: Array, treatment: Array, first: int, rare: int) -> tuple[Array, Array, Array]:
    """z (t tail mapped), information and whether a look is in range, after every unit from `first` on."""
    n = np.arange(1, control.shape[1] + 1)
    parts, ready = [], n >= first
    for arm in (control, treatment):
        mean = arm.cumsum(axis=1) / n
        centred = (arm**2).cumsum(axis=1) - n * mean**2
        parts.append((mean, np.maximum(centred, 0) / np.maximum(n - 1, 1) / n))
        # Units away from the usual value: without them no variance estimate is worth its name.
        usual = (arm > 0.5).cumsum(axis=1)
        ready = ready & (np.minimum(usual, n - usual) >= rare if rare else True)
    variance = parts[0][1] + parts[1][1]
    safe = np.where(variance > 0, variance, np.inf)
    t = (parts[1][0] - parts[0][0]) / np.sqrt(safe)
    df = variance**2 / np.maximum(sum(v**2 for _, v in parts), 1e-300) * np.maximum(n - 1, 1)
    z = np.sign(t) * -ndtri(np.maximum(stdtr(np.maximum(df, 1.0), -np.abs(t)), 1e-300))
    return z, 1 / safe, ready & (variance > 0)


def naive_misses(law: Law, units: int):
    """The mistake: an ordinary 95 % interval read after every session."""

    def simulate(rng: np.random.Generator, runs: int) -> Array:
        hits = np.empty(runs, bool)
        for run in range(runs):
            z, _, ready = _welch_path(law(rng, (1, units)), law(rng, (1, units)), 100, 0)
            hits[run] = bool((np.abs(z[ready]) > 1.959964).any())
        return hits

    return simulate


def asymptotic_misses(law: Law, units: int, *, rare: int = 0, planned: float = 2000.0):
    limits = np.array([critical_z(10.0**k, planned_information=planned) for k in np.linspace(-3, 9, 400)])

    def simulate(rng: np.random.Generator, runs: int) -> Array:
        hits = np.empty(runs, bool)
        for run in range(runs):
            z, information, ready = _welch_path(law(rng, (1, units)), law(rng, (1, units)), 100, rare)
            limit = np.interp(np.log10(information[ready]), np.linspace(-3, 9, 400), limits)
            hits[run] = bool((np.abs(z[ready]) > limit).any())
        return hits

    return simulate


def watch(drops: dict[str, float], law: Law, *, units: int, step: int, first: int = 100):
    """Sessions per arm at which `harm` trips, looking every `step` sessions; `units` + 1 if it never does."""

    def one(rng: np.random.Generator) -> int:
        arms = []
        for treated in (False, True):
            arms.append(
                {
                    d: np.clip(law(rng, (units,)) - (drops.get(d, 0.0) if treated else 0.0), 0.0, 1.0)
                    for d in DIMENSIONS
                }
            )
        for n in range(first, units + 1, step):
            ones = np.ones(n, int)
            tables = [
                ArmTable.from_columns(
                    n=dict.fromkeys(DIMENSIONS, ones), total={d: y[:n] for d, y in arm.items()}, sessions=ones
                )
                for arm in arms
            ]
            answers = harm(by_dimension(*tables, dimensions=DIMENSIONS))
            if any(isinstance(a, Failed) for a in answers.values()):
                return n
        return units + 1

    return one


def clustered_watch(users: int, sessions: int, icc: float, *, step: int):
    """As `watch` without any drop, where users come back: looks after every `step` new users per arm."""

    def one(rng: np.random.Generator) -> int:
        arms = []
        for _ in range(2):
            shared = rng.normal(size=(users, 1))
            y = {}
            for d in DIMENSIONS:
                level = np.sqrt(icc) * (0.6 * shared + 0.8 * rng.normal(size=(users, 1)))
                z = level + np.sqrt(1 - icc) * rng.normal(size=(users, sessions))
                y[d] = np.clip(0.6 + 0.25 * z, 0.0, 1.0).sum(axis=1)
            arms.append(y)
        for n in range(25, users + 1, step):
            every = np.full(n, sessions)
            tables = [
                ArmTable.from_columns(
                    n=dict.fromkeys(DIMENSIONS, every),
                    total={d: y[:n] for d, y in arm.items()},
                    sessions=every,
                )
                for arm in arms
            ]
            answers = harm(by_dimension(*tables, dimensions=DIMENSIONS))
            if any(isinstance(a, Failed) for a in answers.values()):
                return n
        return users + 1

    return one


def stopped_within(one: Callable[[np.random.Generator], int], sessions: int):
    def simulate(rng: np.random.Generator, runs: int) -> Array:
        return np.array([one(rng) <= sessions for _ in range(runs)])

    return simulate


def wide(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Mean 0.6, standard deviation 0.25, with room for a drop of 0.10 inside [0, 1]."""
    return 0.1 + 0.9 * rng.beta(1.159, 0.927, shape)


CELLS: list[Cell] = []
for k, mean in enumerate(MEANS):
    for word, law in (
        ("0/1", bernoulli(mean)),
        ("smooth", smooth(mean)),
        ("rare failure", fails_rarely(mean)),
    ):
        if word == "rare failure" and mean < 0.9:
            continue
        CELLS.append(
            Cell(
                name=f"anytime-exact-{mean:g}-{word.replace('/', '').replace(' ', '-')}",
                group="Anytime intervals",
                claim=f"exact difference ever misses, {word} scores, mean {mean:g}, from the first unit on",
                seed=5000 + 10 * k + len(CELLS),
                runs=300,
                batch=100,
                simulate=exact_misses(law, 2_000),
                high=0.05,
                fast_runs=25 if word == "0/1" and mean == 0.95 else 0,
            )
        )
        CELLS.append(
            Cell(
                name=f"anytime-asymptotic-{mean:g}-{word.replace('/', '').replace(' ', '-')}",
                group="Anytime intervals",
                claim=f"asymptotic interval ever misses, {word} scores, mean {mean:g}, a look after every "
                "session from 100 per arm and 20 rare scores on",
                seed=5100 + 10 * k + len(CELLS),
                runs=10_000,
                batch=1000,
                simulate=asymptotic_misses(law, 3_000, rare=0 if word == "smooth" else 20),
                high=0.05,
                fast_runs=300 if word == "0/1" else 0,
            )
        )

for mean in (0.3, 0.95, 0.99):
    CELLS.append(
        Cell(
            name=f"anytime-exact-arm-{mean:g}",
            group="Anytime intervals",
            claim=f"exact interval of one arm ever misses, 0/1 scores with mean {mean:g}",
            seed=5150 + len(CELLS),
            runs=4_000,
            batch=250,
            simulate=exact_arm_misses(bernoulli(mean), mean, 2_000),
            high=0.05,
            fast_runs=25 if mean == 0.95 else 0,
        )
    )
CELLS.append(
    Cell(
        name="anytime-naive",
        group="Anytime intervals",
        claim="negative control: an ordinary 95 % interval read after every session",
        seed=5190,
        runs=5_000,
        batch=1000,
        simulate=naive_misses(smooth(0.9), 3_000),
        high=0.05,
        control=True,
        fast_runs=200,
    )
)

for drop_in in ("completion", "latency"):
    CELLS.append(
        Cell(
            name=f"anytime-harm-median-{drop_in}",
            group="Guardrail watch",
            claim=f"share stopped within 250 sessions per arm, {drop_in} down by 0.10 (sd 0.25)",
            seed=5200 + len(CELLS),
            runs=1_000,
            batch=250,
            simulate=stopped_within(watch({drop_in: 0.10}, wide, units=260, step=10), 250),
            low=0.50,
            fast_runs=50 if drop_in == "completion" else 0,
        )
    )
for word, law in (
    ("sd 0.25", wide),
    ("0/1, mean 0.9", bernoulli(0.9)),
    ("0/1, mean 0.99", bernoulli(0.99)),
    ("rare failure, mean 0.95", fails_rarely(0.95)),
):
    CELLS.append(
        Cell(
            name=f"anytime-harm-false-{word.replace(', ', '-').replace(' ', '-').replace('/', '')}",
            group="Guardrail watch",
            claim=f"false stops over 2 000 sessions per arm, six dimensions, {word}",
            seed=5300 + len(CELLS),
            runs=2_000,
            batch=100,
            simulate=stopped_within(watch({}, law, units=2_000, step=50), 2_000),
            high=0.01,
            fast_runs=8 if word == "sd 0.25" else 0,
        )
    )

CELLS.append(
    Cell(
        name="anytime-harm-false-clustered",
        group="Guardrail watch",
        claim="false stops over 500 users per arm with 4 sessions each, ICC 0.4, from 25 users on",
        seed=5390,
        runs=3_000,
        batch=100,
        simulate=stopped_within(clustered_watch(500, 4, 0.4, step=10), 500),
        high=0.01,
    )
)
