"""The breaker's arms, exact on the acceptance vectors of the safety reference."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from scipy.stats import betabinom

from prx.release.breaker import (
    BreakerRules,
    Clear,
    CommonCause,
    Hold,
    Rate,
    Trip,
    frozen_rate,
    predictive_tail,
    tick,
)
from prx.release.control import beside_rate

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
WATCH = timedelta(hours=3)
RULES = BreakerRules()


def look(window: Rate, baseline: Rate, **given: object) -> object:
    arguments = {"age": WATCH, "slow_since": None, "now": NOW, "rules": RULES, **given}
    return tick(window, window, baseline, **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("baseline", "window", "tail"),
    [
        (Rate(25, 500), Rate(12, 60), 1.5e-4),
        (Rate(20, 200), Rate(25, 100), 5.8e-4),
        (Rate(0, 200), Rate(5, 20), 1e-6),
        (Rate(10, 200), Rate(6, 20), 9.6e-4),
    ],
)
def test_the_fast_arm_trips_on_its_acceptance_vectors(baseline: Rate, window: Rate, tail: float) -> None:
    found = look(window, baseline)
    assert isinstance(found, Trip)
    assert found.reading.tail == pytest.approx(tail, rel=0.06)
    assert found.reading.arm == "fast"


@pytest.mark.parametrize(("baseline", "window"), [(Rate(20, 200), Rate(21, 100)), (Rate(2, 20), Rate(9, 20))])
def test_the_slow_arm_trips_only_after_sixty_minutes_of_excess(baseline: Rate, window: Rate) -> None:
    first = look(window, baseline)
    assert isinstance(first, Hold)
    assert first.reading.slow_since == NOW
    almost = look(window, baseline, slow_since=NOW - timedelta(minutes=59))
    assert isinstance(almost, Hold)
    late = look(window, baseline, slow_since=NOW - timedelta(minutes=60))
    assert isinstance(late, Trip)
    assert late.reading.arm == "slow"


def test_four_sessions_are_too_few_whatever_they_show() -> None:
    assert isinstance(look(Rate(2, 4), Rate(10, 200)), Hold)


def test_a_thin_hour_falls_back_to_the_last_forty_sessions() -> None:
    found = tick(Rate(3, 4), Rate(14, 40), Rate(10, 200), age=WATCH, slow_since=None, now=NOW, rules=RULES)
    assert isinstance(found, Trip)
    assert found.reading.arm == "last_40"


def test_twice_the_baseline_alone_does_not_trip() -> None:
    found = look(Rate(5, 20), Rate(24, 200))
    assert isinstance(found, Hold | Clear)
    assert found.reading.ratio > 2


def test_strict_ratio_gives_the_plain_rule_on_tiny_samples() -> None:
    rules = BreakerRules(strict_ratio=True)
    assert isinstance(look(Rate(1, 4), Rate(10, 100), rules=rules), Trip)
    assert isinstance(look(Rate(1, 5), Rate(10, 100), rules=rules), Clear)


def test_levels_grow_stricter_with_the_age_of_a_change() -> None:
    window, baseline = Rate(12, 60), Rate(25, 500)
    assert isinstance(look(window, baseline, age=timedelta(hours=30)), Hold)
    assert isinstance(look(window, baseline, age=timedelta(hours=200)), Hold)
    assert isinstance(look(window, baseline, age=timedelta(hours=23)), Trip)


def test_a_control_that_fails_alike_is_a_common_cause() -> None:
    found = look(Rate(12, 60), Rate(25, 500), control=Rate(12, 60), control_baseline=Rate(25, 500))
    assert isinstance(found, CommonCause)
    assert "12 of 60 without the change" in found.why


def test_an_outage_is_a_common_cause_even_where_the_control_is_the_baseline() -> None:
    outage = {"control": Rate(12, 60), "control_baseline": Rate(25, 500)}
    assert isinstance(look(Rate(14, 60), Rate(12, 60), **outage), CommonCause)
    assert isinstance(
        look(Rate(14, 60), Rate(25, 500), control=Rate(3, 60), control_baseline=Rate(25, 500)), Trip
    )
    by_chance = {"control": Rate(5, 45), "control_baseline": Rate(25, 500)}
    assert isinstance(look(Rate(14, 60), Rate(25, 500), **by_chance), Trip)


def test_each_acceptance_vector_gives_its_arm_and_nothing_else() -> None:
    vectors = {
        ((25, 500), (12, 60)): "fast",
        ((20, 200), (25, 100)): "fast",
        ((20, 200), (21, 100)): "slow",
        ((0, 200), (5, 20)): "fast",
        ((10, 200), (6, 20)): "fast",
        ((2, 20), (9, 20)): "slow",
        ((10, 200), (2, 4)): "hold",
    }
    for (baseline, window), arm in vectors.items():
        now = look(Rate(*window), Rate(*baseline))
        later = look(Rate(*window), Rate(*baseline), slow_since=NOW - timedelta(hours=1))
        seen = (
            now.reading.arm
            if isinstance(now, Trip)
            else later.reading.arm
            if isinstance(later, Trip)
            else "hold"
        )
        assert seen == arm, (baseline, window)


def test_the_tail_agrees_with_an_independent_beta_binomial() -> None:
    for window, baseline in (
        (Rate(3, 40), Rate(7, 300)),
        (Rate(470, 500), Rate(9, 10)),
        (Rate(0, 30), Rate(1, 9)),
    ):
        independent = betabinom.sf(
            window.failures - 1,
            window.sessions,
            baseline.failures + 0.5,
            baseline.sessions - baseline.failures + 0.5,
        )
        assert predictive_tail(window, baseline) == pytest.approx(independent, abs=1e-9)


def test_a_long_baseline_counts_as_five_hundred_sessions_of_its_rate() -> None:
    window = Rate(12, 60)
    assert predictive_tail(window, Rate(2500, 50_000)) == predictive_tail(window, Rate(25, 500))


def test_the_same_hour_stands_in_for_the_week_only_where_it_is_higher_and_has_enough_sessions() -> None:
    week, at = Rate(50, 1000), NOW.replace(minute=30)
    assert frozen_rate(week, {11: Rate(8, 40), 12: Rate(4, 40)}, at, RULES) == Rate(12, 80)
    assert frozen_rate(week, {11: Rate(1, 40), 12: Rate(1, 40)}, at, RULES) == week
    assert frozen_rate(week, {11: Rate(4, 9), 12: Rate(4, 10)}, at, RULES) == week
    assert frozen_rate(week, {3: Rate(30, 40)}, at, RULES) == week
    assert frozen_rate(week, {}, at, RULES) == week


def test_a_busy_hour_that_fails_as_it_always_does_trips_nothing() -> None:
    week, usual = Rate(50, 1000), {12: Rate(40, 200)}
    assert isinstance(look(Rate(20, 100), week), Trip)
    assert isinstance(look(Rate(20, 100), frozen_rate(week, usual, NOW, RULES)), Clear)


def test_a_thin_control_lowers_no_baseline_and_a_full_one_stands_alone() -> None:
    frozen = Rate(50, 1000)
    assert beside_rate(Rate(0, 30), Rate(0, 11), frozen, RULES) == frozen
    assert beside_rate(Rate(6, 30), Rate(0, 11), frozen, RULES) == Rate(6, 30)
    assert beside_rate(Rate(9, 900), Rate(4, 200), frozen, RULES) == Rate(4, 200)
    assert beside_rate(Rate(0, 0), Rate(0, 0), frozen, RULES) == frozen


def test_the_tail_is_a_probability_that_falls_with_more_failures() -> None:
    tails = [predictive_tail(Rate(k, 50), Rate(5, 100)) for k in range(51)]
    assert tails[0] == pytest.approx(1.0)
    assert all(a >= b for a, b in pairwise(tails))
