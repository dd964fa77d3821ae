"""Whole worlds with known truth: does the product help where it can, and never where nothing can help?"""

from dataclasses import replace

import pytest
from world_runs import PLANS, WATCH_DAYS, Plan, gained, mean_interval, outcome, simulate, upper_bound

FALSE_DISCOVERIES = 0.10


def results(name: str) -> list[dict]:  # type: ignore[type-arg]
    return [outcome(PLANS[name], seed) for seed in range(PLANS[name].seeds)]


def test_three_short_runs_that_can_improve_gain_and_none_of_them_loses() -> None:
    short = replace(PLANS["improvable"], days=15.0, cadence=72.0)
    gains = gained(simulate(short, seed) for seed in range(1000, 1003))
    assert min(gains) >= 0.0
    assert sum(gains) > 0.0


def test_a_short_outage_trips_nothing() -> None:
    found = simulate(Plan("outage", 1, 9.0, stride=12, cadence=72.0), 1000)
    assert found["trips"] == 0


def test_twelve_false_promotions_in_two_hundred_keep_the_bound_and_thirteen_do_not() -> None:
    assert upper_bound(12, 200) < FALSE_DISCOVERIES < upper_bound(13, 200)


@pytest.mark.slow
def test_twenty_runs_that_can_improve_gain_for_certain() -> None:
    mean, low, _ = mean_interval(gained(results("improvable")))
    assert mean > 0.0
    assert low > 0.0


@pytest.mark.slow
def test_where_nothing_can_help_few_runs_promote_anything() -> None:
    found = results("null")
    false = sum(one["false_promotions"] > 0 for one in found)
    assert upper_bound(false, len(found)) <= FALSE_DISCOVERIES


@pytest.mark.slow
@pytest.mark.parametrize("name", ["harmful", "hackable", "poisoned", "drift", "low-traffic", "outage"])
def test_no_harmful_version_lives_longer_than_the_watch(name: str) -> None:
    lived = [days for one in results(name) for days in one["harmful_days"]]
    assert max(lived, default=0.0) <= WATCH_DAYS


@pytest.mark.slow
@pytest.mark.parametrize("name", ["hackable", "poisoned", "outage"])
def test_nothing_harmful_is_promoted(name: str) -> None:
    assert sum(len(one["harmful_days"]) for one in results(name)) == 0


@pytest.mark.slow
def test_failures_of_the_provider_are_not_held_against_the_agent() -> None:
    assert sum(one["trips"] for one in results("outage")) == 0
