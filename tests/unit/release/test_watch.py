"""The watch: a drop must be large enough and certain, with the spread between days in its error."""

import random

import pytest

from prx.domain.answers import NotEnoughData
from prx.release.watch import COMPOSITE, Holding, Level, Regressed, WatchRules, level_of, moments, watch

RULES = WatchRules()


def level(mean: float, *, sessions: int = 600, day_variance: float = 0.0, days: float = 1.0) -> Level:
    return Level(mean, 0.04, sessions, day_variance, days)


def test_a_first_bad_day_is_no_certain_drop_where_days_are_known_to_differ() -> None:
    steady = watch({COMPOSITE: level(0.70, days=14)}, {COMPOSITE: level(0.63)}, RULES)
    unsteady = watch({COMPOSITE: level(0.70, days=14, day_variance=0.0016)}, {COMPOSITE: level(0.63)}, RULES)
    assert isinstance(steady, Regressed)
    assert isinstance(unsteady, Holding)
    assert unsteady.drops[0].estimate == pytest.approx(0.07)
    assert unsteady.drops[0].lower < 0


def test_the_composite_and_a_single_metric_have_their_own_limits() -> None:
    before = {COMPOSITE: level(0.7), "task_completion": level(0.7)}
    found = watch(before, {COMPOSITE: level(0.64), "task_completion": level(0.62)}, RULES)
    assert isinstance(found, Regressed)
    assert [drop.metric for drop in found.drops] == [COMPOSITE]


def test_few_sessions_are_not_enough_data_and_no_drop() -> None:
    found = watch({COMPOSITE: level(0.7)}, {COMPOSITE: level(0.1, sessions=29)}, RULES)
    assert isinstance(found, NotEnoughData)


def test_a_level_of_days_tells_spread_between_sessions_from_spread_between_days() -> None:
    rng = random.Random(5)
    days = [[rng.gauss(0.7 + shift, 0.2) for _ in range(2000)] for shift in (-0.06, 0.0, 0.06)]
    found = level_of([moments(day) for day in days])
    assert found.sessions == 6000
    assert found.mean == pytest.approx(0.7, abs=0.01)
    assert found.day_variance == pytest.approx(0.0036, abs=0.0008)
    assert level_of([moments(days[0]), moments(days[0][:3])]).day_variance < 0.002
    assert found.days == pytest.approx(3.0)


def test_a_day_that_has_hardly_begun_is_hardly_a_day() -> None:
    full, begun = moments([0.5, 0.7] * 300), moments([0.6] * 6)
    assert level_of([full, begun]).days == pytest.approx(1.02, abs=0.01)
    assert level_of([full]).day_variance == 0.0
