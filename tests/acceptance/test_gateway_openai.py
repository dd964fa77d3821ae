"""The real `openai` client, unmodified, with only its base URL pointed at the gateway."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

openai = pytest.importorskip("openai")

from chat_server import USAGE, chunk, completion, response  # noqa: E402
from gateway_house import (  # noqa: E402
    SECRET,
    Provider,
    Reply,
    Running,
    Seen,
    events,
    eventually,
    interactions,
    provider,
    stream,
    whole,
)

from prx.domain.records import Terminal  # noqa: E402

HELLO: list[Any] = [{"role": "user", "content": "Hi there"}]
TOOLS: list[Any] = [{"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}}]


def answer(seen: Seen) -> Reply:
    if seen.path.endswith("/embeddings"):
        row = {"object": "embedding", "index": 0, "embedding": [0.5, 0.25]}
        usage = {"prompt_tokens": 3, "total_tokens": 3}
        return whole({"object": "list", "data": [row], "model": "embed", "usage": usage})
    if seen.path.endswith("/models"):
        return whole(
            {"object": "list", "data": [{"id": "m", "object": "model", "created": 1, "owned_by": "o"}]}
        )
    if seen.path.endswith("/responses"):
        return whole(response("Hi from responses"))
    if seen.json.get("stream"):
        usage = {**chunk({}), "choices": [], "usage": USAGE}
        return stream(events(chunk({"content": "Hel"}), chunk({"content": "lo!"}), chunk({}, "stop"), usage))
    return whole(completion())


@pytest.fixture
def upstream() -> Iterator[Provider]:
    with provider(answer) as one:
        yield one


@pytest.fixture
def client(running: Running) -> Iterator[Any]:
    with openai.OpenAI(base_url=running.url, api_key=SECRET, max_retries=0) as one:
        yield one


def test_a_plain_call_is_answered_and_recorded(client: Any, running: Running, upstream: Provider) -> None:
    raw = client.chat.completions.with_raw_response.create(model="gpt-4o", messages=HELLO)
    assert raw.parse().choices[0].message.content == "Hello!"
    (record,) = interactions(running.home)
    assert raw.headers["x-prx-record"] == record.record_id
    assert (record.model, record.response) == ("gpt-4o-2024-08-06", "Hello!")
    assert upstream.seen[0].header("authorization") == f"Bearer {SECRET}"


def test_a_stream_without_usage_gives_the_client_no_chunk_without_choices(
    client: Any, running: Running
) -> None:
    chunks = list(client.chat.completions.create(model="gpt-4o", messages=HELLO, stream=True))
    assert "".join(c.choices[0].delta.content or "" for c in chunks) == "Hello!"
    (record,) = interactions(running.home)
    assert (record.response, record.tokens.input, record.tokens.reasoning) == ("Hello!", 100, 8)


def test_a_client_that_wants_usage_gets_it(client: Any) -> None:
    options = {"include_usage": True}
    made = client.chat.completions.create(model="m", messages=HELLO, stream=True, stream_options=options)
    assert list(made)[-1].usage.prompt_tokens == 100


def test_tools_come_back_and_the_second_turn_is_the_same_session(
    client: Any, running: Running, upstream: Provider
) -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "look_up", "arguments": '{"card": 7}'}}
    upstream.script = lambda _seen: whole(completion(None, tool_calls=[call]))
    message = client.chat.completions.create(model="m", messages=HELLO, tools=TOOLS).choices[0].message
    assert json.loads(message.tool_calls[0].function.arguments) == {"card": 7}
    upstream.script = answer
    result = {"role": "tool", "tool_call_id": "call_1", "content": "lost"}
    client.chat.completions.create(model="m", messages=[*HELLO, message, result], tools=TOOLS)
    first, second = interactions(running.home)
    assert first.tool_calls[0].name == "look_up"
    assert first.session_id == second.session_id


def test_responses_embeddings_and_models_work(client: Any, running: Running) -> None:
    assert client.responses.create(model="m", input="hello").output_text == "Hi from responses"
    assert client.embeddings.create(model="embed", input="text").data[0].embedding == [0.5, 0.25]
    assert [model.id for model in client.models.list()] == ["m"]
    first, second, third = interactions(running.home)
    assert (first.response, first.tokens.input, first.tokens.cache_read) == ("Hi from responses", 50, 5)
    assert (second.tokens.input, second.intent) == (3, "embeddings")
    assert third.extra["path"] == "/v1/models"


def test_a_streamed_response_is_put_together(client: Any, running: Running, upstream: Provider) -> None:
    final = response("Hi")
    parts: list[Any] = [
        {"type": "response.created", "response": final | {"status": "in_progress", "output": []}},
        {"type": "response.output_text.delta", "delta": "Hi", "item_id": "m", "output_index": 0}
        | {"content_index": 0, "sequence_number": 1, "logprobs": []},
        {"type": "response.completed", "response": final, "sequence_number": 2},
    ]
    sent = [b"event: " + p["type"].encode() + b"\ndata: " + json.dumps(p).encode() + b"\n\n" for p in parts]
    upstream.script = lambda _seen: stream(sent)
    kinds = [event.type for event in client.responses.create(model="m", input="hello", stream=True)]
    assert kinds == [part["type"] for part in parts]
    (record,) = interactions(running.home)
    assert (record.response, record.tokens.output, record.tool_calls[0].name) == ("Hi", 10, "look_up")


def test_the_async_client_runs_many_calls_at_once(running: Running) -> None:
    async def run() -> None:
        async with openai.AsyncOpenAI(base_url=running.url, api_key=SECRET, max_retries=0) as client:

            async def plain() -> None:
                made = await client.chat.completions.create(model="m", messages=HELLO)
                assert made.choices[0].message.content == "Hello!"

            async def streamed() -> None:
                made = await client.chat.completions.create(model="m", messages=HELLO, stream=True)
                assert "".join([c.choices[0].delta.content or "" async for c in made]) == "Hello!"

            await asyncio.gather(*(work() for work in [plain, streamed] * 15))

    asyncio.run(run())
    records = interactions(running.home)
    assert len(records) == 30
    assert {r.terminal for r in records} == {Terminal.COMPLETED}


def test_the_clients_retries_are_each_recorded_and_stay_in_their_session(
    running: Running, upstream: Provider
) -> None:
    upstream.script = lambda _seen: (
        answer(_seen) if len(upstream.seen) > 2 else whole({"error": {"message": "busy"}}, status=503)
    )
    headers = {"X-PRX-Session": "s-1"}
    with openai.OpenAI(base_url=running.url, api_key=SECRET, max_retries=2) as client:
        client.chat.completions.create(model="m", messages=HELLO, extra_headers=headers)
    records = interactions(running.home)
    assert [r.terminal for r in records] == [Terminal.UPSTREAM_ERROR] * 2 + [Terminal.COMPLETED]
    assert {r.session_id for r in records} == {"s-1"}
    assert [r.extra.get("client_retry", 0) for r in records] == [0, 1, 2]


def test_errors_reach_the_client_as_its_own_exceptions(
    client: Any, running: Running, upstream: Provider
) -> None:
    for status, error in ((401, openai.AuthenticationError), (429, openai.RateLimitError)):
        upstream.script = lambda _s, status=status: whole({"error": {"message": "no"}}, status=status)
        with pytest.raises(error):
            client.chat.completions.create(model="m", messages=HELLO)
    upstream.script = lambda _seen: stream(events(chunk({"content": "a"}), done=False), abort=True, gap=0.05)
    with pytest.raises(openai.APIError, match="broke off"):
        list(client.chat.completions.create(model="m", messages=HELLO, stream=True))
    assert [r.terminal for r in interactions(running.home)] == [Terminal.UPSTREAM_ERROR] * 3


def test_a_stream_that_the_client_closes_is_cancelled_upstream(
    client: Any, running: Running, upstream: Provider
) -> None:
    parts = [chunk({"content": f"w{n} "}) for n in range(200)]
    upstream.script = lambda _seen: stream(events(*parts), gap=0.05)
    made = client.chat.completions.create(model="m", messages=HELLO, stream=True)
    next(iter(made))
    made.close()
    (record,) = eventually(lambda: interactions(running.home))
    assert record.terminal is Terminal.CLIENT_CANCELLED
    eventually(lambda: upstream.gone == 1)


def test_structured_output_passes(client: Any, upstream: Provider, running: Running) -> None:
    upstream.script = lambda _seen: whole(completion('{"city": "Paris"}'))
    schema = {"name": "place", "schema": {"type": "object", "properties": {"city": {"type": "string"}}}}
    form: Any = {"type": "json_schema", "json_schema": schema}
    made = client.chat.completions.create(model="m", messages=HELLO, response_format=form)
    assert json.loads(made.choices[0].message.content) == {"city": "Paris"}
    assert upstream.seen[0].json["response_format"] == form
    assert interactions(running.home)[0].response == '{"city": "Paris"}'
