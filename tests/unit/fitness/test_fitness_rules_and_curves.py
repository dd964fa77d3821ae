import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prx.domain.answers import NotEnoughData
from prx.domain.errors import BadStatistics, SettingsError
from prx.fitness.curves import TokenTargets, auto_token_targets, log_linear, percentile
from prx.fitness.numbers import rounded
from prx.fitness.rules import DEFAULT_WEIGHTS, FitnessRules

positive = st.floats(min_value=1e-3, max_value=1e9)


def test_the_default_weights_are_those_of_the_source_documents() -> None:
    assert list(FitnessRules().weights.values()) == [0.30, 0.25, 0.15, 0.10, 0.10, 0.10]


def test_weights_that_sum_to_0_9_are_refused_and_the_sum_is_named() -> None:
    with pytest.raises(SettingsError, match=r"sum to 0\.9, they must sum to 1"):
        FitnessRules(weights={**DEFAULT_WEIGHTS, "user_satisfaction": 0.0})


@pytest.mark.parametrize(
    ("weights", "word"),
    [
        ({"response_relevanse": 1.0}, "response_relevanse"),
        ({"response_relevance": 1.5, "task_completion": -0.5}, "from 0 to 1"),
        ({"response_relevance": math.nan, "task_completion": 0.5}, "nan"),
        ({}, "sum to 0"),
    ],
)
def test_weights_that_mean_nothing_are_refused(weights: dict[str, float], word: str) -> None:
    with pytest.raises(SettingsError, match=word):
        FitnessRules(weights=weights)


@pytest.mark.parametrize(
    "bad",
    [
        {"target_ms": 0.0},
        {"target_ms": 500.0, "ceiling_ms": 500.0},
        {"target_tokens": 100.0},
        {"target_tokens": 100.0, "ceiling_tokens": 50.0},
        {"evaluation_window_hours": -1.0},
        {"outcome_window_hours": math.inf},
        {"min_sessions_for_score": 0},
        {"minimum_acceptable": 1.2},
        {"regression_delta": -0.05},
    ],
)
def test_rules_out_of_range_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(SettingsError):
        FitnessRules(**bad)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("x", "score"),
    [(0, 1.0), (500, 1.0), (10_000, 0.0), (math.inf, 0.0), (math.sqrt(500 * 10_000), 0.5), (1000, 0.768622)],
)
def test_the_curve_is_linear_in_log_time_between_its_ends(x: float, score: float) -> None:
    assert log_linear(x, target=500, ceiling=10_000) == pytest.approx(score, abs=1e-6)


@settings(deadline=None)
@given(x=positive, y=positive, target=positive, span=st.floats(min_value=1.001, max_value=1e6))
def test_the_curve_stays_in_0_to_1_and_never_rises(x: float, y: float, target: float, span: float) -> None:
    low, high = (log_linear(v, target=target, ceiling=target * span) for v in (min(x, y), max(x, y)))
    assert 1.0 >= low >= high - 1e-12
    assert high >= 0.0


@pytest.mark.parametrize(("x", "target", "ceiling"), [(-1, 1, 2), (math.nan, 1, 2), (1, 2, 2), (1, 0, 2)])
def test_what_no_curve_can_score_is_an_error(x: float, target: float, ceiling: float) -> None:
    with pytest.raises(BadStatistics):
        log_linear(x, target=target, ceiling=ceiling)


def test_percentiles_interpolate_between_order_statistics() -> None:
    values = [40.0, 10.0, 20.0, 30.0]
    assert percentile(values, 0.5) == 25.0
    assert percentile(values, 0.95) == pytest.approx(38.5)
    assert (percentile(values, 0.0), percentile(values, 1.0)) == (10.0, 40.0)


def test_no_values_have_no_percentile() -> None:
    with pytest.raises(BadStatistics, match="no values"):
        percentile([], 0.5)


def test_token_targets_need_200_sessions_and_ignore_later_ones() -> None:
    first = list(range(1, 201))
    assert auto_token_targets(first[:199]) == NotEnoughData(
        "199 sessions with token counts, 200 are needed to set the curve"
    )
    targets = auto_token_targets(first + [10**6] * 500)
    assert isinstance(targets, TokenTargets)
    # positions 199 x 0.05 = 9.95 and 199 x 0.99 = 197.01 in 1..200
    assert targets.target == pytest.approx(10.95)
    assert targets.ceiling == pytest.approx(198.01)
    assert targets.sessions == 200


def test_token_targets_of_equal_sessions_still_make_a_curve() -> None:
    targets = auto_token_targets([700] * 200)
    assert isinstance(targets, TokenTargets)
    FitnessRules(target_tokens=targets.target, ceiling_tokens=targets.ceiling)


@pytest.mark.parametrize(
    ("value", "places", "shown"),
    [
        (0.69 * 0.15, 3, "0.104"),
        (0.125, 2, "0.13"),
        (-0.125, 2, "-0.13"),
        (-0.004, 2, "0.00"),
        (1.0, 2, "1.00"),
    ],
)
def test_decimals_are_rounded_half_up(value: float, places: int, shown: str) -> None:
    assert rounded(value, places) == shown
