from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prx.domain.answers import NotEnoughData
from prx.domain.errors import InvalidInput
from prx.domain.scores import DIMENSIONS, SessionScore
from prx.fitness.deployment import (
    DeploymentFitness,
    Trend,
    composite,
    current_fitness,
    fitness_alert,
    fitness_history,
    fitness_trend,
    window_start,
)
from prx.fitness.rules import DEFAULT_WEIGHTS, FitnessRules

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
RULES = FitnessRules()


def score(
    dimensions: dict[str, float], *, hours_ago: float = 1.0, waits: tuple[float, ...] = (), **more: Any
) -> SessionScore:
    at = NOW - timedelta(hours=hours_ago)
    return SessionScore(
        session_id="s",
        agent="default",
        env="production",
        started_at=at,
        closes_at=at,
        closed=True,
        dimensions=dimensions,
        ttft_ms=waits,
        **more,
    )


def fitness(*scores: SessionScore, rules: FitnessRules = RULES) -> DeploymentFitness:
    answer = current_fitness(scores, rules=rules, now=NOW)
    assert isinstance(answer, DeploymentFitness)
    return answer


def test_a_dimension_is_the_mean_over_the_sessions_that_have_it() -> None:
    with_tools = [score({"task_completion": v, "response_relevance": 0.8}) for v in (1.0, 0.0, 0.5)]
    without = [score({"response_relevance": 0.4}) for _ in range(9)]
    answer = fitness(*with_tools, *without)
    found = {d.name: d for d in answer.dimensions}
    assert found["task_completion"].score == 0.5
    assert (found["task_completion"].sessions, found["task_completion"].coverage) == (3, 0.25)
    assert found["response_relevance"].score == pytest.approx((3 * 0.8 + 9 * 0.4) / 12)


def test_weights_are_renormalised_over_the_dimensions_with_data_and_the_rest_is_named() -> None:
    answer = fitness(*[score({"response_relevance": 0.8, "task_completion": 0.4}) for _ in range(10)])
    assert answer.score == pytest.approx((0.30 * 0.8 + 0.25 * 0.4) / 0.55)
    assert answer.coverage == pytest.approx(0.55)
    assert {d.name: d.weight for d in answer.dimensions} == {
        "response_relevance": pytest.approx(0.30 / 0.55),
        "task_completion": pytest.approx(0.25 / 0.55),
    }
    assert [d.configured for d in answer.dimensions] == [0.30, 0.25]
    assert [m.name for m in answer.missing] == list(DIMENSIONS[2:])
    assert all(m.why for m in answer.missing)


def test_latency_of_a_deployment_is_half_the_score_of_p50_and_half_that_of_p95_over_all_calls() -> None:
    # 100 calls: 95 of them at 500 ms, 5 at 10000 ms, p50 = 500, p95 = 500 + 0.05 x 9500 = 975
    slow = score({"response_latency": 0.0}, waits=(10_000.0,) * 5)
    fast = [score({"response_latency": 1.0}, waits=(500.0,) * 5) for _ in range(19)]
    answer = fitness(slow, *fast)
    assert answer.latency is not None
    assert (answer.latency.p50_ms, answer.latency.p95_ms) == (500.0, pytest.approx(975.0))
    assert answer.dimensions[0].score == pytest.approx(0.5 + 0.5 * 0.777068, abs=1e-5)


def test_fewer_than_ten_sessions_are_not_enough_data() -> None:
    nine = [score({"task_completion": 1.0}) for _ in range(9)]
    assert current_fitness(nine, rules=RULES, now=NOW) == NotEnoughData("9 sessions in the window, 10 needed")


def test_sessions_without_any_weighted_dimension_are_not_enough_data() -> None:
    assert isinstance(current_fitness([score({})] * 20, rules=RULES, now=NOW), NotEnoughData)


def test_only_sessions_that_started_inside_the_window_count() -> None:
    inside = [score({"task_completion": 1.0}, hours_ago=24.0) for _ in range(10)]
    outside = [score({"task_completion": 0.0}, hours_ago=h) for h in (24.001, 30.0, 0.0, -1.0)]
    answer = fitness(*inside, *outside)
    assert (answer.score, answer.sessions) == (1.0, 10)


@pytest.mark.parametrize(
    ("before", "delta", "word"),
    [
        (0.71, 0.03, "improving"),
        (0.73, 0.01, "stable"),
        (0.75, -0.01, "stable"),
        (0.7511, -0.0111, "declining"),
    ],
)
def test_the_trend_is_stable_within_one_hundredth(before: float, delta: float, word: str) -> None:
    now, then = (fitness(*[score({"task_completion": v}) for _ in range(10)]) for v in (0.74, before))
    trend = fitness_trend(now, then)
    assert trend == Trend(pytest.approx(delta), word, True)


def test_a_trend_over_different_dimensions_says_so() -> None:
    now = fitness(*[score({"task_completion": 0.5}) for _ in range(10)])
    then = fitness(*[score({"response_relevance": 0.5}) for _ in range(10)])
    trend = fitness_trend(now, then)
    assert isinstance(trend, Trend)
    assert trend.same_dimensions is False


def test_a_trend_without_a_window_7_days_ago_is_not_enough_data() -> None:
    now = fitness(*[score({"task_completion": 0.5}) for _ in range(10)])
    assert isinstance(fitness_trend(now, NotEnoughData("0 sessions")), NotEnoughData)
    assert isinstance(fitness_trend(NotEnoughData("0 sessions"), now), NotEnoughData)


def test_the_alert_comes_below_the_minimum_and_never_at_it_or_without_data() -> None:
    low, at = (fitness(*[score({"task_completion": v}) for _ in range(10)]) for v in (0.49, 0.50))
    told = fitness_alert(low, RULES)
    assert told is not None
    assert "0.490" in told
    assert "task_completion" in told
    assert fitness_alert(at, RULES) is None
    assert fitness_alert(NotEnoughData("x"), RULES) is None


def test_history_has_one_aligned_row_per_window_and_keeps_empty_ones() -> None:
    since = NOW - timedelta(days=3)
    old = [score({"task_completion": 0.25}, hours_ago=70.0) for _ in range(10)]
    new = [score({"task_completion": 0.75}, hours_ago=3.0) for _ in range(12)]
    points = list(fitness_history([*old, *new], rules=RULES, since=since, now=NOW))
    assert [p.start for p in points] == [datetime(2026, 11, d, tzinfo=UTC) for d in (28, 29, 30)] + [
        datetime(2026, 12, 1, tzinfo=UTC)
    ]
    assert [p.sessions for p in points] == [10, 0, 0, 12]
    answers = [p.answer.score if isinstance(p.answer, DeploymentFitness) else None for p in points]
    assert answers == [0.25, None, None, 0.75]
    assert [p.running for p in points] == [False, False, False, True]


def test_history_skips_sessions_before_it_and_refuses_a_jumbled_order() -> None:
    before = score({"task_completion": 0.0}, hours_ago=500.0)
    new = [score({"task_completion": 1.0}, hours_ago=1.0) for _ in range(10)]
    points = list(fitness_history([before, *new], rules=RULES, since=NOW, now=NOW))
    assert [p.sessions for p in points] == [10]
    with pytest.raises(InvalidInput, match="oldest first"):
        list(fitness_history([*new, before], rules=RULES, since=NOW, now=NOW))


def test_history_reads_its_scores_as_a_stream() -> None:
    taken: list[int] = []

    def stream() -> Iterator[SessionScore]:
        for number in range(100):
            taken.append(number)
            yield score({"task_completion": 1.0}, hours_ago=24.0 * (4 - number // 25))

    first = next(fitness_history(stream(), rules=RULES, since=NOW - timedelta(days=4), now=NOW))
    assert first.sessions == 25
    assert len(taken) == 26


@settings(deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([1.0, 6.0, 24.0, 36.0]))
def test_every_moment_lies_in_exactly_one_history_window(minutes: int, hours: float) -> None:
    rules = FitnessRules(evaluation_window_hours=hours)
    at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=minutes)
    start = window_start(at, rules)
    assert start <= at < start + rules.window
    assert window_start(start, rules) == start


unit = st.floats(0.0, 1.0)


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(DIMENSIONS), unit, min_size=1))
def test_the_composite_lies_between_its_lowest_and_highest_dimension(dimensions: dict[str, float]) -> None:
    value = composite(dimensions, DEFAULT_WEIGHTS)
    assert value is not None
    assert min(dimensions.values()) - 1e-12 <= value <= max(dimensions.values()) + 1e-12


def test_no_dimension_has_no_composite() -> None:
    assert composite({}, DEFAULT_WEIGHTS) is None
    assert composite({"task_completion": 1.0}, {"response_relevance": 1.0}) is None
