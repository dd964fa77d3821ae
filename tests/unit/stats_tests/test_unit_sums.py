"""Sums per unit: what they accept, how they merge, and the correlation that they show."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prx.domain.answers import NotEnoughData
from prx.domain.errors import BadStatistics
from prx.stats.correlation import intraclass_correlation
from prx.stats.tails import t_interval, t_to_z, two_sided_p
from prx.stats.unitsums import ArmTable, UnitSum, on_grid

scores = st.lists(st.floats(0, 1), min_size=1, max_size=30)


@given(scores, st.randoms(use_true_random=False))
def test_sums_on_the_grid_are_exact_in_any_order(values: list[float], order: object) -> None:
    forward = sum((UnitSum.of(v) for v in values), UnitSum())
    backward = sum((UnitSum.of(v) for v in reversed(values)), UnitSum())
    assert forward == backward
    assert forward.total == math.fsum(map(on_grid, values))
    assert abs(forward.total - math.fsum(values)) <= len(values) * 2**-33


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_score_that_is_no_number_is_refused(value: float) -> None:
    with pytest.raises(BadStatistics, match="missing score"):
        UnitSum.of(value)


@pytest.mark.parametrize("wrong", [(-1, 0.0), (0, 0.5), (2, math.nan)])
def test_an_impossible_sum_is_refused(wrong: tuple[int, float]) -> None:
    with pytest.raises(BadStatistics, match="no sum"):
        UnitSum(*wrong)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -0.01, 1.01])
def test_a_score_out_of_range_is_refused_unless_the_metric_is_unbounded(bad: float) -> None:
    with pytest.raises(BadStatistics, match="fitness holds"):
        ArmTable.from_rows([0, 1, 2], {"fitness": [0.5, bad, 0.7]})
    if math.isfinite(bad):
        assert ArmTable.from_rows([0, 1, 2], {"cost": [0.5, bad, 0.7]}, bounds=None).units == 3


def test_a_missing_score_may_hold_anything() -> None:
    table = ArmTable.from_rows([0, 0, 1], {"f": [0.5, math.nan, 0.7]}, scored={"f": [True, False, True]})
    assert table.total["f"].tolist() == [0.5, pytest.approx(0.7)]
    assert table.sessions.tolist() == [2, 1]


def test_a_unit_mean_out_of_range_is_refused() -> None:
    with pytest.raises(BadStatistics, match="outside 0"):
        ArmTable.from_sums({"fitness": {"a": UnitSum(2, 2.5)}})


def test_more_scores_than_sessions_are_refused() -> None:
    with pytest.raises(BadStatistics, match="more scored sessions"):
        ArmTable.from_sums({"fitness": {"a": UnitSum(2, 1.0)}}, sessions=[{"a": 1}])


def test_two_rows_of_one_unit_in_one_stratum_are_refused() -> None:
    with pytest.raises(BadStatistics, match="two rows"):
        ArmTable.from_columns(n={"f": [1, 1]}, total={"f": [0.5, 0.5]}, sessions=[1, 1], unit=[0, 0])


def test_columns_of_different_length_are_refused() -> None:
    with pytest.raises(BadStatistics, match="differ in length"):
        ArmTable.from_columns(n={"f": [1, 1]}, total={"f": [0.5]}, sessions=[1, 1])
    with pytest.raises(BadStatistics, match="2 values for 3 sessions"):
        ArmTable.from_rows([0, 1, 2], {"f": [0.5, 0.5]})


@pytest.mark.parametrize("names", [["b", "a", "c", "a"], [10**9, 3, 7, 3], [-4, 2, 9, 2]])
def test_units_may_have_any_name(names: list[object]) -> None:
    table = ArmTable.from_rows(np.asarray(names), {"f": [0.1, 0.2, 0.3, 0.4]})
    assert table.units == 3
    assert sorted(table.n["f"].tolist()) == [1, 1, 2]


def _grouped(rng: np.random.Generator, icc: float, sizes: np.ndarray) -> tuple[np.ndarray, ...]:
    unit = np.repeat(np.arange(len(sizes)), sizes)
    y = 0.6 + 0.1 * (
        math.sqrt(icc) * rng.normal(size=len(sizes))[unit] + math.sqrt(1 - icc) * rng.normal(size=len(unit))
    )
    return sizes, np.bincount(unit, weights=y), np.bincount(unit, weights=y * y)


@pytest.mark.parametrize("icc", [0.0, 0.2, 0.6])
def test_the_correlation_is_found_with_unequal_units(icc: float) -> None:
    rng = np.random.default_rng(8)
    found = intraclass_correlation(*_grouped(rng, icc, rng.integers(1, 9, 3000)))
    assert found == pytest.approx(icc, abs=0.03)


def test_the_correlation_needs_units_that_came_back_and_some_spread() -> None:
    once = np.ones(500)
    assert isinstance(intraclass_correlation(once, once * 0.5, once * 0.25), NotEnoughData)
    twice = np.full(500, 2)
    assert isinstance(intraclass_correlation(twice, twice * 0.5, twice * 0.25), NotEnoughData)


def test_sums_of_squares_that_cannot_be_are_refused() -> None:
    with pytest.raises(BadStatistics, match="sum of squares"):
        intraclass_correlation([2] * 30, [1.0] * 30, [0.1] * 30)
    with pytest.raises(BadStatistics, match="NaN"):
        intraclass_correlation([2], [math.nan], [1.0])


@given(st.floats(-60, 60), st.floats(1, 1e6))
def test_the_mapped_z_has_the_tail_of_t_and_its_sign(t: float, df: float) -> None:
    z = t_to_z(t, df)
    assert math.copysign(1, z) == math.copysign(1, t)
    assert abs(z) <= abs(t) + 1e-6
    assert t_to_z(-t, df) == -z
    p = two_sided_p(t, df)
    if p > 1e-280:
        assert math.erfc(abs(z) / math.sqrt(2)) == pytest.approx(p, rel=1e-7)


def test_the_mapped_z_keeps_growing_where_tails_underflow() -> None:
    zs = [t_to_z(t, 5000.0) for t in (30.0, 38.0, 45.0, 80.0, 200.0, 1e4)]
    assert zs == sorted(zs)
    assert all(b - a > 1 for a, b in pairwise(zs))
    # A normal law in the limit of many degrees of freedom.
    assert t_to_z(60.0, 1e13) == pytest.approx(60.0, abs=1e-3)


def test_a_t_without_a_tail_is_refused() -> None:
    with pytest.raises(BadStatistics):
        t_to_z(math.inf, 10)
    with pytest.raises(BadStatistics):
        t_to_z(1.0, 0)
    with pytest.raises(BadStatistics):
        t_interval(0.0, 1.0, 10, 1.0)
