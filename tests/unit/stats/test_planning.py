"""Forecasts, the smallest effect that can be seen, and the level for unattended promotion."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prx.domain.answers import NotEnoughData
from prx.domain.errors import BadStatistics
from prx.stats import AutomaticExperiment, boundaries, design_by_power, design_by_sample, promotion_level
from prx.stats.planning import Forecast, Traffic, chances, forecast, smallest_effect
from prx.stats.power import power_of

DESIGN = design_by_power()


def test_one_hundred_sessions_per_arm_see_eight_points_at_spread_a_fifth() -> None:
    effect = smallest_effect(100, 0.2)
    assert effect == pytest.approx(0.0796, abs=1e-4)


def test_sessions_of_one_user_count_less() -> None:
    alone = Traffic(sessions_per_hour=10, sd=0.2, icc=0.4)
    four = Traffic(sessions_per_hour=10, sd=0.2, icc=0.4, sessions_per_unit=4)
    assert four.design_effect == pytest.approx(2.2)
    assert forecast(DESIGN, four).max_sessions == pytest.approx(2.2 * forecast(DESIGN, alone).max_sessions)


def test_information_matches_the_variance_of_a_difference_of_means() -> None:
    traffic = Traffic(sessions_per_hour=10, sd=0.2, split=0.3)
    variance = 0.2**2 / 300 + 0.2**2 / 700
    assert traffic.information(1000) == pytest.approx(1.0 / variance)


def test_busy_traffic_reaches_the_plan_and_quiet_traffic_starts_nothing() -> None:
    busy = forecast(DESIGN, Traffic(sessions_per_hour=50, sd=0.2))
    assert busy.fraction_at_maximum == 1.0
    assert busy.worth_starting
    assert busy.hours_to_maximum == pytest.approx(busy.max_sessions / 50 + 24)
    quiet = forecast(DESIGN, Traffic(sessions_per_hour=1, sd=0.2))
    assert quiet.fraction_at_maximum == pytest.approx(696 / quiet.max_sessions)
    assert not quiet.worth_starting


def test_no_traffic_gives_no_chance_and_no_end() -> None:
    nothing = forecast(DESIGN, Traffic(sessions_per_hour=0, sd=0.2))
    assert isinstance(nothing.chances, NotEnoughData)
    assert nothing.hours_to_maximum == math.inf
    assert not nothing.worth_starting


def test_chances_rise_with_the_lift_and_stay_near_a_half_at_delta() -> None:
    result = forecast(DESIGN, Traffic(sessions_per_hour=20, sd=0.2))
    assert not isinstance(result.chances, NotEnoughData)
    at = {c.lift: c.promote for c in result.chances}
    assert at[0.02] == pytest.approx(0.5, abs=0.02)  # median unbiased: half of the estimates reach delta
    assert at[0.02] < at[0.03] < at[0.04]
    assert at[0.04] > 0.98


def test_with_a_negligible_delta_the_chance_is_the_power_of_the_bounds() -> None:
    fractions = [0.25, 0.5, 0.75, 1.0]
    design = design_by_power(1e-9, planned_looks=4)
    full = 20_000.0
    (chance,) = chances(design, fractions, full_information=full, lifts=[0.02])
    bounds = boundaries(fractions).upper_z
    expected = power_of([f * full for f in fractions], bounds, effect=0.02)
    assert chance.promote == pytest.approx(expected, abs=1e-4)


def test_a_sample_given_per_arm_is_reached_when_the_smaller_arm_has_it() -> None:
    result = forecast(
        design_by_sample(100), Traffic(sessions_per_hour=2, sd=0.1, split=0.4), min_sample_size=20
    )
    assert result.max_sessions == pytest.approx(250)
    assert isinstance(result, Forecast)
    assert result.hours_to_maximum == pytest.approx(125 + 24)


def test_too_few_units_see_nothing() -> None:
    assert isinstance(smallest_effect(1, 0.2), NotEnoughData)


@pytest.mark.parametrize(
    "change",
    [
        {"sessions_per_hour": -1},
        {"sessions_per_hour": math.nan},
        {"sd": 0.0},
        {"sd": math.inf},
        {"icc": 1.0},
        {"icc": math.nan},
        {"sessions_per_unit": 0.5},
        {"split": 0.0},
        {"split": 1.0},
        {"ramp": 0.0},
        {"coverage": 0.0},
    ],
)
def test_traffic_out_of_range_is_an_error(change: dict) -> None:
    with pytest.raises(BadStatistics):
        Traffic(**{"sessions_per_hour": 10, "sd": 0.2, **change})


def test_ticks_that_never_come_are_an_error() -> None:
    with pytest.raises(BadStatistics):
        forecast(DESIGN, Traffic(sessions_per_hour=10, sd=0.2), check_interval_hours=0.0)


def test_the_first_experiment_may_use_a_quarter_of_the_budget() -> None:
    assert promotion_level([]) == 0.025
    assert promotion_level([], alpha=0.02) == 0.01


def test_a_running_experiment_has_used_its_level_and_a_win_pays_back() -> None:
    running = [AutomaticExperiment(0.025)]
    assert promotion_level(running) == pytest.approx((0.10 - 0.025) / 4)
    lost = [AutomaticExperiment(0.025, p_upper=0.4)]
    assert promotion_level(lost) == promotion_level(running)
    first_win = [AutomaticExperiment(0.025, p_upper=0.001)]
    assert promotion_level(first_win) == promotion_level(running)  # the first rejection is the budget's own
    two_wins = [*first_win, AutomaticExperiment(0.01875, p_upper=0.01)]
    assert promotion_level(two_wins) == pytest.approx(min(0.025, (0.2 - 0.04375) / 4))


def test_a_used_up_budget_leaves_everything_to_a_person() -> None:
    assert promotion_level([AutomaticExperiment(0.05), AutomaticExperiment(0.06)]) == 0.0


@pytest.mark.parametrize(
    ("past", "rates"),
    [
        ([AutomaticExperiment(-0.1)], {}),
        ([AutomaticExperiment(0.1, p_upper=math.nan)], {}),
        ([], {"alpha": 0.0}),
        ([], {"q": 1.0}),
    ],
)
def test_levels_out_of_range_are_an_error(past: list, rates: dict) -> None:
    with pytest.raises(BadStatistics):
        promotion_level(past, **rates)


@given(st.lists(st.none() | st.floats(0.0, 1.0), max_size=60))
def test_levels_add_up_to_at_most_the_budget(p_values: list[float | None]) -> None:
    past: list[AutomaticExperiment] = []
    for p in p_values:
        past.append(AutomaticExperiment(promotion_level(past), p))
    assert all(0.0 <= e.level <= 0.025 for e in past)
    assert sum(e.level for e in past) <= 0.10 * max(1, sum(e.won for e in past)) + 1e-12


@pytest.mark.parametrize("per_arm", [2.0, 2.5, 4.0, 7.3, 20.0, 61.0, 100.0, 1e4, 1e7])
def test_the_smallest_effect_is_found_at_any_size_of_sample(per_arm: float) -> None:
    found = smallest_effect(per_arm, 0.2)
    assert isinstance(found, float)
    assert 0.0 < found < 20.0
