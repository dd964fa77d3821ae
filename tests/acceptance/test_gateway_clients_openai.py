"""The `openai` Python client, unmodified, against `prx serve`: it gets what the provider sent, and the store
holds one record per request."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

openai = pytest.importorskip("openai")

from client_house import Front, House, calls_of, house  # noqa: E402
from gateway_house import SECRET, Reply, Seen, events, eventually, stream, whole  # noqa: E402
from model_provider import Model  # noqa: E402
from pydantic import BaseModel  # noqa: E402

from prx.domain.records import Terminal, Trace, UnitSource  # noqa: E402

TOOL: Any = {
    "type": "function",
    "function": {
        "name": "look_up",
        "description": "Weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
SYSTEM: Any = {"role": "system", "content": "You are the weather agent."}


class Weather(BaseModel):
    city: str
    degrees: int


def user(text: str) -> Any:
    return {"role": "user", "content": text}


@pytest.fixture(scope="module")
def gateway_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with house(tmp_path_factory.mktemp("home")) as one:
        yield one


@pytest.fixture
def gate(gateway_process: House) -> Front:
    return gateway_process.front()


@pytest.fixture
def client(gate: Front) -> Iterator[Any]:
    with openai.OpenAI(base_url=gate.url, api_key=SECRET, max_retries=0) as one:
        yield one


def plain(parsed: Any) -> Any:
    """What the client made of the answer, as it came over the wire."""
    return parsed.model_dump(mode="json", exclude_unset=True)


def without_usage(chunks: list[Any]) -> list[Any]:
    return [one for one in chunks if one["choices"]]


def only(traces: list[Trace]) -> Trace:
    (trace,) = traces
    return trace


def test_a_whole_answer_is_the_providers_and_is_recorded_with_its_tokens(gate: Front, client: Any) -> None:
    made = client.chat.completions.create(model="gpt-4o", messages=[SYSTEM, user("hello 你好 😀")])
    assert plain(made) == gate.model.sent[0]
    (record,) = only(gate.stored()).interactions
    usage = made.usage
    assert record.response == made.choices[0].message.content
    assert (record.tokens.input, record.tokens.output) == (usage.prompt_tokens, usage.completion_tokens)
    assert record.tokens.cache_read == usage.prompt_tokens_details.cached_tokens
    assert record.tokens.reasoning == usage.completion_tokens_details.reasoning_tokens
    assert [(m.role, m.content) for m in record.messages] == [
        ("system", SYSTEM["content"]),
        ("user", "hello 你好 😀"),
    ]
    assert (record.model, record.terminal) == (made.model, Terminal.COMPLETED)


def test_a_streams_chunks_are_the_providers_with_and_without_usage(gate: Front, client: Any) -> None:
    for options in ({}, {"stream_options": {"include_usage": True}}):
        made = client.chat.completions.create(
            model="gpt-4o", messages=[user("tell me")], stream=True, **options
        )
        got = [plain(one) for one in made]
        sent = gate.model.sent[-1]
        assert got == (sent if options else without_usage(sent))
    first, second = calls_of(gate.stored())
    assert first.response == second.response == "You said: tell me ☂ é"
    assert first.tokens == second.tokens
    assert first.tokens.output == len(first.response)
    assert first.streamed
    assert first.ttft_ms is not None


@pytest.mark.parametrize("streaming", [False, True])
def test_a_tool_loop_is_one_conversation_with_every_call_and_result(
    gate: Front, client: Any, streaming: bool
) -> None:
    said: list[Any] = [SYSTEM, user("Weather in Paris and Oslo?")]
    for _ in range(2):
        if streaming:
            with client.chat.completions.stream(model="gpt-4o", messages=said, tools=[TOOL]) as made:
                message = made.get_final_completion().choices[0].message
        else:
            message = client.chat.completions.create(model="gpt-4o", messages=said, tools=[TOOL])
            message = message.choices[0].message
        said.append(message.model_dump(exclude_none=True, include={"role", "content", "tool_calls"}))
        for call in message.tool_calls or ():
            city = json.loads(call.function.arguments)["city"]
            said.append({"role": "tool", "tool_call_id": call.id, "content": f"{city}: 21 degrees"})
    assert said[-1]["content"] == "Paris: 21 degrees Oslo: 21 degrees"
    trace = only(gate.stored())
    first, second = trace.interactions
    assert [(c.name, json.loads(c.arguments or "")) for c in first.tool_calls] == [
        ("look_up", {"city": "Paris"}),
        ("look_up", {"city": "Oslo"}),
    ]
    assert [c.call_id for c in first.tool_calls] == [c["id"] for c in said[2]["tool_calls"]]
    assert [m.content for m in second.messages if m.role == "tool"] == [
        "Paris: 21 degrees",
        "Oslo: 21 degrees",
    ]
    assert second.response == said[-1]["content"]
    assert trace.start.unit_source is UnitSource.NONE


@pytest.mark.parametrize("streaming", [False, True])
def test_structured_output_is_parsed_by_the_client(gate: Front, client: Any, streaming: bool) -> None:
    asked: Any = {"model": "gpt-4o", "messages": [user("Weather in Lima?")], "response_format": Weather}
    if streaming:
        with client.chat.completions.stream(**asked) as made:
            parsed = made.get_final_completion().choices[0].message.parsed
    else:
        parsed = client.chat.completions.parse(**asked).choices[0].message.parsed
    assert parsed == Weather(city="Lima", degrees=21)
    (record,) = calls_of(gate.stored())
    assert json.loads(record.response or "") == {"city": "Lima", "degrees": 21}


def test_the_responses_endpoint_goes_on_by_its_previous_response(gate: Front, client: Any) -> None:
    tool = {"type": "function"} | TOOL["function"] | {"strict": False}
    first = client.responses.create(model="gpt-4o", input="Weather in Kyoto?", tools=[tool])
    assert plain(first) == gate.model.sent[0]
    (call,) = first.output
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "Kyoto: 9 degrees"}
    streamed = client.responses.create(
        model="gpt-4o", input=[result], tools=[tool], previous_response_id=first.id, stream=True
    )
    got = [plain(event) for event in streamed]
    assert got == gate.model.sent[1]
    parsed = client.responses.parse(
        model="gpt-4o",
        input="And Lima?",
        text_format=Weather,
        previous_response_id=gate.model.sent[1][-1]["response"]["id"],
    )
    assert parsed.output_parsed == Weather(city="Lima", degrees=21)
    trace = only(gate.stored())
    one, two, three = trace.interactions
    assert [(c.name, c.call_id) for c in one.tool_calls] == [("look_up", call.call_id)]
    assert (two.response, two.streamed) == ("Kyoto: 9 degrees", True)
    assert json.loads(three.response or "")["city"] == "Lima"
    assert all(record.tokens.input and record.tokens.output for record in (one, two, three))


def test_many_asynchronous_calls_keep_their_conversations_apart(gate: Front) -> None:
    async def talk(client: Any, number: int) -> str:
        said: list[Any] = [user(f"I am number {number}")]
        for turn in range(3):
            if number % 2:
                made = await client.chat.completions.create(model="m", messages=said, stream=True)
                text = "".join([c.choices[0].delta.content or "" async for c in made])
            else:
                whole_answer = await client.chat.completions.create(model="m", messages=said)
                text = whole_answer.choices[0].message.content
            said += [{"role": "assistant", "content": text}, user(f"turn {turn} of {number}")]
        return str(said[-2]["content"])

    async def run() -> list[str]:
        async with openai.AsyncOpenAI(base_url=gate.url, api_key=SECRET, max_retries=0) as client:
            return await asyncio.gather(*(talk(client, n) for n in range(20)))

    last = asyncio.run(run())
    assert last == [f"You said: turn 1 of {n} ☂ é" for n in range(20)]
    traces = gate.stored()
    assert sorted(len(t.interactions) for t in traces) == [3] * 20
    for trace in traces:
        numbers = {m.content.split()[-1] for c in trace.interactions for m in c.messages if m.role == "user"}
        assert len(numbers) == 1
    assert len(calls_of(traces)) == len(gate.upstream.seen) == 60


def test_each_try_of_the_clients_own_retries_has_its_record(gate: Front) -> None:
    answered: list[str] = []
    model = gate.model

    def script(seen: Seen) -> Reply:
        if len(answered) < 2:
            # One of those that the gateway leaves to its client.
            return whole({"error": {"message": "overloaded", "type": "server_error"}}, status=520)
        return model(seen)

    gate.upstream.script = script
    hooks = {"response": [lambda answer: answered.append(answer.headers["x-prx-record"])]}
    http = openai.DefaultHttpxClient(event_hooks=hooks)
    with openai.OpenAI(base_url=gate.url, api_key=SECRET, max_retries=4, http_client=http) as client:
        made = client.chat.completions.create(
            model="m", messages=[user("hi")], extra_headers={"X-PRX-Session": "s-1"}
        )
    assert made.choices[0].message.content == "You said: hi ☂ é"
    trace = only(gate.stored())
    assert [record.record_id for record in trace.interactions] == answered
    assert trace.interactions[-1].terminal is Terminal.COMPLETED
    assert {r.terminal for r in trace.interactions[:-1]} <= {Terminal.UPSTREAM_ERROR}
    assert trace.start.session_id == "s-1"


def test_a_stream_that_the_client_cancels_is_one_cancelled_record_with_what_it_saw(
    gate: Front, client: Any
) -> None:
    gate.model.pause = 0.05
    made = client.chat.completions.create(model="m", messages=[user("long " * 60)], stream=True)
    seen = ""
    for piece in made:
        seen += piece.choices[0].delta.content or ""
        if len(seen) > 20:
            break
    made.close()
    eventually(lambda: gate.upstream.gone == 1)
    (record,) = calls_of(gate.stored())
    assert record.terminal is Terminal.CLIENT_CANCELLED
    assert (record.response or "").startswith(seen)


def test_an_asynchronous_task_that_is_cancelled_leaves_one_cancelled_record(gate: Front) -> None:
    def script(seen: Seen) -> Reply:
        reply = Model()(seen)
        reply.delay = 30.0
        return reply

    gate.upstream.script = script

    async def run() -> None:
        async with openai.AsyncOpenAI(base_url=gate.url, api_key=SECRET, max_retries=0) as client:
            call = asyncio.create_task(client.chat.completions.create(model="m", messages=[user("hi")]))
            while not gate.upstream.seen:
                await asyncio.sleep(0.01)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call

    asyncio.run(run())
    eventually(lambda: gate.upstream.gone == 1)
    (record,) = calls_of(gate.stored())
    assert record.terminal is Terminal.CLIENT_CANCELLED


def test_what_goes_wrong_reaches_the_client_as_its_own_exceptions(gate: Front, client: Any) -> None:
    kinds = [
        (400, openai.BadRequestError),
        (401, openai.AuthenticationError),
        (403, openai.PermissionDeniedError),
        (404, openai.NotFoundError),
        (422, openai.UnprocessableEntityError),
    ]
    for status, kind in kinds:
        error = {"message": f"no {status}", "type": "t", "param": "p", "code": "c"}
        gate.upstream.script = lambda _seen, s=status, e=error: whole({"error": e}, status=s)
        with pytest.raises(kind) as caught:
            client.chat.completions.create(model="m", messages=[user("hi")])
        assert caught.value.body == error
    bad_line = {"error": {"message": "overloaded", "type": "server_error", "code": None, "param": None}}
    gate.upstream.script = lambda _seen: stream(events(bad_line, done=False))
    with pytest.raises(openai.APIError, match="overloaded"):
        list(client.chat.completions.create(model="m", messages=[user("hi")], stream=True))
    records = calls_of(gate.stored())
    assert [r.terminal for r in records] == [Terminal.UPSTREAM_ERROR] * 6
    assert [r.error for r in records[:5]] == [f"HTTP {s}: no {s}" for s, _ in kinds]


@pytest.mark.parametrize("endpoint", ["chat", "responses"])
def test_a_stream_that_breaks_off_raises_in_the_client_and_is_never_recorded_as_done(
    gate: Front, client: Any, endpoint: str
) -> None:
    def script(seen: Seen) -> Reply:
        reply = gate.model(seen)
        assert isinstance(reply.body, list)
        # After its first words, long before its end.
        reply.body, reply.abort = reply.body[: 3 if endpoint == "chat" else 6], True
        return reply

    gate.upstream.script = script
    if endpoint == "chat":
        made = client.chat.completions.create(model="m", messages=[user("long")], stream=True)
    else:
        made = client.responses.create(model="m", input="long", stream=True)
    with pytest.raises(openai.APIError, match="broke off"):
        list(made)
    (record,) = calls_of(gate.stored())
    assert record.terminal is Terminal.UPSTREAM_ERROR
    assert record.external_failure
    assert "You said: long".startswith(record.response or "-")


def test_a_stream_without_its_last_chunk_ends_in_the_client_and_is_recorded_as_unfinished(
    gate: Front, client: Any
) -> None:
    def script(seen: Seen) -> Reply:
        reply = gate.model(seen)
        assert isinstance(reply.body, list)
        reply.body = reply.body[:3]
        return reply

    gate.upstream.script = script
    made = client.chat.completions.create(model="m", messages=[user("long")], stream=True)
    text = "".join(one.choices[0].delta.content or "" for one in made)
    (record,) = calls_of(gate.stored())
    assert (record.response, record.terminal) == (text, Terminal.UPSTREAM_ERROR)


def test_embeddings_models_and_files_pass(gate: Front, client: Any) -> None:
    made = client.embeddings.create(model="embed", input=["a", "bc"], encoding_format="float")
    assert plain(made) == gate.model.sent[0]
    assert [plain(one) for one in client.models.list()] == gate.model.sent[1]["data"]
    gate.upstream.script = lambda _seen: whole({"id": "file-1", "object": "file"})
    assert client.files.create(file=("a.jsonl", b"{}\n"), purpose="batch").id == "file-1"
    assert b'name="purpose"' in gate.upstream.seen[-1].body
    records = calls_of(gate.stored())
    assert [r.intent for r in records] == ["embeddings", "other", "other"]
    assert records[0].tokens.input == 3
