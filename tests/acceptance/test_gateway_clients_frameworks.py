"""Agent frameworks, unmodified, against `prx serve`: what they end with is what the provider said, and the
store holds their model calls, each once, in one conversation."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from client_house import PROGRAMS, Front, House, calls_of, clients_python, house, run_program

from prx.domain.records import Interaction, Terminal

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def gateway_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    clients_python()
    with house(tmp_path_factory.mktemp("home")) as one:
        yield one


@pytest.fixture
def gate(gateway_process: House) -> Front:
    return gateway_process.front()


def run(gate: Front, program: str, *arguments: str) -> Any:
    return run_program([clients_python(), str(PROGRAMS / program)], gate.url, *arguments, cwd=gate.home)


def names_and_arguments(record: Interaction) -> list[tuple[str, Any]]:
    return [(c.name, json.loads(c.arguments or "null")) for c in record.tool_calls]


def results_in(record: Interaction) -> list[str]:
    return [m.content for m in record.messages if m.role == "tool"]


@pytest.mark.parametrize("mode", ["whole", "stream"])
def test_a_langgraph_app_with_tools(gate: Front, mode: str) -> None:
    messages = run(gate, "langgraph_app.py", mode)
    assert [m["type"] for m in messages] == ["system", "human", "ai", "tool", "tool", "ai", "human", "ai"]
    assert messages[5]["content"] == "Paris: 21 degrees Oslo: 21 degrees"
    assert messages[7]["content"] == "You said: Thank you! ☂ é"
    (trace,) = gate.stored()
    first, second, third = trace.interactions
    assert len(gate.upstream.seen) == 3
    assert [[c.name, json.loads(c.arguments or ""), c.call_id] for c in first.tool_calls] == messages[2][
        "calls"
    ]
    assert results_in(second) == ["Paris: 21 degrees", "Oslo: 21 degrees"]
    assert [second.response, third.response] == [messages[5]["content"], messages[7]["content"]]
    told = [m["tokens"] for m in messages if m["type"] == "ai"]
    # Streaming, LangChain asks for no usage, so that it knows none; the record has it all the same.
    assert told == [None] * 3 or [r.tokens.input for r in trace.interactions] == told
    assert all(r.tokens.input and r.tokens.output for r in trace.interactions)
    assert {r.terminal for r in trace.interactions} == {Terminal.COMPLETED}


@pytest.mark.parametrize("mode", ["whole", "stream"])
@pytest.mark.parametrize("api", ["responses", "chat"])
def test_an_openai_agents_app_with_tools(gate: Front, api: str, mode: str) -> None:
    outputs = run(gate, "agents_app.py", api, mode)
    assert outputs == ["Lima: 21 degrees Kyoto: 21 degrees", "You said: Thank you! ☂ é"]
    path = "/v1/responses" if api == "responses" else "/v1/chat/completions"
    assert [seen.path for seen in gate.upstream.seen] == [path] * 3
    (trace,) = gate.stored()
    first, second, third = trace.interactions
    assert names_and_arguments(first) == [("look_up", {"city": "Lima"}), ("look_up", {"city": "Kyoto"})]
    assert [second.response, third.response] == outputs
    assert second.messages[0].content == "You are the weather agent."
    assert all(r.tokens.input and r.tokens.output for r in trace.interactions)
    assert {r.streamed for r in trace.interactions} == {mode == "stream"}


@pytest.mark.parametrize("mode", ["whole", "stream"])
def test_a_pydantic_ai_app_with_a_tool_and_a_typed_output(gate: Front, mode: str) -> None:
    output, into, out, requests = run(gate, "pydantic_ai_app.py", mode)
    assert (output, requests) == ({"city": "Oslo", "degrees": 21}, 2)
    (trace,) = gate.stored()
    first, second = trace.interactions
    assert names_and_arguments(first) == [("look_up", {"city": "Oslo"})]
    assert names_and_arguments(second) == [("final_result", output)]
    assert results_in(second) == ["Oslo: 21 degrees"]
    assert sum(r.tokens.input or 0 for r in (first, second)) == into
    assert sum(r.tokens.output or 0 for r in (first, second)) == out


def test_litellm_in_front_of_the_gateway(gate: Front) -> None:
    text, into, out, streamed, calls = run(gate, "litellm_app.py")
    assert text == streamed == "You said: hello ☂ é"
    records = calls_of(gate.stored())
    assert len(records) == len(gate.upstream.seen) == 3
    assert [r.response for r in records] == [text, text, None]
    assert (records[0].tokens.input, records[0].tokens.output) == (into, out)
    assert [[c.call_id, c.name, c.arguments] for c in records[2].tool_calls] == calls
