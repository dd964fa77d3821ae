"""The fold over ticks and what is read from it: looks, bounds, p-values, intervals, estimates."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri
from scipy.stats import multivariate_normal

from prx.domain.answers import Interval, NotEnoughData
from prx.domain.errors import BadStatistics
from prx.stats import (
    Design,
    NoAlphaLeft,
    PlanEdited,
    State,
    TimeWentBackwards,
    boundaries,
    conditional_power,
    crossing,
    design_by_power,
    design_by_sample,
    futility_z,
    infer,
    look,
    repeated_p,
    repeated_upper_p,
    start,
)
from prx.stats.inference import Inference, stagewise_tail

DESIGN = Design(max_information=1000.0)


def walk(design: Design, ticks: list[tuple[float, float]], *, final_last: bool = False) -> State:
    state = start(design)
    for day, (information, z) in enumerate(ticks, 1):
        state = look(design, state, information, z, hours=24.0 * day, final=final_last and day == len(ticks))
    return state


def read(design: Design, state: State) -> Inference:
    here = state.looks[-1]
    se = here.information**-0.5
    result = infer(design, state, estimate=here.z * se, standard_error=se)
    assert isinstance(result, Inference)
    return result


def test_information_to_plan_does_not_depend_on_how_scores_spread() -> None:
    design = design_by_power(0.02)
    assert design.inflation == pytest.approx(1.045, abs=6e-4)
    assert design.max_information == pytest.approx(
        design.inflation * ((1.959964 + 0.841621) / 0.02) ** 2, rel=1e-6
    )


def test_bounds_of_the_fold_are_those_of_the_whole_design() -> None:
    fractions = [0.1, 0.25, 0.6, 0.7, 1.0]
    state = walk(DESIGN, [(1000.0 * f, 0.5) for f in fractions])
    assert [k.upper_z for k in state.looks] == pytest.approx(boundaries(fractions).upper_z, abs=1e-12)
    assert state.ended


def test_a_tick_that_gains_too_little_is_no_look_and_says_why() -> None:
    state = walk(DESIGN, [(300.0, 1.0), (319.0, 9.0)])
    assert len(state.looks) == 1
    assert state.ticks == 2
    assert "0.0190" in state.note


def test_information_that_shrinks_takes_no_look_and_never_gives_alpha_back() -> None:
    state = walk(DESIGN, [(300.0, 1.0), (250.0, 4.0), (310.0, 4.0), (340.0, 1.0)])
    assert [k.information for k in state.looks] == [300.0, 340.0]
    assert [k.fraction for k in state.looks] == [0.3, 0.34]


def test_a_past_bound_stays_when_information_overruns() -> None:
    before = walk(DESIGN, [(300.0, 1.0), (600.0, 1.0)])
    after = look(DESIGN, before, 1400.0, 1.0, hours=100.0)
    assert after.looks[:2] == before.looks
    assert after.looks[2].final
    assert after.looks[2].alpha_spent == 0.05
    expected = boundaries([300.0, 600.0, 1400.0], spending_times=[0.3, 0.6, 1.0]).upper_z[2]
    assert after.looks[2].upper_z == pytest.approx(expected, abs=1e-12)


def test_the_last_tick_spends_what_is_left_even_without_new_information() -> None:
    state = walk(DESIGN, [(300.0, 1.0), (290.0, 1.0)], final_last=True)
    last = state.looks[-1]
    left = 0.05 - state.looks[0].alpha_spent
    assert last.final
    assert last.upper_z == pytest.approx(float(-ndtri(left / 2.0)), abs=1e-9)


def test_nothing_is_tested_after_the_final_look() -> None:
    state = walk(DESIGN, [(1000.0, 1.0)])
    with pytest.raises(NoAlphaLeft, match="new experiment"):
        look(DESIGN, state, 1200.0, 9.0, hours=500.0)


def test_an_edited_plan_is_refused() -> None:
    state = walk(DESIGN, [(300.0, 1.0)])
    edited = dataclasses.replace(DESIGN, alpha=0.1)
    with pytest.raises(PlanEdited, match="create another"):
        look(edited, state, 600.0, 1.0, hours=48.0)


def test_time_going_backwards_is_refused() -> None:
    state = walk(DESIGN, [(300.0, 1.0), (600.0, 1.0)])
    with pytest.raises(TimeWentBackwards, match="24"):
        look(DESIGN, state, 900.0, 1.0, hours=24.0)


@pytest.mark.parametrize(
    ("information", "z", "hours"),
    [
        (0.0, 1.0, 24.0),
        (-5.0, 1.0, 24.0),
        (math.nan, 1.0, 24.0),
        (math.inf, 1.0, 24.0),
        (300.0, math.nan, 24.0),
        (300.0, math.inf, 24.0),
        (300.0, 1.0, math.nan),
        (300.0, 1.0, -1.0),
    ],
)
def test_a_tick_that_is_no_measurement_is_an_error(information: float, z: float, hours: float) -> None:
    with pytest.raises(BadStatistics):
        look(DESIGN, start(DESIGN), information, z, hours=hours)


@pytest.mark.parametrize(
    "change",
    [
        {"alpha": 0.0},
        {"delta": 0.0},
        {"delta": math.nan},
        {"power": 1.0},
        {"max_information": 0.0},
        {"max_information": math.inf},
        {"spending": "none"},
        {"futility_spending": "none"},
        {"min_gain": 0.0},
    ],
)
def test_a_design_out_of_range_cannot_be_made(change: dict) -> None:
    with pytest.raises(BadStatistics):
        dataclasses.replace(DESIGN, **change)


def test_designs_without_a_sample_or_a_look_cannot_be_made() -> None:
    with pytest.raises(BadStatistics):
        design_by_sample(0)
    with pytest.raises(BadStatistics):
        design_by_power(planned_looks=0)


def test_there_is_nothing_to_read_before_the_first_look() -> None:
    assert isinstance(infer(DESIGN, start(DESIGN), estimate=0.1, standard_error=0.1), NotEnoughData)
    with pytest.raises(BadStatistics):
        repeated_p(DESIGN, start(DESIGN))
    with pytest.raises(BadStatistics):
        conditional_power(DESIGN, start(DESIGN), drift_at_maximum=1.0)


def test_numbers_of_another_look_are_refused() -> None:
    state = walk(DESIGN, [(300.0, 2.0)])
    with pytest.raises(BadStatistics, match="latest look"):
        infer(DESIGN, state, estimate=0.01, standard_error=0.05)
    with pytest.raises(BadStatistics):
        infer(DESIGN, state, estimate=0.1, standard_error=0.0)


def test_a_bound_that_cannot_be_crossed_gives_no_interval() -> None:
    design = Design(max_information=1000.0, spending="obf")
    state = walk(design, [(30.0, 1.0)])
    assert isinstance(read(design, state).interval, NotEnoughData)


def test_p_equals_alpha_exactly_on_the_bound_and_agrees_with_the_interval() -> None:
    bound = boundaries([0.4, 0.7]).upper_z[1]
    on = walk(DESIGN, [(400.0, 0.3), (700.0, bound)])
    assert repeated_p(DESIGN, on) == pytest.approx(0.05, rel=1e-6)
    result = read(DESIGN, on)
    assert isinstance(result.interval, Interval)
    assert result.interval.low == pytest.approx(0.0, abs=1e-9)


def test_p_at_a_single_final_look_is_the_naive_one() -> None:
    state = walk(DESIGN, [(1000.0, 2.2)])
    result = read(DESIGN, state)
    assert result.p_value == pytest.approx(2.0 * ndtr(-2.2), rel=1e-7)
    assert result.p_upper == pytest.approx(ndtr(-2.2), rel=1e-7)
    assert result.median_unbiased == pytest.approx(result.estimate, rel=1e-7)
    assert result.p_stagewise == pytest.approx(result.p_naive, rel=1e-7)


def test_p_never_rises_when_the_effect_fades() -> None:
    first = walk(DESIGN, [(300.0, 3.2)])
    later = look(DESIGN, first, 600.0, 0.1, hours=100.0)
    assert repeated_p(DESIGN, later) == pytest.approx(repeated_p(DESIGN, first), rel=1e-6)


def test_only_upward_evidence_counts_in_the_one_sided_p() -> None:
    down = walk(DESIGN, [(300.0, -3.5)])
    assert repeated_upper_p(DESIGN, down) == 1.0
    assert repeated_p(DESIGN, down) < 0.05


def test_the_stagewise_tail_is_the_multivariate_normal_one() -> None:
    state = walk(DESIGN, [(300.0, 0.5), (600.0, 1.9)])
    first = state.looks[0].upper_z
    drift = 1.3
    means = [drift * math.sqrt(0.5), drift]
    r = math.sqrt(0.5)
    both = multivariate_normal(means, [[1.0, r], [r, 1.0]], abseps=1e-11, releps=1e-11)
    # P(cross at look 1) + P(inside at look 1, then at or above 1.9)
    inside = ndtr(first - means[0]) - ndtr(-first - means[0])
    below = both.cdf([first, 1.9], lower_limit=[-first, -math.inf])
    assert stagewise_tail(state.looks, drift) == pytest.approx(
        1.0 - ndtr(first - means[0]) + inside - below, abs=1e-8
    )


def test_the_median_unbiased_estimate_pulls_an_early_winner_back() -> None:
    design = DESIGN
    state = walk(design, [(200.0, 1.0), (400.0, 3.3)])
    result = read(design, state)
    assert 0.0 < result.median_unbiased < result.estimate
    assert result.stagewise_interval.low < result.median_unbiased < result.stagewise_interval.high
    assert stagewise_tail(state.looks, result.median_unbiased * math.sqrt(400.0)) == pytest.approx(
        0.5, abs=1e-7
    )


def test_a_leap_that_no_drift_explains_still_gets_an_ordered_reading() -> None:
    result = read(DESIGN, walk(DESIGN, [(450.0, 0.08), (555.0, 17.7)]))
    low, high = result.stagewise_interval.low, result.stagewise_interval.high
    assert low < result.median_unbiased < high
    assert result.p_value == 1e-12


def test_a_look_that_crossed_but_did_not_end_is_no_stop_for_the_estimate() -> None:
    crossed = walk(DESIGN, [(300.0, 3.5), (600.0, 3.6)])
    alone = walk(DESIGN, [(600.0, 3.6)])
    assert read(DESIGN, crossed).median_unbiased == pytest.approx(
        read(DESIGN, alone).median_unbiased, rel=1e-9
    )


def test_few_degrees_of_freedom_widen_the_interval_to_match_the_p_value() -> None:
    t, se, df = 2.9, 0.01, 12.0
    from prx.stats import t_to_z

    state = walk(Design(max_information=1.0 / se**2), [(0.5 / se**2, t_to_z(t, df))])
    result = infer(Design(max_information=1.0 / se**2), state, estimate=t * se, standard_error=se, df=df)
    assert isinstance(result, Inference)
    assert isinstance(result.interval, Interval)
    assert (result.interval.low > 0.0) == (result.p_value < 0.05)
    assert result.interval.high - result.interval.low > 2.0 * state.looks[0].upper_z * se
    assert result.median_unbiased == pytest.approx(result.estimate, rel=1e-6)


def test_conditional_power_is_that_of_the_remaining_increment() -> None:
    state = walk(DESIGN, [(500.0, 1.5)])
    bound = boundaries([0.5, 1.0]).upper_z[1]
    mean = 1.5 * math.sqrt(0.5) + 2.8 * 0.5
    assert conditional_power(DESIGN, state, drift_at_maximum=2.8) == pytest.approx(
        ndtr((mean - bound) / math.sqrt(0.5)), abs=1e-9
    )


def test_futility_is_higher_the_later_and_absent_before_the_first_look() -> None:
    design = design_by_power(0.02)
    state = start(design)
    assert futility_z(design, state, standard_error=0.1) == -math.inf
    found = []
    for day, share in enumerate((0.2, 0.4, 0.6, 0.8), 1):
        information = share * design.max_information
        state = look(design, state, information, 0.0, hours=24.0 * day)
        found.append(futility_z(design, state, standard_error=information**-0.5))
    assert found == sorted(found)
    assert -2.0 < found[0] < found[-1] < 2.0


def test_acting_on_futility_costs_under_a_tenth_more_at_most() -> None:
    assert 1.045 < design_by_power(act_on_futility=True).inflation <= 1.10


def test_equal_plans_have_equal_ids_and_any_change_changes_them() -> None:
    assert Design(max_information=1000.0).plan_id == DESIGN.plan_id
    for field in dataclasses.fields(Design):
        value = getattr(DESIGN, field.name)
        changed: object = {bool: not value, int: 31, str: "obf", float: 0.5}[type(value)]
        if field.name == "unit":
            changed = "sessions_per_arm"
        assert dataclasses.replace(DESIGN, **{field.name: changed}).plan_id != DESIGN.plan_id


@settings(max_examples=40)
@given(
    ticks=st.lists(st.tuples(st.floats(1.0, 1500.0), st.floats(-6.0, 6.0)), min_size=1, max_size=15),
)
def test_the_fold_never_spends_more_than_alpha_and_never_changes_the_past(
    ticks: list[tuple[float, float]],
) -> None:
    state = start(DESIGN)
    for day, (information, z) in enumerate(ticks, 1):
        if state.ended:
            break
        after = look(DESIGN, state, information, z, hours=24.0 * day, final=day == len(ticks))
        assert after.looks[: len(state.looks)] == state.looks
        state = after
    spent = [k.alpha_spent for k in state.looks]
    assert spent == sorted(spent)
    assert spent[-1] == pytest.approx(0.05)
    information = [k.information for k in state.looks]
    if information == sorted(set(information)) and (
        len(information) < 2 or information[-1] > 1.001 * information[-2]
    ):
        exits = crossing(information, [k.upper_z for k in state.looks])
        assert 1.0 - exits.inside <= 0.05 + 1e-9


def test_the_fold_and_the_whole_design_decide_alike_on_random_paths() -> None:
    rng = np.random.default_rng(7)
    fractions = np.arange(1, 11) / 10
    bounds = np.array(boundaries(list(fractions)).upper_z)
    for _ in range(30):
        z = rng.normal(size=10) * np.sqrt(0.1)
        z = z.cumsum() / np.sqrt(fractions) + 1.5 * np.sqrt(fractions)
        state = walk(DESIGN, [(1000.0 * f, float(v)) for f, v in zip(fractions, z, strict=True)])
        assert [k.crossed == "up" for k in state.looks] == list(z >= bounds)
        assert (repeated_p(DESIGN, state) <= 0.05) == bool((np.abs(z) >= bounds).any())
