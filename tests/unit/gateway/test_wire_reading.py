"""What the gateway reads of bodies and streams, and what it may change in them."""

import json
import random
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prx.domain.ids import Ids
from prx.domain.prices import Prices
from prx.domain.records import Interaction, Message
from prx.domain.serving import Serving
from prx.gateway.answers import stream_answer
from prx.gateway.shapes import wire_messages, wire_tokens
from prx.gateway.sse import Event, EventReader
from prx.gateway.views import Kind, inflated, read_body, system_text, with_system_text, with_usage
from prx.gateway.wire import sent_back, sent_on
from prx.live.intent import classify
from prx.live.runtime import Runtime
from prx.live.session import Scope, Session
from prx.live.shapes import messages_of, tokens_of

JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
LINES = st.lists(
    st.tuples(st.sampled_from(["data", "event", "id", ""]), st.text("ab€😀:{}[] ", max_size=12)),
    min_size=1,
    max_size=4,
)


@given(st.lists(LINES, min_size=1, max_size=5), st.sampled_from(["\n", "\r\n", "\r"]), st.integers(0, 2**32))
def test_events_are_the_same_however_the_stream_is_cut(
    events: list[list[tuple[str, str]]], end: str, seed: int
) -> None:
    body = b"".join(
        b"".join(f"{name}: {text}{end}".encode() for name, text in lines) + end.encode() for lines in events
    )
    expected = [
        "\n".join(text for name, text in lines if name == "data").encode()
        if any(name == "data" for name, _ in lines)
        else None
        for lines in events
    ]
    rng, reader, found, at = random.Random(seed), EventReader(), [], 0
    while at < len(body):
        step = rng.randint(1, 9)
        found += reader.feed(body[at : at + step])
        at += step
    found += reader.close()
    assert b"".join(event.raw for event in found) == body
    assert [event.data for event in found] == expected


def test_what_other_readers_take_for_json_is_read_and_what_they_do_not_is_not() -> None:
    body = read_body(b'{"model":"m","user":"cut \\ud83d","tools":[{"a":NaN}],"odd":Infinity}')
    assert (body.model, body.user, body.has_tools) == ("m", "cut \ud83d", True)
    for wrong in (b'{"model":"\xed\xa0\x80"}', b"[NaN]", b'{"a":1,}', b"{'a':1}", b'{"a":"\x01"}', b"NaN"):
        with pytest.raises((msgspec.DecodeError, UnicodeDecodeError)):
            read_body(wrong)


def test_an_event_without_an_end_is_given_in_pieces_and_not_kept() -> None:
    reader, piece = EventReader(), b"x" * 1_000_000
    passed = b"".join(event.raw for _ in range(20) for event in reader.feed(piece))
    assert len(reader.rest) <= 8 * 1024 * 1024
    assert len(passed) + len(reader.rest) == 20_000_000


@given(st.dictionaries(st.text(max_size=8), JSON, max_size=4), JSON)
def test_asking_for_usage_changes_nothing_else(fields: dict[str, Any], options: Any) -> None:
    fields |= {"stream": True, "model": "m"}
    if isinstance(options, dict):
        fields["stream_options"] = options
    body = json.dumps(fields).encode() + b" \n"
    changed = json.loads(with_usage(body, read_body(body)))
    own = options if isinstance(options, dict) else {}
    assert changed == fields | {"stream_options": own | {"include_usage": True}}


def test_without_stream_options_every_byte_before_the_end_stays() -> None:
    body = b'{ "model" : "m",\t"stream":true, "n": 1.0e0 }\n'
    assert with_usage(body, read_body(body)).startswith(b'{ "model" : "m",\t"stream":true, "n": 1.0e0 ')


@given(st.text(min_size=1, max_size=30), st.text(max_size=30), JSON, st.booleans(), st.booleans())
def test_only_the_system_prompt_is_exchanged(
    old: str, new: str, other: Any, ascii_only: bool, repeated: bool
) -> None:
    user = old if repeated else "hi"
    said = [{"role": "user", "content": user}, {"role": "system", "content": old}]
    body = {"model": other, "messages": said}
    raw = json.dumps(body, ensure_ascii=ascii_only).encode()
    view = read_body(raw)
    found = system_text(view)
    assert found is not None
    assert found.text == old
    said[1] = {"role": "system", "content": new}
    assert json.loads(with_system_text(raw, view, found, new)) == body


def test_where_the_prompt_stands_once_every_other_byte_stays() -> None:
    raw = b'{ "messages": [ {"content":  "Be kind." ,"role":"system"} ], "n": 1.50 }'
    view = read_body(raw)
    found = system_text(view)
    assert found is not None
    assert with_system_text(raw, view, found, "Be brief.") == raw.replace(b"kind", b"brief")


@pytest.mark.parametrize(
    "body",
    [
        {"messages": [{"role": "user", "content": "x"}]},
        {"messages": [{"role": "system", "content": ""}]},
        {"messages": [{"role": "system", "content": [{"type": "text", "text": "a"}, {"type": "text"}]}]},
        {"messages": [{"role": "system", "content": [{"type": "image_url"}]}]},
        {"messages": "x", "instructions": "y"},
        {"input": 5},
    ],
)
def test_a_request_without_one_system_text_has_none(body: dict[str, Any]) -> None:
    assert system_text(read_body(json.dumps(body).encode())) is None


MESSAGE = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "tool", "system"]) | JSON, "content": st.text() | JSON},
    optional={
        "name": JSON,
        "tool_call_id": JSON,
        "type": st.sampled_from(["message", "function_call"]) | JSON,
    },
)


@given(st.lists(MESSAGE | JSON, max_size=4) | JSON)
def test_messages_are_read_as_the_sdk_reads_them(said: Any) -> None:
    def read(reader: Any) -> tuple[Message, ...] | str:
        try:
            found: tuple[Message, ...] = reader(said)
        except Exception as error:  # noqa: BLE001
            return type(error).__name__
        return found

    assert read(wire_messages) == read(messages_of)


COUNT = st.none() | st.integers(-2, 10**6) | st.text(max_size=2) | st.booleans()
USAGE = st.dictionaries(
    st.sampled_from(
        ["prompt_tokens", "completion_tokens", "input_tokens", "output_tokens", "cache_read_input_tokens"]
    ),
    COUNT,
)
DETAILS = st.none() | st.dictionaries(
    st.sampled_from(["cached_tokens", "reasoning_tokens", "cache_write_tokens"]), COUNT
)


@given(USAGE, DETAILS, DETAILS)
def test_usage_is_read_as_the_sdk_reads_it(usage: dict[str, Any], into: Any, out: Any) -> None:
    usage |= {"prompt_tokens_details": into, "completion_tokens_details": out}
    assert wire_tokens(usage) == tokens_of(usage)


def test_a_compressed_bomb_is_not_unpacked() -> None:
    import gzip

    bomb = gzip.compress(b"0" * 50_000_000)
    assert inflated(bomb, "gzip", 1_000_000) is None
    assert inflated(gzip.compress(b"{}"), "gzip", 10) == b"{}"
    assert inflated(b"no gzip", "gzip", 10) is None
    assert inflated(b"{}", "br", 10) is None


@pytest.mark.parametrize(
    "name",
    ["connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "proxy-authorization"],
)
def test_hop_by_hop_headers_pass_in_neither_direction(name: str) -> None:
    given_headers = [
        (name.encode(), b"x"),
        (b"kept", b"1"),
        (b"connection", b"close, named"),
        (b"named", b"2"),
    ]
    assert dict(sent_on(given_headers, streaming=False, authorization=None)) == {
        b"kept": b"1",
        b"accept-encoding": b"identity",
    }
    assert sent_back(given_headers, length=True) == [(b"kept", b"1")]


def test_a_body_view_never_fails_on_a_json_object() -> None:
    for value in (None, 1, "x", [], {}, [[1]], {"a": None}):
        fields = ("model", "messages", "input", "stream", "user", "metadata", "tools", "stream_options")
        view = read_body(msgspec.json.encode(dict.fromkeys(fields, value)))
        assert (view.streaming, view.wants_usage) in ((False, False), (True, False))
        assert view.user_named in (None, "x")
        list(view.said)


FRAGMENTS = st.lists(
    st.tuples(st.sampled_from(["look", "book"]), st.dictionaries(st.text(max_size=5), JSON, max_size=3)),
    min_size=1,
    max_size=3,
)


def told_of(chunks: list[dict[str, Any]]) -> Interaction:
    """What is recorded of a stream of these chunks."""
    records: list[Any] = []
    rng, now = random.Random(0), datetime(2026, 12, 1, tzinfo=UTC)
    runtime = Runtime(
        lambda _a: Serving(), records.append, Ids(rng), lambda: now, lambda: 0.0, Prices(), classify
    )
    call = Session(runtime, Scope(session_id="s")).call(model="m")
    stream = stream_answer(Kind.CHAT, hide_usage=False)
    for one in chunks:
        stream.take(Event(b"", json.dumps(one).encode()))
    stream.tell(call)
    call.finish()
    return next(r for r in records if isinstance(r, Interaction))


def chunk_of(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


@given(FRAGMENTS, st.randoms(use_true_random=False), st.booleans())
def test_tool_arguments_are_put_together_wherever_they_were_cut_and_mixed(
    calls: list[tuple[str, dict[str, Any]]], rng: random.Random, cut_short: bool
) -> None:
    pending, expected = [], []
    for index, (name, given_arguments) in enumerate(calls):
        text = json.dumps(given_arguments, ensure_ascii=rng.random() < 0.5)
        if cut_short and index == 0:
            text = text[:-1]
        cuts = sorted(rng.randrange(len(text) + 1) for _ in range(rng.randrange(6)))
        parts = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        opened = {"index": index, "id": f"call_{index}", "function": {"name": name, "arguments": parts[0]}}
        pending.append([opened, *({"index": index, "function": {"arguments": p}} for p in parts[1:])])
        expected.append((name, text, f"call_{index}"))
    chunks = []
    while any(pending):
        chunks.append(chunk_of(tool_calls=[rng.choice([one for one in pending if one]).pop(0)]))
    record = told_of([*chunks, chunk_of("tool_calls")])
    found = [(c.name, c.arguments, c.call_id) for c in record.tool_calls]
    assert found == expected
    assert record.extra.get("broken_arguments", 0) == int(cut_short)


def test_the_text_for_a_custom_tool_is_put_together_and_need_not_be_json() -> None:
    first = {"index": 0, "id": "call_1", "type": "custom", "custom": {"name": "run", "input": "SELECT "}}
    more = {"index": 0, "custom": {"input": "1 {"}}
    record = told_of([chunk_of(tool_calls=[one]) for one in (first, more)] + [chunk_of("tool_calls")])
    assert [(c.name, c.arguments) for c in record.tool_calls] == [("run", "SELECT 1 {")]
    assert "broken_arguments" not in record.extra
