from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prx.domain.records import (
    Assignment,
    Exposure,
    Feedback,
    Interaction,
    Message,
    Recall,
    SessionStart,
    Terminal,
    Tokens,
    ToolCall,
    ToolStatus,
    Trace,
)
from prx.domain.scores import Arm
from prx.fitness.rules import FitnessRules
from prx.fitness.session import score_session, session_end

T0 = datetime(2026, 12, 1, 8, tzinfo=UTC)
RULES = FitnessRules(target_tokens=100, ceiling_tokens=10_000)
OK, FAILED, UNKNOWN = ToolStatus.OK, ToolStatus.FAILED, ToolStatus.UNKNOWN


def call(number: int = 1, **fields: Any) -> Interaction:
    return Interaction(record_id=f"c{number}", at=T0 + timedelta(minutes=number), session_id="s", **fields)


def told(name: str, value: float | str, target: str = "s", minute: int = 10) -> Feedback:
    kind = "session" if target == "s" else "interaction"
    return Feedback(
        record_id=f"f-{name}-{target}-{minute}-{value}",
        at=T0 + timedelta(minutes=minute),
        target_kind=kind,
        target=target,
        name=name,
        value=value,
    )


def trace(*calls: Interaction, feedback: tuple[Feedback, ...] = (), **fields: Any) -> Trace:
    start = SessionStart(record_id="st", at=T0, session_id="s")
    return Trace(start=start, interactions=calls, feedback=feedback, **fields)


def scored(*calls: Interaction, feedback: tuple[Feedback, ...] = ()) -> dict[str, float]:
    return score_session(trace(*calls, feedback=feedback), rules=RULES, now=T0).dimensions


def tools(*statuses: ToolStatus, external: bool = False) -> tuple[ToolCall, ...]:
    return tuple(ToolCall(name="t", status=s, external=external) for s in statuses)


def users(*texts: str) -> tuple[Message, ...]:
    return tuple(Message(role="user", content=text) for text in texts)


def test_a_session_without_any_signal_has_no_dimension_at_all() -> None:
    assert scored(call()) == {}


def test_relevance_is_the_mean_of_the_latest_judgement_of_each_call() -> None:
    feedback = (
        told("relevance", 0.9, "c1", minute=30),
        told("relevance", 0.1, "c1", minute=20),
        told("relevance", 0.5, "c2"),
    )
    assert scored(call(1), call(2), call(3), feedback=feedback) == {"response_relevance": pytest.approx(0.7)}


def test_a_judgement_by_the_apps_own_reference_reaches_its_call() -> None:
    by_ref = Feedback(record_id="f", at=T0, target_kind="ref", target="app-7", name="relevance", value=0.25)
    both = (by_ref, told("relevance", 0.75, "c2"))
    assert scored(call(1, ref="app-7"), call(2), feedback=both) == {"response_relevance": 0.5}


def test_the_told_outcome_wins_over_tool_calls() -> None:
    assert scored(call(tool_calls=tools(FAILED)), feedback=(told("task_outcome", 1.0),)) == {
        "task_completion": 1.0
    }


def test_without_an_outcome_completion_is_successful_over_known_tool_calls() -> None:
    assert scored(call(tool_calls=tools(OK, OK, FAILED, UNKNOWN)))["task_completion"] == pytest.approx(2 / 3)


def test_unknown_and_external_tool_calls_say_nothing_of_completion() -> None:
    calls = call(tool_calls=tools(UNKNOWN) + tools(FAILED, external=True))
    result = score_session(trace(calls), rules=RULES, now=T0)
    assert result.dimensions == {}
    assert (result.failed, result.external_failures) == (False, 1)


def test_latency_is_the_mean_of_scores_not_the_score_of_a_mean() -> None:
    calls = (call(1, ttft_ms=100, streamed=True), call(2, ttft_ms=20_000, streamed=True))
    assert scored(*calls) == {"response_latency": 0.5}


def test_a_total_stands_in_for_the_first_token_only_where_nothing_was_streamed_and_is_flagged() -> None:
    whole = score_session(trace(call(latency_ms=100)), rules=RULES, now=T0)
    assert (whole.dimensions, whole.ttft_ms, whole.ttft_flagged) == ({"response_latency": 1.0}, (100,), True)
    for other in (call(latency_ms=100, streamed=True), call(latency_ms=5, terminal=Terminal.UPSTREAM_ERROR)):
        assert score_session(trace(other), rules=RULES, now=T0).ttft_ms == ()


def test_tokens_of_a_success_follow_the_curve() -> None:
    calls = (call(1, tokens=Tokens(input=600, output=200)), call(2, tokens=Tokens(input=150, output=50)))
    assert scored(*calls, feedback=(told("task_outcome", 1.0),))["token_efficiency"] == pytest.approx(0.5)


def test_a_known_failure_has_token_efficiency_0_and_an_unknown_success_has_none() -> None:
    counted = call(tokens=Tokens(input=10, output=10))
    assert scored(counted, feedback=(told("task_outcome", 0.0),))["token_efficiency"] == 0.0
    assert scored(counted) == {}


def test_token_efficiency_is_missing_where_tokens_or_targets_are() -> None:
    success = (told("task_outcome", 1.0),)
    half = (call(1, tokens=Tokens(input=10, output=10)), call(2))
    assert scored(*half, feedback=success) == {"task_completion": 1.0}
    assert scored(call(), feedback=(told("task_outcome", 0.0),)) == {"task_completion": 0.0}
    auto = score_session(
        trace(call(tokens=Tokens(input=1, output=1)), feedback=success), rules=FitnessRules(), now=T0
    )
    assert auto.dimensions == {"task_completion": 1.0}
    assert auto.tokens == 2


def test_memory_precision_is_relevant_over_judged_recalls() -> None:
    recalls = tuple(
        Recall(memory_id=f"m{i}", score=1.0, relevant=r) for i, r in enumerate([True, False, None])
    )
    assert scored(call(recalls=recalls)) == {"memory_precision": 0.5}


def test_a_told_share_of_relevant_memories_counts_for_all_recalls_of_its_call() -> None:
    three = tuple(Recall(memory_id=f"m{i}", score=1.0) for i in range(3))
    one = (Recall(memory_id="m", score=1.0, relevant=False),)
    feedback = (told("memory_relevant", 1.0, "c1"),)
    assert scored(call(1, recalls=three), call(2, recalls=one), feedback=feedback) == {
        "memory_precision": 0.75
    }


@pytest.mark.parametrize(("value", "score"), [(1.0, 1.0), (0.0, 0.0), ("up", 1.0), ("down", 0.0)])
def test_a_thumb_is_the_satisfaction_whatever_corrections_say(value: float | str, score: float) -> None:
    feedback = (told("thumb", value), told("correction", 1.0 - score, "c1"))
    assert scored(call(), feedback=feedback) == {"user_satisfaction": score}


def test_without_a_thumb_satisfaction_needs_correction_detection_and_a_later_user_turn() -> None:
    first, second = call(1, messages=users("a")), call(2, messages=users("b"))
    ran = msgspec.structs.replace(first, extra={"correction_checked": True})
    assert scored(first, second) == {}
    assert scored(ran) == {}
    assert scored(ran, second) == {"user_satisfaction": 1.0}
    assert scored(first, second, feedback=(told("correction", 0.0, "c1"),)) == {"user_satisfaction": 1.0}
    assert scored(first, second, feedback=(told("correction", 1.0, "c1"),)) == {"user_satisfaction": 0.0}


def test_a_correction_told_as_the_right_answer_is_a_correction() -> None:
    assert scored(call(), feedback=(told("correction", "card_arrival", "c1"),)) == {"user_satisfaction": 0.0}
    assert scored(call(), feedback=(told("thumb", "card_arrival"),)) == {}


def test_tool_turns_and_retries_are_no_later_user_turn() -> None:
    first = call(1, messages=users("a"), extra={"correction_checked": True})
    tool = call(2, messages=(*users("a"), Message(role="tool", content="{}")))
    retry = call(3, messages=users("a"), retry=True)
    assert scored(first, tool, retry) == {}
    later = call(4, messages=(*users("a"), Message(role="assistant"), *users("b"), Message(role="tool")))
    assert scored(first, tool, later) == {"user_satisfaction": 1.0}


@pytest.mark.parametrize("value", ["lots", 7.0, -1.0, float("nan"), float("inf"), "nan"])
def test_a_value_on_an_unknown_scale_is_not_used(value: float | str) -> None:
    assert scored(call(), feedback=(told("thumb", value), told("task_outcome", value))) == {}


def test_failed_means_the_agents_own_failure() -> None:
    def failed(*calls: Interaction, feedback: tuple[Feedback, ...] = ()) -> bool | None:
        return score_session(trace(*calls, feedback=feedback), rules=RULES, now=T0).failed

    assert failed(call()) is False
    assert failed(call(tool_calls=tools(OK, FAILED))) is True
    assert failed(call(terminal=Terminal.UPSTREAM_ERROR, error="400 bad schema")) is True
    assert failed(call(terminal=Terminal.UPSTREAM_ERROR, error="HTTP 503")) is False
    assert failed(call(terminal=Terminal.CLIENT_CANCELLED)) is False
    assert failed(call(), feedback=(told("task_outcome", 0.0),)) is True
    assert failed() is None


def test_the_score_closes_one_outcome_window_after_the_last_activity_or_the_told_end() -> None:
    open_trace = trace(call(5))
    closes = T0 + timedelta(minutes=5, hours=24)
    before = score_session(open_trace, rules=RULES, now=closes - timedelta(seconds=1))
    assert (before.closes_at, before.closed) == (closes, False)
    assert score_session(open_trace, rules=RULES, now=closes).closed is True
    ended = trace(call(5), ended_at=T0 + timedelta(hours=1))
    assert score_session(ended, rules=RULES, now=T0).closes_at == T0 + timedelta(hours=25)


def test_a_session_ends_when_told_or_after_30_idle_minutes() -> None:
    told_end = T0 + timedelta(minutes=6)
    assert session_end(trace(call(5), ended_at=told_end), rules=RULES, now=T0) == told_end
    idle = T0 + timedelta(minutes=35)
    assert session_end(trace(call(5)), rules=RULES, now=idle - timedelta(seconds=1)) is None
    assert session_end(trace(call(5)), rules=RULES, now=idle) == idle


def test_any_exposure_to_another_variant_is_shown_as_served() -> None:
    assigned = Assignment(
        record_id="a", at=T0, experiment_id="e", unit="u", session_id="s", variant="treatment"
    )
    exposures = tuple(
        Exposure(
            record_id=f"x{i}", at=T0, experiment_id="e", session_id="s", assigned="treatment", served=served
        )
        for i, served in enumerate(["control", "treatment"])
    )
    strayed = score_session(trace(call(), assignments=(assigned,), exposures=exposures), rules=RULES, now=T0)
    assert strayed.arms == (Arm(experiment_id="e", assigned="treatment", served="control"),)
    true = score_session(trace(call(), assignments=(assigned,), exposures=exposures[1:]), rules=RULES, now=T0)
    assert true.arms == (Arm(experiment_id="e", assigned="treatment", served="treatment"),)


def test_a_session_in_two_experiments_has_a_part_in_each() -> None:
    assignments = tuple(
        Assignment(record_id=name, at=T0, experiment_id=name, unit="u", session_id="s", variant=variant)
        for name, variant in (("prompt", "control"), ("strategy", "treatment"))
    )
    score = score_session(trace(call(), assignments=assignments), rules=RULES, now=T0)
    assert score.arm("prompt") == Arm(experiment_id="prompt", assigned="control")
    assert score.arm("strategy") == Arm(experiment_id="strategy", assigned="treatment")
    assert score.arm("other") is None


def test_cost_is_known_only_when_every_completed_call_has_a_price() -> None:
    priced, free = call(1, cost_usd=0.25), call(2, cost_usd=0.0)
    assert score_session(trace(priced, free), rules=RULES, now=T0).cost_usd == 0.25
    assert score_session(trace(priced, call(3)), rules=RULES, now=T0).cost_usd is None


statuses = st.sampled_from(list(ToolStatus))
calls = st.builds(
    call,
    st.integers(0, 50),
    tool_calls=st.lists(st.builds(ToolCall, name=st.just("t"), status=statuses, external=st.booleans())).map(
        tuple
    ),
    terminal=st.sampled_from(list(Terminal)),
    ttft_ms=st.none() | st.floats(),
    latency_ms=st.none() | st.floats(),
    streamed=st.booleans(),
    tokens=st.builds(
        Tokens, input=st.none() | st.integers(-5, 10**9), output=st.none() | st.integers(0, 10**9)
    ),
)
names = st.sampled_from(["thumb", "task_outcome", "relevance", "correction", "memory_relevant", "other"])
feedbacks = st.builds(
    told, names, st.floats() | st.text(max_size=4), st.sampled_from(["s", "c1", "c2", "gone"])
)


@settings(deadline=None)
@given(st.lists(calls, max_size=5), st.lists(feedbacks, max_size=6))
def test_every_score_of_every_session_lies_in_0_to_1(
    made: list[Interaction], given_feedback: list[Feedback]
) -> None:
    result = score_session(trace(*made, feedback=tuple(given_feedback)), rules=RULES, now=T0)
    assert all(0.0 <= value <= 1.0 for value in result.dimensions.values())
