import random

from hypothesis import given
from hypothesis import strategies as st

from prx.domain.answers import Failed, NotEnoughData, Passed
from prx.prove.strategyreplay import (
    CheapAnswer,
    StrategyReplayRules,
    queue_waits,
    replay_concurrency,
    replay_threshold,
    replay_timeout,
    replay_tool_off,
)

RULES = StrategyReplayRules()


def test_a_timeout_fails_from_the_first_call_too_many_that_it_would_have_cut() -> None:
    waits = [1.0] * 995 + [30.0] * 5
    assert isinstance(replay_timeout(waits, 10.0, RULES)[0], Passed)
    answer, numbers = replay_timeout([*waits[:-1], 30.0, 30.0], 10.0, RULES)
    assert isinstance(answer, Failed)
    assert numbers["cut"] == 6
    assert isinstance(replay_timeout(waits[:199], 10.0, RULES)[0], NotEnoughData)


def test_queueing_is_that_of_a_line_computed_by_hand() -> None:
    # three calls of 10 s at 0, 1 and 2: one at a time waits 0, 9, 18; two at a time 0, 0, 8
    calls = [(0.0, 10.0), (1.0, 10.0), (2.0, 10.0)]
    assert queue_waits(calls, 1) == [0.0, 9.0, 18.0]
    assert queue_waits(calls, 2) == [0.0, 0.0, 8.0]
    assert queue_waits(calls, 3) == [0.0, 0.0, 0.0]


@given(
    calls=st.lists(st.tuples(st.floats(0, 100), st.floats(0, 10)), min_size=1, max_size=30),
    limit=st.integers(1, 5),
)
def test_more_at_a_time_never_makes_anyone_wait_longer(calls: list[tuple[float, float]], limit: int) -> None:
    less, more = queue_waits(calls, limit), queue_waits(calls, limit + 1)
    assert all(b <= a + 1e-9 for a, b in zip(less, more, strict=True))
    assert max(queue_waits(calls, len(calls))) == 0.0


def test_a_lower_limit_that_would_queue_fails_and_a_higher_one_fails_where_calls_are_throttled() -> None:
    packed = [(float(i), 3.5) for i in range(300)]
    assert isinstance(replay_concurrency(packed, 0, 5, 4, RULES)[0], Passed)
    answer, numbers = replay_concurrency(packed, 0, 4, 3, RULES)
    assert isinstance(answer, Failed)
    assert answer.code == "queueing"
    assert numbers["p95_wait_s"] > 0.25 * 3.5
    throttled, _ = replay_concurrency(packed, 4, 4, 5, RULES)
    assert isinstance(throttled, Failed)
    assert throttled.code == "throttled"
    assert isinstance(replay_concurrency(packed, 3, 4, 5, RULES)[0], Passed)
    assert isinstance(replay_concurrency(packed[:100], 0, 4, 5, RULES)[0], NotEnoughData)


def test_a_tool_may_go_only_when_it_surely_fails_more_often_than_not() -> None:
    assert isinstance(replay_tool_off(20, 100, RULES)[0], Passed)
    assert isinstance(replay_tool_off(48, 100, RULES)[0], NotEnoughData)
    assert isinstance(replay_tool_off(80, 100, RULES)[0], Failed)
    assert isinstance(replay_tool_off(0, 29, RULES)[0], NotEnoughData)


def answers(kept: float, again: float, n: int = 400) -> list[CheapAnswer]:
    rng = random.Random(3)
    above = [CheapAnswer(0.7 + 0.09 * rng.random(), False, rng.random() < kept) for _ in range(n)]
    below = [CheapAnswer(0.61 + 0.08 * rng.random(), True, rng.random() < again) for _ in range(n)]
    return above + below


def test_a_threshold_moves_only_in_the_direction_that_does_not_hurt() -> None:
    premium_better, premium_worse = answers(0.5, 0.9), answers(0.9, 0.5)
    assert isinstance(replay_threshold(premium_better, 0.7, 0.75, RULES)[0], Passed)
    assert isinstance(replay_threshold(premium_better, 0.7, 0.65, RULES)[0], Failed)
    assert isinstance(replay_threshold(premium_worse, 0.7, 0.75, RULES)[0], Failed)
    assert isinstance(replay_threshold(premium_worse, 0.7, 0.65, RULES)[0], Passed)
    few, numbers = replay_threshold(answers(0.5, 0.9, n=49), 0.7, 0.75, RULES)
    assert isinstance(few, NotEnoughData)
    assert numbers["answers_moved"] == sum(0.7 <= a.confidence < 0.75 for a in answers(0.5, 0.9, n=49))
