"""Conclusions are the first rule that matches, and nothing unknown ever promotes."""

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prx.domain.answers import Broken, Failed, Interval, NotEnoughData, Passed
from prx.domain.errors import BadStatistics
from prx.stats import (
    Equivalent,
    Evidence,
    Harmful,
    Inconclusive,
    Invalid,
    KeepControl,
    Promote,
    Rules,
    conclude,
    rank_test_needed,
)

RULES = Rules(delta=0.02, min_duration_hours=24.0, default_duration_hours=168.0)
WINNING = Evidence(
    age_hours=96.0,
    interval=Interval(0.005, 0.06),
    median_unbiased=0.03,
    missingness_bound=0.01,
    validity=(Passed("sample ratio as planned"),),
    guardrails=(Passed("latency not worse"), Passed("cost not worse")),
)


def having(**changes: object) -> Evidence:
    return dataclasses.replace(WINNING, **changes)


def test_a_clear_winner_with_every_check_passed_is_promoted() -> None:
    assert conclude(WINNING, RULES) == Promote(Interval(0.005, 0.06), 0.03)


def test_a_failed_validity_check_voids_even_a_harmful_result() -> None:
    bad = having(validity=(Failed("52 to 48", "srm"),), interval=Interval(-0.2, -0.1), median_unbiased=-0.15)
    assert conclude(bad, RULES) == Invalid("52 to 48")


def test_an_interval_below_zero_is_harmful_at_any_age() -> None:
    result = conclude(having(age_hours=1.0, interval=Interval(-0.2, -0.01), median_unbiased=-0.1), RULES)
    assert isinstance(result, Harmful)
    assert result.winner == "control"


def test_a_tripped_guardrail_is_harmful_before_any_look() -> None:
    tripped = having(
        interval=NotEnoughData("no look yet"),
        median_unbiased=NotEnoughData("no look yet"),
        harm=(Passed("ok"), Failed("latency fell by 0.10", "harm")),
    )
    assert isinstance(conclude(tripped, RULES), Harmful)


@pytest.mark.parametrize(
    "unknown", [NotEnoughData("too early"), Broken("judge is down"), Failed("worse", "gate")]
)
@pytest.mark.parametrize("place", ["validity", "guardrails", "rank_test", "harm"])
def test_what_is_not_passed_never_promotes(unknown: object, place: str) -> None:
    if place == "harm" and isinstance(unknown, NotEnoughData):
        pytest.skip("a harm check that has not decided is the normal state")
    value = unknown if place == "rank_test" else (Passed("ok"), unknown)
    assert not isinstance(conclude(having(**{place: value}), RULES), Promote)


@pytest.mark.parametrize("bound", [0.0, -0.01, NotEnoughData("no coverage"), Broken("no table")])
def test_a_lift_that_missing_sessions_could_explain_is_not_promoted(bound: object) -> None:
    result = conclude(having(missingness_bound=bound), RULES)
    assert isinstance(result, Inconclusive)
    assert "missing sessions" in result.blocked_by[0]


@pytest.mark.parametrize("empty", ["validity", "guardrails"])
def test_checks_that_did_not_run_at_all_do_not_promote(empty: str) -> None:
    assert isinstance(conclude(having(**{empty: ()}), RULES), Inconclusive)


def test_a_winner_waits_for_the_minimum_age() -> None:
    result = conclude(having(age_hours=23.9), RULES)
    assert isinstance(result, Inconclusive)
    assert not result.ends
    assert isinstance(conclude(having(age_hours=24.0), RULES), Promote)


def test_a_lift_within_delta_on_both_sides_is_equivalent() -> None:
    flat = having(interval=Interval(-0.015, 0.018), median_unbiased=0.001)
    assert conclude(flat, RULES) == Equivalent(Interval(-0.015, 0.018))


def test_a_certain_lift_below_delta_is_equivalent_not_promoted() -> None:
    small = having(interval=Interval(0.001, 0.019), median_unbiased=0.01)
    assert isinstance(conclude(small, RULES), Equivalent)


def test_a_lift_certainly_below_delta_keeps_control() -> None:
    low = having(interval=Interval(-0.05, 0.015), median_unbiased=-0.01)
    assert conclude(low, RULES) == KeepControl(Interval(-0.05, 0.015), "no_relevant_gain")


def test_futility_ends_only_where_the_plan_says_so() -> None:
    dull = having(interval=Interval(-0.05, 0.05), median_unbiased=0.0, futile=True)
    assert isinstance(conclude(dull, RULES), Inconclusive)
    acting = dataclasses.replace(RULES, act_on_futility=True)
    assert conclude(dull, acting) == KeepControl(Interval(-0.05, 0.05), "futile")


def test_a_small_certain_lift_runs_on_and_ends_below_min_effect() -> None:
    small = having(interval=Interval(0.001, 0.05), median_unbiased=0.019)
    assert conclude(small, RULES) == Inconclusive("running", small.interval, ends=False)
    final = dataclasses.replace(small, ending="max_information")
    assert conclude(final, RULES) == KeepControl(Interval(0.001, 0.05), "below_min_effect")


def test_still_open_after_the_default_duration_is_extended() -> None:
    unclear = having(age_hours=168.0, interval=Interval(-0.03, 0.05), median_unbiased=0.01)
    result = conclude(unclear, RULES)
    assert isinstance(result, Inconclusive)
    assert (result.reason, result.ends, result.winner) == ("extended", False, None)


@pytest.mark.parametrize("ending", ["max_information", "max_duration"])
def test_an_unclear_final_look_ends_with_nobody_winning(ending: str) -> None:
    unclear = having(interval=Interval(-0.03, 0.05), median_unbiased=0.01, ending=ending)
    result = conclude(unclear, RULES)
    assert isinstance(result, Inconclusive)
    assert (result.reason, result.ends, result.winner) == (ending, True, None)


def test_time_running_out_before_any_look_is_inconclusive() -> None:
    none = NotEnoughData("60 of 100 sessions")
    result = conclude(having(interval=none, median_unbiased=none, ending="max_duration"), RULES)
    assert result == Inconclusive("max_duration", none, ends=True)


def test_a_final_winner_with_an_unproven_guardrail_says_so() -> None:
    unproven = having(guardrails=(NotEnoughData("cost too noisy"),), ending="max_information")
    result = conclude(unproven, RULES)
    assert isinstance(result, Inconclusive)
    assert result.reason == "guardrail_unproven"
    assert "cost too noisy" in result.blocked_by[0]


@pytest.mark.parametrize(
    "change",
    [
        {"age_hours": math.nan},
        {"interval": Interval(math.nan, 1.0)},
        {"interval": Interval(0.0, math.inf)},
        {"interval": Interval(0.5, 0.1)},
        {"median_unbiased": math.nan},
        {"missingness_bound": math.inf},
    ],
)
def test_evidence_that_is_no_number_is_an_error(change: dict) -> None:
    with pytest.raises(BadStatistics):
        having(**change)


@pytest.mark.parametrize("change", [{"delta": 0.0}, {"delta": math.nan}, {"min_duration_hours": -1.0}])
def test_rules_out_of_range_are_an_error(change: dict) -> None:
    with pytest.raises(BadStatistics):
        dataclasses.replace(RULES, **change)


@pytest.mark.parametrize(
    ("n", "skewness", "split", "needed"),
    [
        (100, 0.5, 0.5, False),
        (100, -2.1, 0.5, True),
        (100, 2.0, 0.5, False),
        (10_000, 0.1, 0.35, True),
        (10_000, 0.1, 0.6, False),
    ],
)
def test_skew_or_an_uneven_split_asks_for_the_rank_test_too(
    n: float, skewness: float, split: float, needed: bool
) -> None:
    assert rank_test_needed(planned_per_arm=n, blinded_skewness=skewness, traffic_split=split) is needed


def test_the_rank_test_rule_refuses_what_is_no_number() -> None:
    with pytest.raises(BadStatistics):
        rank_test_needed(planned_per_arm=100, blinded_skewness=math.nan, traffic_split=0.5)
    with pytest.raises(BadStatistics):
        rank_test_needed(planned_per_arm=0, blinded_skewness=0.0, traffic_split=0.5)


answers = st.sampled_from([Passed("ok"), Failed("no", "x"), NotEnoughData("wait"), Broken("down")])


@given(
    low=st.floats(-0.2, 0.2),
    width=st.floats(0.0, 0.3),
    middle=st.floats(-0.2, 0.2),
    age=st.floats(0.0, 720.0),
    bound=st.floats(-0.1, 0.1),
    validity=st.lists(answers, max_size=3),
    guardrails=st.lists(answers, max_size=3),
    rank=st.none() | answers,
    ending=st.sampled_from([None, "max_information", "max_duration"]),
)
def test_promotion_needs_everything_at_once(
    *, low, width, middle, age, bound, validity, guardrails, rank, ending
) -> None:
    evidence = Evidence(
        age_hours=age,
        interval=Interval(low, low + width),
        median_unbiased=middle,
        missingness_bound=bound,
        validity=tuple(validity),
        guardrails=tuple(guardrails),
        rank_test=rank,
        ending=ending,
    )
    result = conclude(evidence, RULES)
    everything = (
        low > 0.0
        and middle >= 0.02
        and age >= 24.0
        and bound > 0.0
        and bool(validity)
        and bool(guardrails)
        and all(isinstance(a, Passed) for a in (*validity, *guardrails))
        and (rank is None or isinstance(rank, Passed))
    )
    assert isinstance(result, Promote) == everything
    assert result.ends or (isinstance(result, Inconclusive) and ending is None)
