"""Cells that concern one look and its validity: clusters, families, covariates, hidden failures, split."""

import numpy as np
from monte_carlo import Cell

from prx.domain.answers import NotEnoughData
from prx.stats.covariates import Adjustment, adjusted, fit_adjustment
from prx.stats.estimator import ArmTable, Composite, Floor, by_dimension, composite
from prx.stats.losses import LossBlock, loss_imbalance
from prx.stats.missing import missing_bound
from prx.stats.multiplicity import composite_first
from prx.stats.twosample import Moments, Welch, welch_from_moments
from prx.stats.validity import SequentialTest, sequential_srm

Array = np.ndarray
Z = 1.959963984540054
OPEN = Floor(0, 2.0)
WEIGHTS = {"relevance": 0.5, "completion": 0.3, "precision": 0.2}
CONTROL_COVERAGE = {"relevance": 1.0, "completion": 0.6, "precision": 0.35}
OTHER_COVERAGE = {"relevance": 1.0, "completion": 0.4, "precision": 0.5}


def judged(z: Array) -> Array:
    return np.clip(np.round((0.65 + 0.25 * z) * 4) / 4, 0.0, 1.0)


def binary(z: Array) -> Array:
    return (z < 0.84).astype(float)


LAWS = {"judged": judged, "binary": binary}


def sessions_per_user(rng: np.random.Generator, kind: str, users: int) -> Array:
    if kind == "zipf":
        return np.minimum(rng.zipf(1.8, users), 20)
    return np.ones(users, int) if kind == "single" else rng.integers(1, 21, users)


def clustered_arm(
    rng: np.random.Generator, users: int, icc: float, *, kind: str, law: str, coverage: dict[str, float]
) -> ArmTable:
    counts = sessions_per_user(rng, kind, users)
    user = np.repeat(np.arange(users), counts)
    shared = rng.normal(size=users)
    scores, scored = {}, {}
    for name, share in coverage.items():
        level = 0.6 * shared + 0.8 * rng.normal(size=users)
        z = np.sqrt(icc) * level[user] + np.sqrt(1 - icc) * rng.normal(size=len(user))
        scores[name] = LAWS[law](z)
        scored[name] = rng.random(len(user)) < share
    return ArmTable.from_rows(user, scores, scored=scored)


def cluster_errors(users: int, icc: float, kind: str, law: str):
    def simulate(rng: np.random.Generator, runs: int) -> Array:
        return np.array([one(rng) for _ in range(runs)])

    def one(rng: np.random.Generator) -> bool:
        found = composite(
            clustered_arm(rng, users, icc, kind=kind, law=law, coverage=CONTROL_COVERAGE),
            clustered_arm(rng, users, icc, kind=kind, law=law, coverage=OTHER_COVERAGE),
            weights=WEIGHTS,
            rho=0.2,
            floor=OPEN,
        )
        assert isinstance(found, Composite)
        return abs(found.z) > Z

    return simulate


def session_level_errors(users: int, icc: float, sessions: int):
    """Every session taken as its own unit: the mistake that clusters punish."""

    def simulate(rng: np.random.Generator, runs: int) -> Array:
        hits = np.empty(runs, bool)
        for run in range(runs):
            arms = []
            for _ in range(2):
                z = np.sqrt(icc) * rng.normal(size=(users, 1)) + np.sqrt(1 - icc) * rng.normal(
                    size=(users, sessions)
                )
                y = judged(z).ravel()
                arms.append(Moments(len(y), float(y.mean()), float(y.var(ddof=1))))
            found = welch_from_moments(*arms)
            assert isinstance(found, Welch)
            hits[run] = found.p_value < 0.05
        return hits

    return simulate


def family_errors(correlation: float, affected: tuple[int, ...]):
    """Whether any true null is called significant; `affected` dimensions are better by 0.5 sd."""
    names = ("a", "b", "c", "d", "e", "f")
    weights = dict(zip(names, (0.30, 0.25, 0.15, 0.10, 0.10, 0.10), strict=True))

    def arm(rng: np.random.Generator, gain: float) -> ArmTable:
        shared = rng.normal(size=100)
        n = {name: np.ones(100, int) for name in names}
        total = {
            name: 0.6
            + 0.12 * (np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * rng.normal(size=100))
            + (gain if k in affected else 0.0)
            for k, name in enumerate(names)
        }
        return ArmTable.from_columns(n=n, total=total, sessions=np.ones(100, int), bounds=None)

    def one(rng: np.random.Generator) -> bool:
        arms = arm(rng, 0.0), arm(rng, 0.06)
        whole = composite(*arms, weights=weights, floor=OPEN)
        alone = by_dimension(*arms, dimensions=names, floor=OPEN)
        assert isinstance(whole, Composite)
        ps = {name: r if isinstance(r, NotEnoughData) else r.p_value for name, r in alone.items()}
        family = composite_first(whole.p_value, ps)
        false = [family.dimensions[name].significant for k, name in enumerate(names) if k not in affected]
        return any(false) or (family.significant and not affected)

    def simulate(rng: np.random.Generator, runs: int) -> Array:
        return np.array([one(rng) for _ in range(runs)])

    return simulate


def covariate_arm(
    rng: np.random.Generator, users: int, correlation: float, sessions: int
) -> tuple[ArmTable, dict[str, dict[str, Array]], Array]:
    """A user's history x is known before assignment; each session scores around it."""
    x = rng.normal(size=users)
    noise = rng.normal(size=(users, sessions)).mean(axis=1)
    y = 0.7 + 0.05 * (correlation * x + np.sqrt(1 - correlation**2) * noise)
    table = ArmTable.from_columns(
        n={"fitness": np.full(users, sessions)},
        total={"fitness": y * sessions},
        sessions=np.full(users, sessions),
        bounds=None,
    )
    return table, {"fitness": {"history": x * sessions}}, x


def covariate_runs(measure: str, *, correlation: float, users: int, sessions: int):
    """Squared adjusted difference in units of the plain variance, or whether the adjusted test errs."""
    table, _, x = covariate_arm(np.random.default_rng(7), 20_000, correlation, sessions)
    fit = fit_adjustment(table.n["fitness"], table.total["fitness"], {"history": x})
    assert isinstance(fit, Adjustment)

    def one(rng: np.random.Generator) -> float:
        raw, clean = [], []
        for _ in range(2):
            arm, sums, _ = covariate_arm(rng, users, correlation, sessions)
            raw.append(arm)
            clean.append(adjusted(arm, sums, {"fitness": fit}))
        before = composite(*raw, weights={"fitness": 1.0}, floor=OPEN)
        after = composite(*clean, weights={"fitness": 1.0}, floor=OPEN)
        assert isinstance(before, Composite)
        assert isinstance(after, Composite)
        return (after.se / before.se) ** 2 if measure == "variance" else float(abs(after.z) > Z)

    def simulate(rng: np.random.Generator, runs: int) -> Array:
        return np.array([one(rng) for _ in range(runs)])

    return simulate


def hidden_failures(rule: str, users: int):
    """Equal agents; the treatment skips its tool call in 20 % of would-be failures, so they go unscored."""

    def one(rng: np.random.Generator) -> bool:
        good = rng.random((2, users)) < 0.6
        seen = np.ones((2, users), bool)
        seen[1] = good[1] | (rng.random(users) >= 0.2)
        arms = [
            ArmTable.from_rows(np.arange(users), {"completion": good[k]}, scored={"completion": seen[k]})
            for k in range(2)
        ]
        found = composite(*arms, weights={"completion": 1.0}, floor=OPEN)
        assert isinstance(found, Composite)
        bound = missing_bound(found, *arms)
        assert not isinstance(bound, NotEnoughData)
        if rule == "none":
            return found.z > Z
        if rule == "point":
            return found.z > Z and bound.delta > 0
        return found.z > Z and bound.lower(Z) > 0

    def simulate(rng: np.random.Generator, runs: int) -> Array:
        return np.array([one(rng) for _ in range(runs)])

    return simulate


def split_found(share: float, units: int):
    def simulate(rng: np.random.Generator, runs: int) -> Array:
        steps = np.diff(np.linspace(0, units, 31).astype(int))
        hits = np.empty(runs, bool)
        for run in range(runs):
            first = rng.binomial(steps, share).cumsum()
            looks = np.stack((first, steps.cumsum() - first), axis=1)
            found = sequential_srm([tuple(map(int, c)) for c in looks], (0.5, 0.5))
            assert isinstance(found, SequentialTest)
            hits[run] = found.crossed_at is not None
        return hits

    return simulate


def losses_found(control: float, treatment: float):
    """30 looks of about 100 sessions per arm, the loss rate drifting to its double."""

    def simulate(rng: np.random.Generator, runs: int) -> Array:
        hits = np.empty(runs, bool)
        for run in range(runs):
            blocks = []
            for look in range(30):
                n = rng.poisson(100, 2)
                rate = np.array([control, treatment]) * (1 + look / 29)
                lost = rng.binomial(n, rate)
                blocks.append(LossBlock(int(n[0]), int(n[1]), int(lost[0]), int(lost[1])))
            found = loss_imbalance(blocks)
            assert isinstance(found, SequentialTest)
            hits[run] = found.crossed_at is not None
        return hits

    return simulate


def _clusters() -> list[Cell]:
    cells = []
    for users, runs in ((60, 20_000), (150, 10_000)):
        for kind in ("single", "uniform", "zipf"):
            for icc in (0.0, 0.3, 0.6):
                for law in ("judged", "binary") if users == 60 else ("judged",):
                    cells.append(
                        Cell(
                            name=f"validity-cluster-{users}-{kind}-icc{icc:g}-{law}",
                            group="Clustered sessions, one look",
                            claim=f"type-I error, {users} users per arm, {kind} sessions, ICC {icc:g}, "
                            f"{law} scores, dimensions missing differently by arm",
                            seed=4100 + len(cells),
                            runs=runs,
                            batch=1000,
                            simulate=cluster_errors(users, icc, kind, law),
                            low=0.043,
                            high=0.058,
                            fast_runs=250 if users == 60 and icc == 0.6 and law == "judged" else 0,
                        )
                    )
    for k, sessions in enumerate((4, 10)):
        cells.append(
            Cell(
                name=f"validity-session-level-{sessions}",
                group="Clustered sessions, one look",
                claim=f"negative control: sessions as units, ICC 0.4, {sessions} sessions per user",
                seed=4190 + k,
                runs=10_000,
                batch=1000,
                simulate=session_level_errors(300, 0.4, sessions),
                low=0.043,
                high=0.058,
                control=True,
                fast_runs=400,
            )
        )
    return cells


def _families() -> list[Cell]:
    cases = [(r, a) for r in (0.0, 0.6, 0.9) for a in ((), (0,), (0, 1), (0, 1, 2), (1, 2, 3, 4, 5))]
    return [
        Cell(
            name=f"validity-family-{r:g}-{''.join(map(str, a)) or 'none'}",
            group="Composite first, six dimensions",
            claim=f"any false claim, correlation {r:g}, {len(a)} of 6 dimensions truly better",
            seed=4200 + k,
            runs=4_000 if a else 20_000,  # at the level itself, so the goal is 3 points of 1000 away
            batch=1000,
            simulate=family_errors(r, a),
            high=0.053,
            fast_runs=150 if a in ((), (0, 1)) and r == 0.6 else 0,
        )
        for k, (r, a) in enumerate(cases)
    ]


def _covariates() -> list[Cell]:
    cells = []
    for sessions in (1, 4):
        # 1 - rho^2 at the level of unit means, where the session noise is averaged.
        left = 0.64 / sessions / (0.36 + 0.64 / sessions)
        cells.append(
            Cell(
                name=f"validity-covariate-variance-{sessions}",
                group="Variance reduction",
                claim=f"variance left at session correlation 0.6 with history, {sessions} sessions per user, "
                f"theory {left:.3f}",
                seed=4300 + sessions,
                runs=5_000,
                batch=1000,
                simulate=covariate_runs("variance", correlation=0.6, users=150, sessions=sessions),
                low=left - 0.02,
                high=left + 0.02,
                fast_runs=60,
                rate=False,
            )
        )
        cells.append(
            Cell(
                name=f"validity-covariate-error-{sessions}",
                group="Variance reduction",
                claim=f"type-I error with frozen coefficients, 60 users per arm, {sessions} sessions each",
                seed=4310 + sessions,
                runs=10_000,
                batch=1000,
                simulate=covariate_runs("error", correlation=0.6, users=60, sessions=sessions),
                low=0.043,
                high=0.058,
                fast_runs=250,
            )
        )
    return cells


def _hidden() -> list[Cell]:
    said = {
        "bound": "wins of an equal agent that hides 20 % of its failures, lower missingness limit",
        "point": "the same by the sign of the missingness bound alone",
        "none": "negative control: the same without a missingness bound",
    }
    return [
        Cell(
            name=f"validity-hidden-{rule}-{users}",
            group="Missing by behaviour",
            claim=f"{text}, {users} users per arm",
            seed=4400 + users,
            runs=10_000,
            batch=1000,
            simulate=hidden_failures(rule, users),
            high=0.025,  # the level of a win
            control=rule != "bound",
            fast_runs=250 if users == 2000 else 0,
        )
        for users in (500, 2000)
        for rule, text in said.items()
    ]


def _validity() -> list[Cell]:
    return [
        Cell(
            name="validity-srm-false-alarm",
            group="Sample ratio",
            claim="sequential SRM false alarms over 30 looks at 50/50",
            seed=4501,
            runs=20_000,
            batch=1000,
            simulate=split_found(0.5, 20_000),
            high=0.001,
            fast_runs=500,
        ),
        Cell(
            name="validity-srm-found",
            group="Sample ratio",
            claim="sequential SRM finds 52/48 by 20 000 units",
            seed=4502,
            runs=10_000,
            batch=1000,
            simulate=split_found(0.52, 20_000),
            low=0.90,
            fast_runs=400,
        ),
        Cell(
            name="validity-loss-false-alarm",
            group="Lost sessions",
            claim="false alarms over 30 looks where both arms lose 1-2 %",
            seed=4503,
            runs=10_000,
            batch=1000,
            simulate=losses_found(0.01, 0.01),
            high=0.001,
            fast_runs=60,
        ),
        Cell(
            name="validity-loss-found",
            group="Lost sessions",
            claim="1-2 % against 3-6 % of lost sessions found in 30 looks of 100 sessions per arm",
            seed=4504,
            runs=2_000,
            batch=500,
            simulate=losses_found(0.01, 0.03),
            low=0.90,
            fast_runs=40,
        ),
    ]


CELLS = [*_clusters(), *_families(), *_covariates(), *_hidden(), *_validity()]
