"""What the two-sample tests say about input that cannot carry a test, and how they agree with scipy."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as oracle

from prx.domain.answers import NotEnoughData
from prx.domain.errors import BadStatistics
from prx.stats.twosample import brunner_munzel, mann_whitney, welch

TESTS: list[Callable[..., Any]] = [welch, mann_whitney, brunner_munzel]
FINE = [0.1, 0.4, 0.5, 0.7, 0.9]


@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize("short", [[], [0.5], [0.2, 0.8]])
def test_fewer_than_three_values_are_not_enough(test: Callable[..., Any], short: list[float]) -> None:
    assert isinstance(test(short, FINE), NotEnoughData)
    assert isinstance(test(FINE, short), NotEnoughData)


@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_no_number_is_an_error(test: Callable[..., Any], bad: float) -> None:
    with pytest.raises(BadStatistics, match="NaN or infinity"):
        test(FINE, [*FINE, bad])
    with pytest.raises(BadStatistics, match="NaN or infinity"):
        test([bad], FINE)


@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize("wrong", [["0.5", "good", "0.7"], [[0.1], [0.2, 0.3]], [None, 0.4, 0.5, 0.6]])
def test_something_that_is_no_number_is_an_error(test: Callable[..., Any], wrong: list[Any]) -> None:
    with pytest.raises(BadStatistics, match="treatment arm holds"):
        test(FINE, wrong)


@pytest.mark.parametrize("test", TESTS)
def test_a_value_whose_square_overflows_is_an_error(test: Callable[..., Any]) -> None:
    with pytest.raises(BadStatistics, match="overflow"):
        test(FINE, [*FINE, 1e200])


@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize("other", [0.5, 0.7])
def test_two_constant_arms_decide_nothing(test: Callable[..., Any], other: float) -> None:
    assert isinstance(test([0.5] * 50, [other] * 50), NotEnoughData)


def test_one_constant_arm_gives_welch_no_spread_to_go_by() -> None:
    assert isinstance(welch([0.1] * 30, FINE), NotEnoughData)
    assert isinstance(welch(FINE, [0.1] * 30), NotEnoughData)


def test_an_exact_law_with_ties_is_refused() -> None:
    with pytest.raises(BadStatistics, match="ties"):
        mann_whitney([1, 2, 3], [3, 4, 5], method="exact")


def test_a_table_of_numbers_is_refused() -> None:
    with pytest.raises(BadStatistics, match="flat"):
        welch(np.ones((4, 4)), FINE)


def test_arms_that_do_not_overlap_have_the_permutation_p_and_a_finite_statistic() -> None:
    found = brunner_munzel([1, 2, 3], [4, 5, 6])
    assert found.estimate == 1.0
    assert found.p_value == pytest.approx(2 / math.comb(6, 3))
    assert math.isfinite(found.statistic)
    back = brunner_munzel([4, 5, 6], [1, 2, 3])
    assert (back.estimate, back.statistic) == (0.0, -found.statistic)


samples = st.lists(st.integers(0, 12).map(lambda k: k / 12), min_size=3, max_size=40)


@settings(max_examples=80, deadline=None)
@given(samples, samples)
def test_every_test_agrees_with_scipy_where_it_answers(control: list[float], treatment: list[float]) -> None:
    mean = welch(control, treatment)
    if not isinstance(mean, NotEnoughData):
        theirs = oracle.ttest_ind(treatment, control, equal_var=False)
        assert mean.statistic == pytest.approx(theirs.statistic, rel=1e-9, abs=1e-9)
        assert mean.p_value == pytest.approx(theirs.pvalue, rel=1e-9, abs=1e-12)
    ranks = mann_whitney(control, treatment, method="asymptotic")
    if not isinstance(ranks, NotEnoughData):
        theirs = oracle.mannwhitneyu(treatment, control, method="asymptotic")
        assert ranks.statistic == theirs.statistic
        assert ranks.p_value == pytest.approx(min(1.0, theirs.pvalue), rel=1e-9)
    shape = brunner_munzel(control, treatment)
    if not isinstance(shape, NotEnoughData) and 0 < shape.estimate < 1:
        theirs = oracle.brunnermunzel(control, treatment)
        assert shape.statistic == pytest.approx(theirs.statistic, rel=1e-9, abs=1e-12)
        assert shape.p_value == pytest.approx(theirs.pvalue, rel=1e-9, abs=1e-12)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.floats(-5, 5), min_size=3, max_size=12, unique=True),
    st.lists(st.floats(6, 9), min_size=3, max_size=12, unique=True),
    st.randoms(use_true_random=False),
)
def test_the_exact_law_agrees_with_scipy(low: list[float], high: list[float], order: Any) -> None:
    pool = [*low, *high]
    order.shuffle(pool)
    control, treatment = pool[: len(low)], pool[len(low) :]
    found = mann_whitney(control, treatment, method="exact")
    theirs = oracle.mannwhitneyu(treatment, control, method="exact")
    assert found.p_value == pytest.approx(min(1.0, theirs.pvalue), rel=1e-9)


@settings(max_examples=30, deadline=None)
@given(samples, samples)
def test_exchanging_the_arms_only_turns_the_sign(control: list[float], treatment: list[float]) -> None:
    for test in TESTS:
        there, back = test(control, treatment), test(treatment, control)
        assert type(there) is type(back)
        if not isinstance(there, NotEnoughData):
            assert there.p_value == pytest.approx(back.p_value, rel=1e-9, abs=1e-12)


def test_a_one_sided_p_points_where_it_says() -> None:
    rng = np.random.default_rng(3)
    control, treatment = rng.normal(0, 1, 80), rng.normal(1, 1, 80)
    for test in TESTS:
        assert test(control, treatment, alternative="greater").p_value < 1e-4
        assert test(control, treatment, alternative="less").p_value > 0.99


def test_equal_means_with_different_shapes_move_the_rank_tests_only() -> None:
    rng = np.random.default_rng(11)
    wins = dict.fromkeys(TESTS, 0)
    for _ in range(200):
        zeros = rng.random(300) < 0.2
        control = np.where(zeros, 0.0, rng.beta(9, 1, 300))  # mean 0.72
        treatment = rng.beta(7.2, 2.8, 300)  # mean 0.72
        for test in TESTS:
            wins[test] += test(control, treatment).p_value < 0.05
    assert wins[welch] <= 22  # P(Bin(200, 0.05) > 22) < 1e-3
    assert wins[mann_whitney] > 190
    assert wins[brunner_munzel] > 190
