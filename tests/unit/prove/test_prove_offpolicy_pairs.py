from datetime import UTC, datetime

from prx.domain.errors import ModelUnavailable
from prx.domain.records import Interaction, Message
from prx.models.fakes import ScriptedChat
from prx.models.port import ChatReply, ChatRequest
from prx.prove.modelpairs import collect_model_pairs
from prx.prove.pairs import NOT_REPLAYABLE, PairState
from prx.prove.port import Unscored
from prx.prove.rules import RunRules, ShadowRules
from prx.prove.shadow import shadow_verdict
from prx.prove.tasks import Task
from prx.prove.toolbook import ToolBook

NOW = datetime(2026, 12, 1, tzinfo=UTC)
RULES = ShadowRules(min_hours=0.0, min_pairs=50)


def task(number: int, *, asked: bool = True) -> Task:
    call = Interaction(
        record_id=f"i{number:03}",
        at=NOW,
        session_id=f"s{number}",
        messages=(Message(role="user", content=f"question {number}"),) if asked else (),
        response="right",
        latency_ms=100.0,
    )
    return Task(call, ToolBook({}), expected="right", success=True)


def score(given: Task, answer: str) -> float | Unscored:
    return float(answer == given.expected)


def says(right_of_ten: int, *, cost: float = 0.01, name: str = "m") -> ScriptedChat:
    def answer(request: ChatRequest) -> ChatReply:
        number = int(request.messages[-1].content.split()[1])
        text = "right" if number % 10 < right_of_ten else "wrong"
        return ChatReply(text=text, model=name, latency_ms=50.0, cost_usd=cost)

    return ScriptedChat(answer, name=name)


def verdict(stable: ScriptedChat, candidate: ScriptedChat) -> tuple[str, str | None]:
    tasks = [task(i) for i in range(200)]
    state, stopped = collect_model_pairs(
        PairState(started_at=NOW), tasks, stable, candidate, RunRules(), scorer=score, limit=400
    )
    assert stopped is None
    step = shadow_verdict(state, RULES, NOW, scored=True, exhausted=True)
    return step.answer, step.code


def test_an_equal_model_passes_a_worse_one_fails_and_a_dearer_one_fails_by_its_price() -> None:
    assert verdict(says(9), says(9)) == ("pass", None)
    assert verdict(says(9), says(5)) == ("fail", "shadow_worse")
    assert verdict(says(9), says(9, cost=0.02)) == ("fail", "shadow_dearer")


def test_both_models_get_exactly_the_recorded_messages_once_and_no_input_twice() -> None:
    tasks = [task(i) for i in range(30)]
    stable, candidate = says(9), says(9)
    state, _ = collect_model_pairs(
        PairState(started_at=NOW), tasks, stable, candidate, RunRules(), scorer=score, limit=20
    )
    assert len(state.pairs) == 20
    state, _ = collect_model_pairs(state, tasks, stable, candidate, RunRules(), scorer=score, limit=20)
    assert len(state.pairs) == 30
    asked = [request.messages for request in candidate.requests]
    assert asked == [request.messages for request in stable.requests]
    assert asked == [one.interaction.messages for one in tasks]


def test_an_input_without_messages_is_skipped_and_said_so() -> None:
    state, _ = collect_model_pairs(
        PairState(started_at=NOW), [task(1, asked=False)], says(9), says(9), RunRules(), scorer=score, limit=5
    )
    assert state.pairs == {}
    assert state.count(NOT_REPLAYABLE) == 1


def test_a_model_that_is_down_stops_the_run_after_three_failures_and_keeps_what_was_paid_for() -> None:
    def answer(request: ChatRequest) -> ChatReply | Exception:
        if int(request.messages[-1].content.split()[1]) >= 5:
            return ModelUnavailable("down")
        return ChatReply(text="right", model="m", cost_usd=0.0)

    down = ScriptedChat(answer, name="down")
    state, stopped = collect_model_pairs(
        PairState(started_at=NOW),
        [task(i) for i in range(30)],
        says(9),
        down,
        RunRules(),
        scorer=score,
        limit=30,
    )
    assert stopped == "down"
    assert len(state.pairs) == 5
    assert len(down.requests) == 8
    assert state.failing == 3
