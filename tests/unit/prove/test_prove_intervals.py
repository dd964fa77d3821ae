"""Intervals against values computed another way, and their coverage."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from prx.domain.answers import Failed, NotEnoughData, Passed
from prx.prove.calibration import Calibration, Corrected, calibrate, control_passes_allowed, corrected_rate
from prx.prove.intervals import _t, binomial_tail, paired_difference, plain_mean, share_mean, wilson
from prx.prove.looks import compare, look_at


@pytest.mark.parametrize("df", [1, 5, 19, 20, 30, 51, 101, 400])
@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
def test_the_t_quantile_is_right_to_a_thousandth(df: int, confidence: float) -> None:
    assert _t(confidence, df) == pytest.approx(float(stats.t.ppf(confidence, df)), abs=2e-3)


@pytest.mark.parametrize(("count", "total"), [(0, 10), (3, 10), (10, 10), (42, 50), (199, 200)])
def test_wilson_agrees_with_scipy(count: int, total: int) -> None:
    ours = wilson(count, total, 0.95)
    theirs = stats.binomtest(count, total).proportion_ci(0.95, method="wilson")
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=1e-9)


@pytest.mark.parametrize(("count", "total", "rate"), [(0, 5, 0.1), (2, 20, 0.05), (7, 20, 0.3)])
def test_the_binomial_tail_agrees_with_scipy(count: int, total: int, rate: float) -> None:
    assert binomial_tail(count, total, rate) == pytest.approx(float(stats.binom.sf(count - 1, total, rate)))


def test_the_paired_interval_is_the_adjusted_wald_interval_of_agresti_and_min() -> None:
    """10 wins, 4 losses, 36 ties: (b - c) / (n + 2) and its variance by their formula, t instead of z."""
    differences = [1.0] * 10 + [-1.0] * 4 + [0.0] * 36
    estimate = paired_difference(differences, 0.95)
    assert estimate is not None
    b, c, n = 10.5, 4.5, 52
    centre = (b - c) / n
    se = math.sqrt((b + c) - (b - c) ** 2 / n) / n
    t = float(stats.t.ppf(0.95, 51))
    assert (estimate.low, estimate.high) == pytest.approx((centre - t * se, centre + t * se), abs=1e-4)
    assert estimate.mean == pytest.approx(0.12)


def test_agreement_on_every_pair_is_no_certainty() -> None:
    few, many = paired_difference([0.0] * 10, 0.95), paired_difference([0.0] * 200, 0.95)
    assert few is not None
    assert many is not None
    assert few.low < -0.1
    assert -0.01 < many.low < 0
    perfect = share_mean([1.0] * 50, 0.9)
    assert perfect is not None
    assert perfect.low < 0.99


@given(st.lists(st.floats(0, 1), min_size=1, max_size=80))
def test_bounds_stand_on_both_sides_of_the_middle_and_within_the_scale(values: list[float]) -> None:
    estimate = share_mean(values, 0.9)
    assert estimate is not None
    assert 0 <= estimate.low <= estimate.high <= 1
    wider = share_mean(values, 0.99)
    assert wider is not None
    assert wider.low <= estimate.low
    assert wider.high >= estimate.high


def test_no_values_give_no_estimate() -> None:
    assert share_mean([], 0.9) is None
    assert paired_difference([], 0.9) is None
    assert plain_mean([1.0], 0.9) is None


def test_the_lower_bound_of_a_share_is_above_the_truth_in_at_most_a_tenth_of_runs() -> None:
    rng = random.Random(11)
    for rate in (0.3, 0.6, 0.9):
        misses = 0
        for _ in range(1000):
            estimate = share_mean([float(rng.random() < rate) for _ in range(50)], 0.90)
            assert estimate is not None
            misses += estimate.low > rate
        assert misses <= 125  # 0.10 and 2.6 standard errors


@pytest.mark.parametrize(
    ("available", "exhausted", "look"),
    [
        (49, False, None),
        (49, True, None),
        (50, False, (50, False)),
        (50, True, (50, True)),
        (99, False, (50, False)),
        (100, False, (100, False)),
        (170, True, (170, True)),
        (199, False, (100, False)),
        (200, False, (200, True)),
        (500, False, (200, True)),
    ],
)
def test_a_sample_is_looked_at_at_doubles_and_at_its_end(
    available: int, exhausted: bool, look: object
) -> None:
    assert look_at(available, 50, 200, exhausted=exhausted) == look


def test_a_comparison_has_three_answers() -> None:
    options = {"margin": 0.05, "confidence": 0.95, "what": "score", "code": "worse", "final": True}
    assert isinstance(compare([0.0] * 200, **options)[0], Passed)
    worse = compare([-1.0] * 30 + [0.0] * 70, **options)[0]
    assert isinstance(worse, Failed)
    assert worse.code == "worse"
    assert isinstance(compare([-1.0] * 10 + [1.0] * 10 + [0.0] * 30, **options)[0], NotEnoughData)
    assert isinstance(compare([], **options)[0], NotEnoughData)


def test_the_corrected_rate_matches_the_worked_figures() -> None:
    """A raw 0.60 means 0.60, 0.40 or 0.46, depending on the judge (safety reference, section 5)."""
    for se, sp, truth in ((90, 85, 0.60), (90, 60, 0.40), (95, 70, 0.4615)):
        corrected = corrected_rate(600, 1000, Calibration(100, se, 100, sp))
        assert isinstance(corrected, Corrected)
        assert corrected.rate == pytest.approx(truth, abs=1e-3)
        assert corrected.interval.low < truth < corrected.interval.high


def test_the_corrected_interval_has_the_width_that_both_samples_allow() -> None:
    """Sensitivity 0.85, specificity 0.80: half-width about 0.155 for 200 judged and 100 labels."""
    corrected = corrected_rate(100, 200, Calibration(50, 42, 50, 40))
    assert isinstance(corrected, Corrected)
    half = (corrected.interval.high - corrected.interval.low) / 2
    assert half == pytest.approx(0.155, abs=0.02)


def test_the_corrected_interval_covers_the_truth() -> None:
    rng = random.Random(5)
    covered, runs, truth, se, sp = 0, 400, 0.6, 0.9, 0.8
    for _ in range(runs):
        good = sum(rng.random() < se for _ in range(60))
        bad = sum(rng.random() < sp for _ in range(60))
        passed = sum(rng.random() < (se if rng.random() < truth else 1 - sp) for _ in range(300))
        corrected = corrected_rate(passed, 300, Calibration(60, good, 60, bad))
        assert isinstance(corrected, Corrected)
        covered += corrected.interval.low <= truth <= corrected.interval.high
    assert covered >= 0.92 * runs


def test_a_judge_near_chance_or_without_labels_is_not_corrected_for() -> None:
    assert isinstance(corrected_rate(60, 100, Calibration(100, 65, 100, 65)), NotEnoughData)  # se + sp = 1.3
    assert isinstance(corrected_rate(60, 100, Calibration(40, 36, 40, 36)), NotEnoughData)
    assert isinstance(corrected_rate(60, 100, Calibration(120, 110, 0, 0)), NotEnoughData)
    assert isinstance(corrected_rate(0, 0, Calibration(100, 90, 100, 90)), NotEnoughData)


def test_labels_are_counted_by_what_people_said() -> None:
    labels = [(True, True)] * 8 + [(False, True)] * 2 + [(True, False)] * 1 + [(False, False)] * 9
    calibration = calibrate(labels)
    assert calibration == Calibration(good=10, good_passed=8, bad=10, bad_failed=9)
    assert (calibration.sensitivity, calibration.specificity) == (0.8, 0.9)


def test_a_good_specificity_allows_few_known_bad_answers_to_pass_and_a_perfect_one_hardly_any() -> None:
    mild = control_passes_allowed(Calibration(100, 90, 100, 90), 20)
    strict = control_passes_allowed(Calibration(1000, 990, 1000, 1000), 20)
    assert strict <= 1
    assert 3 <= mild <= 8
    rate = 1 - wilson(90, 100, 0.95).low
    assert float(stats.binom.sf(mild, 20, rate)) <= 0.01 < float(stats.binom.sf(mild - 1, 20, rate))
