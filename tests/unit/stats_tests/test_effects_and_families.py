"""Effect sizes, relative changes, adjusted p-values and the order of reading."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prx.domain.answers import NotEnoughData
from prx.domain.errors import BadStatistics
from prx.stats.effects import ArmMean, Lift, delta_lift, effect_sizes, fieller_lift, hedges_g
from prx.stats.estimator import ArmTable, Composite, composite
from prx.stats.multiplicity import DimensionTest, bonferroni, composite_first, holm
from prx.stats.unitvalues import blinded_skewness, unit_deviations


def test_fieller_finds_the_ratios_that_the_data_do_not_reject() -> None:
    control, treatment, df, t = ArmMean(0.7, 0.0004), ArmMean(0.75, 0.0005), 120.0, 1.9799304
    found = fieller_lift(control, treatment, df=df)
    assert isinstance(found, Lift)
    for bound in (found.interval.low, found.interval.high):
        ratio = 1 + bound
        distance = abs(treatment.mean - ratio * control.mean)
        assert distance / math.sqrt(treatment.variance + ratio**2 * control.variance) == pytest.approx(
            t, rel=1e-6
        )
    assert found.estimate == pytest.approx(0.05 / 0.7)
    assert found.interval.low < found.estimate < found.interval.high


def test_a_control_mean_near_zero_has_no_relative_interval() -> None:
    assert isinstance(fieller_lift(ArmMean(0.01, 0.0004), ArmMean(0.5, 0.001), df=50), NotEnoughData)
    assert isinstance(delta_lift(ArmMean(0.0, 0.0004), ArmMean(0.5, 0.001), df=50), NotEnoughData)


def test_a_lift_over_a_negative_baseline_keeps_the_direction_of_the_change() -> None:
    worse, better = ArmMean(-0.5, 0.0001), ArmMean(-0.4, 0.0001)
    found = delta_lift(worse, better, df=100)
    assert isinstance(found, Lift)
    assert found.estimate == pytest.approx(0.2)
    assert found.p_greater < 1e-6


def test_a_relative_change_of_nonsense_is_refused() -> None:
    with pytest.raises(BadStatistics, match="finite"):
        delta_lift(ArmMean(math.nan, 0.1), ArmMean(0.5, 0.1), df=10)
    with pytest.raises(BadStatistics, match="variances"):
        fieller_lift(ArmMean(0.5, -0.1), ArmMean(0.5, 0.1), df=10)


def test_hedges_g_is_the_corrected_distance_in_pooled_deviations() -> None:
    control, treatment = np.array([1.0, 2.0, 3.0, 4.0]), np.array([3.0, 4.0, 5.0, 6.0])
    found = hedges_g(control, treatment)
    assert not isinstance(found, NotEnoughData)
    # J(6) = Gamma(3) / (sqrt(3) Gamma(2.5)); pooled sd = sqrt(5/3)
    correction = 2 / (math.sqrt(3) * math.gamma(2.5))
    assert found.estimate == pytest.approx(correction * 2 / math.sqrt(5 / 3), rel=1e-12)
    assert found.interval.low < found.estimate < found.interval.high
    assert isinstance(hedges_g(control[:2], treatment), NotEnoughData)
    assert isinstance(hedges_g(np.full(9, 0.5), np.full(9, 0.7)), NotEnoughData)


def test_all_four_sizes_of_one_experiment_tell_the_same_story() -> None:
    rng = np.random.default_rng(4)
    arms = [ArmTable.from_rows(np.arange(400), {"fitness": rng.beta(*ab, 400)}) for ab in ((6, 4), (7, 3))]
    result = composite(*arms, weights={"fitness": 1.0})
    assert isinstance(result, Composite)
    units = unit_deviations(*arms, weights={"fitness": 1.0})
    found = effect_sizes(result, *units)
    assert found.absolute.estimate == result.delta
    assert isinstance(found.relative, Lift)
    assert found.relative.estimate == pytest.approx(result.delta / result.control.mean)
    assert not isinstance(found.hedges_g, NotEnoughData)
    assert found.hedges_g.estimate == pytest.approx(0.1 / 0.145, abs=0.15)
    assert not isinstance(found.common_language, NotEnoughData)
    assert 0.6 < found.common_language.interval.low < found.common_language.estimate < 0.8
    # A unit's deviation keeps the difference of means of one fully observed dimension.
    assert units[1].mean() - units[0].mean() == pytest.approx(result.delta, abs=1e-12)


def test_a_unit_deviates_only_in_the_dimensions_that_it_has() -> None:
    scored = {"b": [True, False, True, False]}
    table = ArmTable.from_rows(
        [0, 1, 2, 3], {"a": [0.2, 0.4, 0.6, 0.8], "b": [1.0, 9.0, 0.0, 9.0]}, scored=scored
    )
    left, right = unit_deviations(table, table, weights={"a": 0.5, "b": 0.5})
    assert left.tolist() == right.tolist()
    assert left == pytest.approx([0.5 * -0.3 + 0.5 * 0.5, -0.1, 0.5 * 0.1 - 0.5 * 0.5, 0.3], abs=1e-9)


def test_the_blinded_skewness_does_not_know_the_arms() -> None:
    rng = np.random.default_rng(5)
    a, b = rng.exponential(size=4000), rng.exponential(size=4000)
    found = blinded_skewness(a, b)
    assert found == pytest.approx(2.0, abs=0.35)
    assert blinded_skewness(b, a) == pytest.approx(found)
    assert blinded_skewness(-a, -b) == pytest.approx(-float(found))
    assert isinstance(blinded_skewness(a[:1], b[:1]), NotEnoughData)
    assert isinstance(blinded_skewness(np.full(5, 0.1), np.full(5, 0.1)), NotEnoughData)
    with pytest.raises(BadStatistics):
        blinded_skewness(a, np.array([math.nan]))


p_values = st.dictionaries(st.text(min_size=1, max_size=3), st.floats(0, 1), min_size=1, max_size=8)


@given(p_values)
def test_holm_keeps_the_order_and_lies_between_the_plain_p_and_bonferroni(p: dict[str, float]) -> None:
    plain, stepped = bonferroni(p), holm(p)
    for name, value in p.items():
        assert value <= stepped[name] <= plain[name] <= 1
    ordered = sorted(p, key=p.__getitem__)
    adjusted = [stepped[name] for name in ordered]
    assert adjusted == sorted(adjusted)


@pytest.mark.parametrize("bad", [-0.1, 1.1, math.nan])
def test_a_p_value_out_of_range_is_refused(bad: float) -> None:
    with pytest.raises(BadStatistics, match="0 to 1"):
        holm({"a": bad})
    with pytest.raises(BadStatistics, match="count every planned test"):
        bonferroni({"a": 0.1, "b": 0.2}, tests=1)


def test_dimensions_are_read_only_after_the_composite_and_a_gap_still_takes_its_share() -> None:
    dimensions = {"a": 0.001, "b": 0.012, "c": NotEnoughData("no thumb yet")}
    read = composite_first(0.04, dimensions)
    a, b = read.dimensions["a"], read.dimensions["b"]
    assert isinstance(a, DimensionTest)
    assert isinstance(b, DimensionTest)
    assert (a.significant, b.significant) == (True, True)
    assert (a.bonferroni, b.bonferroni, b.holm) == pytest.approx((0.003, 0.036, 0.024))
    assert isinstance(read.dimensions["c"], NotEnoughData)
    shut = composite_first(0.06, dimensions)
    assert not shut.read
    assert not any(d.significant for d in shut.dimensions.values() if isinstance(d, DimensionTest))
