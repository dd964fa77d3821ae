"""What missing scores could hide, and what is known before assignment."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prx.domain.answers import NotEnoughData
from prx.domain.errors import BadStatistics
from prx.stats.covariates import Adjustment, adjusted, fit_adjustment
from prx.stats.estimator import ArmTable, Composite, DimensionDifference, Floor, composite
from prx.stats.missing import MissingBound, hidden_bound, missing_bound

OPEN = Floor(0, 2.0)
ONE = {"completion": 1.0}


def difference(control: float, treatment: float, c: float, t: float) -> DimensionDifference:
    return DimensionDifference("d", 1.0, control, treatment, treatment - control, c, t)


@pytest.mark.parametrize(
    ("case", "bound"),
    [
        (difference(0.8, 0.8, 1.0, 1.0), 0.0),
        (difference(0.6, 0.7, 1.0, 0.8), 0.15),  # q 0.2: 0.6 / 0.8 - 0.6
        (difference(0.9, 0.9, 1.0, 0.8), 0.1),  # capped at a mean of 1
        (difference(0.6, 0.7, 0.8, 1.0), 0.075),  # 0.7 - (0.7 - 0.2) / 0.8
        (difference(0.6, 0.1, 0.8, 1.0), 0.1),  # cannot fall below 0
        (difference(0.6, 0.7, 1.0, 0.0), 0.4),
        (difference(0.6, 0.7, 0.0, 1.0), 0.7),
        (difference(0.6, 0.7, 0.0, 0.0), 0.0),
    ],
)
def test_the_bound_is_what_the_missing_share_could_hide(case: DimensionDifference, bound: float) -> None:
    assert hidden_bound(case) == pytest.approx(bound)


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0.01, 1), st.floats(0.01, 1))
def test_the_bound_never_helps_the_treatment_and_keeps_the_arms_in_range(
    control: float, treatment: float, c: float, t: float
) -> None:
    bound = hidden_bound(difference(control, treatment, c, t))
    assert -1e-12 <= bound <= 1 + 1e-12
    if t < c:
        assert control + bound <= 1 + 1e-12
    else:
        assert treatment - bound >= -1e-12


def _completions(seed: int, users: int, *, hide: float) -> tuple[ArmTable, ArmTable]:
    """Control sees all; treatment leaves out the share `hide` of its failures; equal agents otherwise."""
    rng = np.random.default_rng(seed)
    tables = []
    for hidden in (0.0, hide):
        good = rng.random(users) < 0.6
        seen = good | (rng.random(users) >= hidden)
        tables.append(ArmTable.from_rows(np.arange(users), {"completion": good}, scored={"completion": seen}))
    return tables[0], tables[1]


def _bounded(arms: tuple[ArmTable, ArmTable]) -> tuple[Composite, MissingBound]:
    found = composite(*arms, weights=ONE, floor=OPEN)
    assert isinstance(found, Composite)
    bound = missing_bound(found, *arms)
    assert isinstance(bound, MissingBound)
    return found, bound


def test_an_agent_that_hides_its_failures_looks_better_until_the_bound_is_taken() -> None:
    found, bound = _bounded(_completions(1, 20_000, hide=0.2))
    assert found.delta == pytest.approx(0.6 / 0.92 - 0.6, abs=0.015)
    assert found.z > 8
    assert bound.delta == pytest.approx(found.delta - bound.total)
    assert abs(bound.z) < 3
    assert bound.lower(1.96) < 0 < found.interval().low


def test_without_gaps_the_bound_is_the_estimate() -> None:
    found, bound = _bounded(_completions(2, 500, hide=0.0))
    assert (bound.delta, bound.se) == pytest.approx((found.delta, found.se), rel=5e-3)
    assert bound.total == 0.0


def test_gaps_by_sampling_are_no_behaviour() -> None:
    arms = _completions(3, 2000, hide=0.2)
    found = composite(*arms, weights=ONE, floor=OPEN)
    assert isinstance(found, Composite)
    bound = missing_bound(found, *arms, behavioural=())
    assert isinstance(bound, MissingBound)
    assert bound.delta == found.delta


@pytest.mark.parametrize("hide", [(0.0, 0.3), (0.3, 0.0)])
def test_the_error_of_the_worst_case_is_what_repeating_the_experiment_shows(
    hide: tuple[float, float],
) -> None:
    rng = np.random.default_rng(6)
    deltas, errors = [], []
    for _ in range(400):
        tables = []
        for share in hide:
            good = rng.random(600) < 0.6
            seen = good | (rng.random(600) >= share)
            tables.append(
                ArmTable.from_rows(np.arange(600), {"completion": good}, scored={"completion": seen})
            )
        _, bound = _bounded((tables[0], tables[1]))
        deltas.append(bound.delta)
        errors.append(bound.se)
    assert np.std(deltas) == pytest.approx(np.mean(errors), rel=0.15)  # 400 runs: relative s.e. 0.035


def _history(
    seed: int, users: int, slope: float
) -> tuple[ArmTable, dict[str, dict[str, np.ndarray]], np.ndarray]:
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 4, users)
    x = rng.normal(2.0, 1.0, users)
    user = np.repeat(np.arange(users), counts)
    y = 0.5 + slope * (x[user] - 2.0) + 0.05 * rng.normal(size=len(user))
    table = ArmTable.from_rows(user, {"fitness": y, "other": np.clip(y, 0, 1)}, bounds=None)
    return table, {"fitness": {"history": x * counts}}, x


def test_the_fit_recovers_the_slope_and_its_share_of_the_variance() -> None:
    table, _, x = _history(1, 4000, 0.05)
    fit = fit_adjustment(table.n["fitness"], table.total["fitness"], {"history": x, "flag": np.ones(4000)})
    assert isinstance(fit, Adjustment)
    assert fit.slopes["history"] == pytest.approx(0.05, abs=0.003)
    assert fit.slopes["flag"] == 0.0
    assert fit.centres["history"] == pytest.approx(2.0, abs=0.06)
    assert 0.5 < fit.explained < 0.8


def test_the_adjusted_difference_is_the_plain_one_less_the_slopes_share_of_the_imbalance() -> None:
    (a, sums_a, _), (b, sums_b, _) = _history(2, 300, 0.05), _history(3, 300, 0.05)
    fit = Adjustment({"history": 0.05}, {"history": 2.0}, 0.5)
    weights = {"fitness": 1.0}
    plain = composite(a, b, weights=weights, rho=0.0, floor=OPEN)
    clean = composite(
        adjusted(a, sums_a, {"fitness": fit}),
        adjusted(b, sums_b, {"fitness": fit}),
        weights=weights,
        rho=0.0,
        floor=OPEN,
    )
    assert isinstance(plain, Composite)
    assert isinstance(clean, Composite)
    means = [s["fitness"]["history"].sum() / t.n["fitness"].sum() for t, s in ((a, sums_a), (b, sums_b))]
    assert clean.delta == pytest.approx(plain.delta - 0.05 * (means[1] - means[0]), abs=1e-12)
    assert clean.se < 0.85 * plain.se
    assert adjusted(a, sums_a, {"fitness": fit}).total["other"] is a.total["other"]


def test_a_covariate_that_the_plan_froze_must_be_there() -> None:
    table, _, _ = _history(4, 50, 0.05)
    fit = {"fitness": Adjustment({"history": 0.05}, {"history": 2.0}, 0.5)}
    with pytest.raises(BadStatistics, match="needs the covariate history"):
        adjusted(table, {}, fit)
    with pytest.raises(BadStatistics, match="one finite sum per row"):
        adjusted(table, {"fitness": {"history": [math.nan] * 50}}, fit)


def test_few_units_or_bad_columns_give_no_fit() -> None:
    assert isinstance(fit_adjustment([1] * 49, [0.5] * 49, {"x": [1.0] * 49}), NotEnoughData)
    assert isinstance(fit_adjustment([1] * 90, [0.5] * 90, {}), NotEnoughData)
    with pytest.raises(BadStatistics, match="one length"):
        fit_adjustment([1] * 90, [0.5] * 90, {"x": [1.0] * 89})
    with pytest.raises(BadStatistics, match="NaN"):
        fit_adjustment([1] * 90, [0.5] * 90, {"x": [math.inf] * 90})
