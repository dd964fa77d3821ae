import asyncio
import random
import sys
import threading
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

openai = pytest.importorskip("openai")

from chat_server import Answer, ChatServer, chat_server, chunk, completion, response  # noqa: E402

from prx.domain.ids import Ids  # noqa: E402
from prx.domain.prices import Price, Prices  # noqa: E402
from prx.domain.records import (  # noqa: E402
    Interaction,
    Record,
    SessionEnd,
    SessionStart,
    Terminal,
    Tokens,
    ToolCall,
    UnitSource,
)
from prx.domain.serving import Serving  # noqa: E402
from prx.live.evolution import Evolution  # noqa: E402
from prx.live.wrap import wrap  # noqa: E402
from prx.spool.ship import ship  # noqa: E402
from prx.spool.writer import SpoolWriter  # noqa: E402

NOW = datetime(2026, 12, 1, tzinfo=UTC)
HELLO = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi there"}]
LOOK_UP = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "look_up", "arguments": '{"card": 7}'},
}
TOOLS = [{"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}}]
PRICES = Prices({"local/gpt-4o": Price(2.5, 10.0, 1.25)})


class Recorded:
    """An Evolution whose records land in a list; a clock that ticks a millisecond at every reading."""

    def __init__(self) -> None:
        self.all: list[Record] = []
        ticks = count()
        self.evolution = Evolution(
            lambda agent: Serving(agent=agent),
            self.all.append,
            ids=Ids(random.Random(1)),
            now=lambda: NOW,
            clock=lambda: next(ticks) / 1000,
            prices=PRICES,
        )

    def of(self, kind: type) -> list[Any]:
        return [r for r in self.all if isinstance(r, kind)]

    def only_call(self) -> Interaction:
        [call] = self.of(Interaction)
        assert self.evolution.faults == {}
        return call


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with chat_server() as running:
        yield running


@pytest.fixture
def recorded() -> Recorded:
    return Recorded()


@pytest.fixture
def plain(server: ChatServer) -> Iterator[Any]:
    with openai.OpenAI(base_url=server.url, api_key="k", max_retries=2, timeout=15) as client:
        yield client


def test_a_call_in_a_session_leaves_one_record_with_its_numbers_and_the_answer_is_the_same(
    server: ChatServer, plain: Any, recorded: Recorded
) -> None:
    client = wrap(plain, recorded.evolution)
    with recorded.evolution.session(user="u-1") as session:
        answer = client.chat.completions.create(model="gpt-4o", messages=HELLO)
    assert answer == plain.chat.completions.create(model="gpt-4o", messages=HELLO)
    assert server.requests[0] == server.requests[1]
    call = recorded.only_call()
    assert [type(r) for r in recorded.all] == [SessionStart, Interaction, SessionEnd]
    assert call.session_id == session.id
    assert [(m.role, m.content) for m in call.messages] == [("system", "Be kind."), ("user", "Hi there")]
    assert (call.response, call.terminal, call.model) == (
        "Hello!",
        Terminal.COMPLETED,
        "gpt-4o-2024-08-06",
    )
    assert call.tokens == Tokens(input=100, output=20, cache_read=40, reasoning=8)
    # 60 fresh tokens at 2.50, 40 cached at 1.25, 20 out at 10.00, each per million.
    assert call.cost_usd == pytest.approx((60 * 2.5 + 40 * 1.25 + 20 * 10) / 1e6)
    assert call.latency_ms == pytest.approx(1.0)
    assert (call.provider, call.intent, call.ttft_ms) == ("local", "conversation", None)
    assert call.extra == {"finish_reason": "stop", "attempts": 1}


def test_a_call_outside_any_session_gets_one_of_its_own_that_is_not_eligible(
    plain: Any, recorded: Recorded
) -> None:
    wrap(plain, recorded.evolution, agent="bank").chat.completions.create(model="gpt-4o", messages=HELLO)
    [start] = recorded.of(SessionStart)
    assert (start.agent, start.unit, start.unit_source) == ("bank", None, UnitSource.NONE)
    assert recorded.only_call().session_id == start.session_id
    assert len(recorded.of(SessionEnd)) == 1


def test_tool_calls_and_tool_results_are_recorded(server: ChatServer, plain: Any, recorded: Recorded) -> None:
    client = wrap(plain, recorded.evolution)
    server.script = [Answer(completion(None, tool_calls=[LOOK_UP])), Answer()]
    with recorded.evolution.session():
        first = client.chat.completions.create(model="gpt-4o", messages=HELLO, tools=TOOLS)
        result = {"role": "tool", "tool_call_id": "call_1", "content": "active"}
        more = [*HELLO, first.choices[0].message, result]
        client.chat.completions.create(model="gpt-4o", messages=more, tools=TOOLS)
    asked, answered = recorded.of(Interaction)
    assert asked.tool_calls == (ToolCall(name="look_up", call_id="call_1", arguments='{"card": 7}'),)
    assert asked.response is None
    assert (answered.messages[-1].tool_call_id, answered.messages[-1].content) == ("call_1", "active")
    assert [m.role for m in answered.messages] == ["system", "user", "assistant", "tool"]
    assert answered.intent == "tool"


def test_retries_of_the_client_stay_one_record_that_counts_them(
    server: ChatServer, plain: Any, recorded: Recorded
) -> None:
    limited = Answer({"error": {"message": "slow down"}}, 429, {"retry-after-ms": "1"})
    server.script = [limited, limited, Answer()]
    answer = wrap(plain, recorded.evolution).chat.completions.create(model="gpt-4o", messages=HELLO)
    assert answer.choices[0].message.content == "Hello!"
    call = recorded.only_call()
    assert (call.terminal, call.extra["attempts"], len(server.requests)) == (Terminal.COMPLETED, 3, 3)


@pytest.mark.parametrize(
    ("status", "external"), [(429, True), (500, True), (503, True), (401, True), (400, False), (422, False)]
)
def test_a_refused_call_raises_what_the_client_raises_and_is_recorded_with_its_status(
    server: ChatServer, plain: Any, recorded: Recorded, status: int, external: bool
) -> None:
    server.script = [Answer({"error": {"message": "no"}}, status, {"retry-after-ms": "1"})]
    client = wrap(plain, recorded.evolution).with_options(max_retries=1)
    with pytest.raises(openai.APIStatusError) as caught:
        client.chat.completions.create(model="gpt-4o", messages=HELLO)
    assert caught.value.status_code == status
    call = recorded.only_call()
    assert (call.terminal, call.external_failure, call.extra["status"]) == (
        Terminal.UPSTREAM_ERROR,
        external,
        status,
    )
    assert call.error is not None
    assert call.error.startswith(type(caught.value).__name__)
    assert call.extra["attempts"] == len(server.requests) == (2 if status in (429, 500, 503) else 1)
    assert (call.response, call.cost_usd) == (None, None)


def test_a_timeout_is_an_external_failure(server: ChatServer, plain: Any, recorded: Recorded) -> None:
    hold = threading.Event()
    server.script = [Answer(hold=hold)]
    client = wrap(plain, recorded.evolution).with_options(timeout=0.05, max_retries=0)
    with pytest.raises(openai.APITimeoutError):
        client.chat.completions.create(model="gpt-4o", messages=HELLO)
    hold.set()
    call = recorded.only_call()
    assert (call.terminal, call.external_failure) == (Terminal.UPSTREAM_ERROR, True)
    assert (call.error or "").startswith("APITimeoutError")


def test_a_server_that_is_not_there_is_an_external_failure(recorded: Recorded) -> None:
    with openai.OpenAI(base_url="http://127.0.0.1:9/v1", api_key="k", max_retries=0) as plain:
        client = wrap(plain, recorded.evolution)
        with pytest.raises(openai.APIConnectionError):
            client.chat.completions.create(model="gpt-4o", messages=HELLO)
    assert recorded.only_call().external_failure


def test_an_asynchronous_client_is_recorded_the_same_and_side_by_side(
    server: ChatServer, recorded: Recorded
) -> None:
    async def ask(client: Any, user: str) -> tuple[str, Any]:
        async with recorded.evolution.session(user=user) as session:
            return session.id, await client.chat.completions.create(model="gpt-4o", messages=HELLO)

    async def main() -> list[tuple[str, Any]]:
        async with openai.AsyncOpenAI(base_url=server.url, api_key="k") as plain:
            client = wrap(plain, recorded.evolution)
            return await asyncio.gather(*(ask(client, f"u-{n}") for n in range(8)))

    answers = asyncio.run(main())
    calls = recorded.of(Interaction)
    assert sorted(c.session_id for c in calls) == sorted(session_id for session_id, _ in answers)
    assert {c.tokens.output for c in calls} == {20}
    assert all(isinstance(a, openai.types.chat.ChatCompletion) for _, a in answers)
    assert recorded.evolution.faults == {}


def test_a_cancelled_task_leaves_one_record_that_says_so(server: ChatServer, recorded: Recorded) -> None:
    hold = threading.Event()
    server.script = [Answer(hold=hold)]

    async def main() -> None:
        async with openai.AsyncOpenAI(base_url=server.url, api_key="k", max_retries=0) as plain:
            client = wrap(plain, recorded.evolution)
            task = asyncio.create_task(client.chat.completions.create(model="gpt-4o", messages=HELLO))
            await asyncio.to_thread(server.arrived.wait, 10)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(main())
    hold.set()
    call = recorded.only_call()
    assert (call.terminal, call.external_failure) == (Terminal.CLIENT_CANCELLED, True)


STREAM: list[dict[str, Any] | str] = [
    chunk({"role": "assistant", "content": ""}),
    chunk({"content": "Hel"}),
    chunk({"content": "lo!"}),
    chunk({}, "stop"),
    {**chunk({}), "choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}},
    "[DONE]",
]


def test_a_stream_passes_every_chunk_and_is_recorded_at_its_end(
    server: ChatServer, plain: Any, recorded: Recorded
) -> None:
    server.script = [Answer(events=STREAM)]
    client = wrap(plain, recorded.evolution)
    with recorded.evolution.session():
        stream = client.chat.completions.create(model="gpt-4o", messages=HELLO, stream=True)
        assert recorded.of(Interaction) == []
        chunks = list(stream)
    assert isinstance(stream, openai.Stream)
    assert chunks == list(plain.chat.completions.create(model="gpt-4o", messages=HELLO, stream=True))
    call = recorded.only_call()
    assert (call.response, call.terminal, call.streamed) == ("Hello!", Terminal.COMPLETED, True)
    assert call.tokens == Tokens(input=9, output=2)
    assert call.ttft_ms is not None
    assert call.latency_ms is not None
    assert 0 < call.ttft_ms < call.latency_ms


def test_tool_calls_of_a_stream_are_put_together(server: ChatServer, plain: Any, recorded: Recorded) -> None:
    def fragment(**function: str) -> dict[str, Any]:
        start = {"id": "call_1", "type": "function"} if "name" in function else {}
        return chunk({"tool_calls": [{"index": 0, "function": function, **start}]})

    server.script = [
        Answer(
            events=[
                fragment(name="look_up", arguments=""),
                fragment(arguments='{"ca'),
                fragment(arguments='rd": 7}'),
                chunk({}, "tool_calls"),
                "[DONE]",
            ]
        )
    ]
    list(wrap(plain, recorded.evolution).chat.completions.create(model="m", messages=HELLO, stream=True))
    assert recorded.only_call().tool_calls == (
        ToolCall(name="look_up", call_id="call_1", arguments='{"card": 7}'),
    )


def test_a_stream_that_breaks_off_is_never_recorded_as_complete(
    server: ChatServer, plain: Any, recorded: Recorded
) -> None:
    server.script = [Answer(events=STREAM[:2])]
    list(wrap(plain, recorded.evolution).chat.completions.create(model="m", messages=HELLO, stream=True))
    call = recorded.only_call()
    assert (call.terminal, call.response, call.external_failure) == (Terminal.UPSTREAM_ERROR, "Hel", True)


def test_an_error_in_a_stream_is_raised_and_recorded(
    server: ChatServer, plain: Any, recorded: Recorded
) -> None:
    server.script = [Answer(events=[*STREAM[:2], {"error": {"message": "overloaded"}}])]
    stream = wrap(plain, recorded.evolution).chat.completions.create(model="m", messages=HELLO, stream=True)
    with pytest.raises(openai.APIError, match="overloaded"):
        list(stream)
    call = recorded.only_call()
    assert (call.terminal, call.response) == (Terminal.UPSTREAM_ERROR, "Hel")


def test_a_stream_that_the_app_leaves_is_recorded_as_cancelled(
    server: ChatServer, plain: Any, recorded: Recorded
) -> None:
    server.script = [Answer(events=STREAM)]
    client = wrap(plain, recorded.evolution)
    with client.chat.completions.create(model="m", messages=HELLO, stream=True) as stream:
        next(stream)
        next(stream)
    call = recorded.only_call()
    assert (call.terminal, call.response) == (Terminal.CLIENT_CANCELLED, "Hel")


def test_a_stream_nobody_reads_is_recorded_when_the_app_shuts_down(
    server: ChatServer, plain: Any, recorded: Recorded
) -> None:
    server.script = [Answer(events=STREAM)]
    stream = wrap(plain, recorded.evolution).chat.completions.create(model="m", messages=HELLO, stream=True)
    recorded.evolution.close()
    stream.close()
    assert recorded.only_call().terminal is Terminal.SHUTDOWN_CUT


def test_an_asynchronous_stream_is_recorded_at_its_end(server: ChatServer, recorded: Recorded) -> None:
    server.script = [Answer(events=STREAM)]

    async def main() -> list[Any]:
        async with openai.AsyncOpenAI(base_url=server.url, api_key="k") as plain:
            stream = await wrap(plain, recorded.evolution).chat.completions.create(
                model="m", messages=HELLO, stream=True
            )
            return [c async for c in stream]

    assert len(asyncio.run(main())) == 5
    assert recorded.only_call().response == "Hello!"


def test_the_stream_helper_of_the_client_is_recorded_once(
    server: ChatServer, plain: Any, recorded: Recorded
) -> None:
    server.script = [Answer(events=STREAM)]
    client = wrap(plain, recorded.evolution)
    with client.chat.completions.stream(model="gpt-4o", messages=HELLO) as stream:
        kinds = [event.type for event in stream]
    assert "content.done" in kinds
    assert recorded.only_call().response == "Hello!"


def test_raw_responses_are_recorded_and_stay_raw(server: ChatServer, plain: Any, recorded: Recorded) -> None:
    raw = wrap(plain, recorded.evolution).chat.completions.with_raw_response.create(
        model="gpt-4o", messages=HELLO
    )
    assert raw.http_response.status_code == 200
    assert raw.parse() == plain.chat.completions.create(model="gpt-4o", messages=HELLO)
    assert recorded.only_call().tokens.input == 100


def test_a_body_that_the_app_reads_itself_is_left_to_it(
    server: ChatServer, plain: Any, recorded: Recorded
) -> None:
    client = wrap(plain, recorded.evolution)
    with client.chat.completions.with_streaming_response.create(model="gpt-4o", messages=HELLO) as raw:
        lines = list(raw.iter_lines())
    assert "Hello!" in "".join(lines)
    call = recorded.only_call()
    assert (call.terminal, call.response, call.extra["body"]) == (Terminal.COMPLETED, None, "not read")


def test_structured_output_is_parsed_and_recorded_once(
    server: ChatServer, plain: Any, recorded: Recorded
) -> None:
    from pydantic import BaseModel

    class City(BaseModel):
        name: str

    server.script = [Answer(completion('{"name": "Oslo"}'))]
    parsed = wrap(plain, recorded.evolution).chat.completions.parse(
        model="gpt-4o", messages=HELLO, response_format=City
    )
    assert parsed.choices[0].message.parsed == City(name="Oslo")
    assert recorded.only_call().response == '{"name": "Oslo"}'


def test_the_responses_endpoint_is_recorded(server: ChatServer, plain: Any, recorded: Recorded) -> None:
    server.script = [Answer(response("Hi."))]
    client = wrap(plain, recorded.evolution)
    answer = client.responses.create(model="gpt-4o", instructions="Be kind.", input="Hello")
    assert answer == plain.responses.create(model="gpt-4o", instructions="Be kind.", input="Hello")
    call = recorded.only_call()
    assert [(m.role, m.content) for m in call.messages] == [("system", "Be kind."), ("user", "Hello")]
    assert (call.response, call.tool_calls) == (
        "Hi.",
        (ToolCall(name="look_up", call_id="call_9", arguments='{"q":"x"}'),),
    )
    assert call.tokens == Tokens(input=50, output=10, cache_read=5, cache_write=0, reasoning=3)


def test_messages_given_as_an_iterator_reach_the_server_and_the_record(
    server: ChatServer, plain: Any, recorded: Recorded
) -> None:
    wrap(plain, recorded.evolution).chat.completions.create(model="gpt-4o", messages=iter(HELLO))
    assert server.requests[0]["messages"] == HELLO
    assert len(recorded.only_call().messages) == 2


def test_wrapping_changes_neither_the_given_client_nor_the_kind_and_twice_is_once(
    server: ChatServer, plain: Any, recorded: Recorded
) -> None:
    client = wrap(plain, recorded.evolution)
    assert isinstance(client, openai.OpenAI)
    assert wrap(client, recorded.evolution) is client
    plain.chat.completions.create(model="gpt-4o", messages=HELLO)
    assert recorded.all == []
    client.with_options(timeout=3).copy().chat.completions.create(model="gpt-4o", messages=HELLO)
    assert recorded.only_call().response == "Hello!"


class Nested:
    """A client whose `parse` calls its own `create`, as some releases do."""

    base_url = "http://localhost/v1"

    def __init__(self) -> None:
        self.chat = self.completions = self

    def copy(self) -> "Nested":
        return Nested()

    with_options = copy

    def create(self, **request: Any) -> dict[str, Any]:
        return completion() | {"model": request["model"]}

    def parse(self, **request: Any) -> dict[str, Any]:
        return self.create(**request)


def test_a_method_that_calls_another_recorded_one_leaves_one_record(recorded: Recorded) -> None:
    client = wrap(Nested(), recorded.evolution)
    assert client.chat.completions.parse(model="m", messages=HELLO)["model"] == "m"
    assert recorded.only_call().response == "Hello!"


def test_something_that_is_no_client_comes_back_as_it_is(recorded: Recorded) -> None:
    thing = object()
    assert wrap(thing, recorded.evolution) is thing


def test_what_reaches_the_store_through_the_spool_holds_the_call_once_and_no_file_holds_its_secret(
    server: ChatServer, plain: Any, tmp_path: Path
) -> None:
    secret = "sk-proj-abcDEF0123456789abcDEF0123456789"
    spool = SpoolWriter(tmp_path, now=lambda: NOW)
    evolution = Evolution(
        lambda agent: Serving(agent=agent),
        lambda record: spool.append([record]),
        flush=lambda _: spool.sync() is None,
        on_close=spool.close,
    )
    with evolution.session(user="u-1"):
        wrap(plain, evolution).chat.completions.create(
            model="gpt-4o", messages=[{"role": "user", "content": f"my key is {secret}"}]
        )
    assert evolution.close()
    kept: dict[str, Record] = {}

    def store(records: Sequence[Record]) -> int:
        kept.update({r.record_id: r for r in records})
        return len(records)

    shipped = ship(tmp_path, store, now=NOW)
    assert (shipped.records, shipped.finished, shipped.damaged) == (3, 1, ())
    [call] = [r for r in kept.values() if isinstance(r, Interaction)]
    assert call.messages[0].content == "my key is [redacted:provider-key]"
    assert call.tokens == Tokens(input=100, output=20, cache_read=40, reasoning=8)
    files = [path for path in tmp_path.iterdir() if path.is_file()]
    assert len(files) >= 3
    assert not [path for path in files if secret.encode() in path.read_bytes()]
    assert secret in server.requests[0]["messages"][0]["content"]


def test_a_broken_recorder_never_reaches_the_app(server: ChatServer, plain: Any) -> None:
    def broken(record: Record) -> None:
        raise OSError("disk gone")

    def no_serving(agent: str) -> Serving:
        raise RuntimeError("no store")

    evolution = Evolution(no_serving, broken)
    client = wrap(plain, evolution)
    with evolution.session() as session:
        assert session.prompt("support", default="Be {tone}.", tone="kind") == "Be kind."
        answer = client.chat.completions.create(model="gpt-4o", messages=HELLO)
    assert answer.choices[0].message.content == "Hello!"
    assert evolution.faults["recording"] == 4
    assert evolution.faults["serving"] == 2
    evolution.close()
