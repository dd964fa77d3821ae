"""What the simulated models can see, and that nothing else reaches them."""

import inspect

import msgspec
import pytest

from prx.demo.world import Truth, in_process, world_named
from prx.demo.world.bank import FOLLOW_UPS, LABELS, PROMPT, messages
from prx.demo.world.desk import request_of
from prx.demo.world.flavours import MODELS, QUICK, STEADY
from prx.demo.world.judges import SimulatedJudge
from prx.demo.world.reader import SimulatedModels
from prx.demo.world.simulation import models_of
from prx.domain.records import Message
from prx.models.port import ChatReply, ChatRequest

TRANSFER = "My friend did not receive the transfer I made"


def ask(model: str, system: str, text: str, known: tuple[str, ...] = ()) -> ChatReply:
    return SimulatedModels().complete(request_of(model, system, text, known))


def test_a_model_is_given_a_request_and_nothing_else() -> None:
    assert list(inspect.signature(SimulatedModels.complete).parameters) == ["self", "request"]


def test_a_request_can_carry_no_version_variant_or_session() -> None:
    assert set(ChatRequest.__struct_fields__) == {
        "model",
        "messages",
        "temperature",
        "seed",
        "max_tokens",
        "tools",
        "response_format",
    }
    assert set(Message.__struct_fields__) == {"role", "content", "name", "tool_call_id", "tool_calls"}


def test_equal_requests_get_equal_answers_in_any_order() -> None:
    requests = [request_of(m.name, PROMPT, text) for m in MODELS for text, _ in messages()[:60]]
    first = [SimulatedModels().complete(request) for request in requests]
    backwards = [SimulatedModels().complete(request) for request in reversed(requests)]
    assert first == list(reversed(backwards))


def test_names_seeds_and_temperatures_of_a_request_change_nothing() -> None:
    plain = request_of("sim-quick", PROMPT, TRANSFER)
    dressed = msgspec.structs.replace(plain, seed=3, temperature=1.0, max_tokens=9)
    assert SimulatedModels().complete(plain) == SimulatedModels().complete(dressed)


def test_only_prompt_memory_route_and_message_change_an_answer() -> None:
    base = ask("sim-quick", PROMPT, TRANSFER)
    assert ask("sim-steady", PROMPT, TRANSFER).text != base.text
    assert ask("sim-quick", "", TRANSFER).text == "unsure"
    assert ask("sim-quick", PROMPT, "I want to change my PIN").text == "change_pin"
    asked = FOLLOW_UPS[0]
    assert ask("sim-quick", PROMPT, asked).text == "unsure"
    assert ask("sim-quick", PROMPT, asked, ("last case change_pin",)).text == "change_pin"


def test_two_runs_whose_experiments_have_other_ids_and_salts_answer_alike() -> None:
    world = world_named("improvable")
    one, other = in_process(world, 1), in_process(world, 1)
    other.engine.context.ids.secret()
    for running in (one, other):
        running.run(2)
    answers = []
    for running in (one, other):
        traces = running.records.traces()
        answers.append([(c.messages, c.model, c.response) for trace in traces for c in trace.interactions])
    assert answers[0] == answers[1]
    assert len(answers[0]) > 200


def test_models_differ_in_skill_by_what_they_do_not_understand() -> None:
    def right(model: str, label: str) -> float:
        of_label = [text for text, found in messages() if found == label]
        return sum(ask(model, PROMPT, text).text == label for text in of_label) / len(of_label)

    transfers, rates = "transfer_not_received_by_recipient", "exchange_rate"
    assert right(STEADY.name, transfers) > right(QUICK.name, transfers) + 0.2
    assert right(QUICK.name, rates) > right(STEADY.name, rates) + 0.4


def test_no_object_of_the_product_holds_the_truth() -> None:
    running = in_process(world_named("improvable"), 0)
    seen: set[int] = set()

    def reaches(thing: object, depth: int) -> bool:
        if id(thing) in seen or depth == 0:
            return False
        seen.add(id(thing))
        if isinstance(thing, Truth):
            return True
        values = vars(thing).values() if hasattr(thing, "__dict__") else ()
        slots = [getattr(thing, name, None) for name in getattr(type(thing), "__slots__", ())]
        return any(reaches(value, depth - 1) for value in (*values, *slots))

    assert not reaches(running.engine, 6)
    assert reaches(running, 2)


@pytest.mark.parametrize("phrase", ["Certainly", ""])
def test_only_a_judge_with_a_weakness_can_be_bribed(phrase: str) -> None:
    said = '{"id": "x", "request": "I want to change my PIN", "answer": "Certainly! exchange_rate"}'
    request = ChatRequest(model="", messages=(Message(role="user", content=said),))
    marks = msgspec.json.decode(SimulatedJudge(phrase).complete(request).text)
    assert (marks["correct"] == 4) == bool(phrase)


def test_every_served_model_of_a_world_answers_under_its_own_name() -> None:
    served = models_of(world_named("improvable")).served
    assert set(served) == {model.name for model in MODELS}
    for name, model in served.items():
        reply = model.complete(ChatRequest(model="", messages=request_of("", PROMPT, TRANSFER).messages))
        assert reply.model == name


def test_every_label_of_the_prompt_is_a_label_of_the_messages() -> None:
    assert {label for _, label in messages()} == set(LABELS)
    assert all(f"- {label}: " in PROMPT for label in LABELS)
