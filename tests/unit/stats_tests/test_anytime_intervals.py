"""Properties of the intervals that may be read at any time."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prx.domain.answers import Interval, NotEnoughData
from prx.domain.errors import BadStatistics
from prx.stats.anytime import (
    Tally,
    anytime_p,
    asymptotic_interval,
    critical_z,
    exact_difference,
    exact_interval,
    log_normal_mixture,
    normal_mixture_bound,
)

tallies = st.integers(1, 3000).flatmap(
    lambda n: st.tuples(st.just(n), st.floats(0, 1)).map(lambda pair: Tally(pair[0], pair[0] * pair[1]))
)


@settings(max_examples=100, deadline=None)
@given(tallies, st.floats(0.001, 0.3))
def test_the_exact_interval_holds_the_mean_and_stays_within_zero_and_one(arm: Tally, alpha: float) -> None:
    found = exact_interval(arm, alpha=alpha)
    assert isinstance(found, Interval)
    mean = arm.total / arm.n
    assert 0 <= found.low <= mean + 1e-9
    assert mean - 1e-9 <= found.high <= 1


@settings(max_examples=60, deadline=None)
@given(tallies)
def test_the_exact_interval_is_the_same_for_failures_counted_from_the_other_end(arm: Tally) -> None:
    found, mirrored = exact_interval(arm), exact_interval(Tally(arm.n, arm.n - arm.total))
    assert isinstance(found, Interval)
    assert isinstance(mirrored, Interval)
    assert found.low == pytest.approx(1 - mirrored.high, abs=1e-7)


def test_one_unit_decides_nothing_and_many_perfect_ones_leave_room_for_failure() -> None:
    for total in (0, 1):
        assert exact_interval(Tally(1, total)) == Interval(0.0, 1.0)
    perfect = exact_interval(Tally(1000, 1000))
    assert isinstance(perfect, Interval)
    assert perfect.high == 1.0
    assert 0.99 < perfect.low < 0.999


def test_the_exact_interval_is_the_set_of_means_whose_bets_have_not_won() -> None:
    arm, alpha, best_at = Tally(200, 150.0), 0.05, 100
    found = exact_interval(arm, alpha=alpha, best_at=best_at)
    assert isinstance(found, Interval)

    def wealth(p: float) -> float:
        """The mixture of Bernoulli bets integrated numerically over its Beta prior."""
        tuned = -2 * math.log(alpha) + math.log1p(-2 * math.log(alpha))
        r = best_at * p * (1 - p) / tuned - p * (1 - p)
        a, b = r / (1 - p), r / p
        steps = 20_000
        log_beta = math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
        total = 0.0
        for k in range(steps):
            q = (k + 0.5) / steps
            prior = math.exp((a - 1) * math.log(q) + (b - 1) * math.log1p(-q) - log_beta)
            total += prior * math.exp(150 * math.log(q / p) + 50 * (math.log1p(-q) - math.log1p(-p))) / steps
        return total

    assert wealth(found.low) == pytest.approx(1 / alpha, rel=1e-4)
    assert wealth(found.high) == pytest.approx(1 / alpha, rel=1e-4)


@pytest.mark.parametrize(("n", "total"), [(-1, 0.0), (3, 3.5), (3, -0.5), (2, math.nan)])
def test_a_sum_that_scores_in_range_cannot_have_is_refused(n: int, total: float) -> None:
    with pytest.raises(BadStatistics, match="range"):
        Tally(n, total)


def test_tallies_pool_in_any_order() -> None:
    parts = [Tally(3, 1.5), Tally(1, 1.0), Tally(0, 0.0), Tally(7, 2.25)]
    assert sum(parts, Tally()) == sum(reversed(parts), Tally()) == Tally(11, 4.75)


def test_an_empty_arm_is_not_enough_data() -> None:
    assert isinstance(exact_interval(Tally()), NotEnoughData)
    assert isinstance(exact_difference(Tally(), Tally(5, 3)), NotEnoughData)
    assert isinstance(exact_difference(Tally(5, 3), Tally()), NotEnoughData)


def test_a_perfect_start_of_both_arms_decides_nothing() -> None:
    for n in (1, 5, 50, 500):
        found = exact_difference(Tally(n, n), Tally(n, n))
        assert isinstance(found, Interval)
        assert found.low < 0 < found.high


def test_a_large_difference_is_seen() -> None:
    found = exact_difference(Tally(500, 300), Tally(500, 420))
    assert isinstance(found, Interval)
    assert 0 < found.low < 0.24 < found.high


@pytest.mark.parametrize("alpha", [0.0, 1.0, -0.1, math.nan])
def test_a_level_out_of_range_is_refused(alpha: float) -> None:
    with pytest.raises(BadStatistics, match="alpha"):
        exact_interval(Tally(5, 3), alpha=alpha)
    with pytest.raises(BadStatistics, match="alpha"):
        critical_z(1.0, planned_information=1.0, alpha=alpha)


@pytest.mark.parametrize("sides", [1, 2])
def test_the_boundary_is_lowest_in_units_of_the_error_near_the_planned_information(sides: int) -> None:
    def reach(information: float) -> float:
        # critical z over sqrt(information) is the half width; compare it with a plan made for there
        return critical_z(information, planned_information=1000.0, sides=sides)

    for information in (100.0, 300.0, 3000.0, 10_000.0):
        own = critical_z(information, planned_information=information, sides=sides)
        assert own < reach(information)
    assert reach(1000.0) > 1.96


@settings(max_examples=60, deadline=None)
@given(st.floats(0.001, 0.4), st.floats(0.1, 1e5), st.sampled_from([1, 2]))
def test_the_p_of_the_critical_z_is_alpha(alpha: float, information: float, sides: int) -> None:
    z = critical_z(information, planned_information=1000.0, alpha=alpha, sides=sides)
    p = anytime_p(z, information, planned_information=1000.0, alpha=alpha, sides=sides)
    assert p == pytest.approx(alpha, rel=1e-9)


def test_the_p_falls_as_z_grows_and_never_leaves_zero_to_one() -> None:
    for sides in (1, 2):
        ps = [anytime_p(z, 500.0, planned_information=1000.0, sides=sides) for z in (0, 1, 3, 6, 20, 60)]
        assert ps == sorted(ps, reverse=True)
        assert ps[0] == 1.0
        assert 0.0 <= ps[-1] < 1e-300
    assert anytime_p(-9.0, 500.0, planned_information=1000.0, sides=1) == 1.0


def test_the_asymptotic_interval_is_centred_and_wider_than_the_ordinary_one() -> None:
    found = asymptotic_interval(0.03, 0.01, planned_information=1e4)
    assert (found.low + found.high) / 2 == pytest.approx(0.03)
    assert found.high - found.low > 2 * 1.96 * 0.01


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_an_estimate_without_spread_is_refused(bad: float) -> None:
    with pytest.raises(BadStatistics):
        asymptotic_interval(0.1, bad, planned_information=100.0)
    with pytest.raises(BadStatistics):
        critical_z(bad, planned_information=100.0)


def test_the_mixture_reaches_one_over_alpha_at_its_bound() -> None:
    for sides in (1, 2):
        bound = normal_mixture_bound(300.0, alpha=0.01, rho=15.0, sides=sides)
        assert log_normal_mixture(bound, 300.0, rho=15.0, sides=sides) == pytest.approx(-math.log(0.01))
