"""Requests through a real gateway to a scripted provider."""

import gzip
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import urllib3
from chat_server import USAGE, chunk, completion
from gateway_house import (
    Provider,
    Reply,
    Running,
    Seen,
    events,
    gateway,
    interactions,
    stream,
    whole,
)

from prx.domain.records import Terminal

POOL = urllib3.PoolManager(retries=False)
CHAT = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Where is my parcel?"}]}


def post(url: str, body: object, **headers: str) -> urllib3.BaseHTTPResponse:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    given = {"Content-Type": "application/json"} | {k.replace("_", "-"): v for k, v in headers.items()}
    return POOL.request("POST", url, body=data, headers=given)


def test_a_plain_answer_passes_byte_for_byte_and_is_recorded(running: Running, upstream: Provider) -> None:
    raw = b'{ "model":"gpt-4o",\t"messages":[{"role":"user","content":"caf\\u00e9 1.0"}],"odd":1.50e2 }'
    answer = post(f"{running.url}/chat/completions", raw)
    assert upstream.seen[0].body == raw
    assert json.loads(answer.data) == completion()
    (record,) = interactions(running.home)
    assert record.response == "Hello!"
    assert record.terminal is Terminal.COMPLETED
    assert answer.headers["x-prx-record"] == record.record_id
    assert (record.tokens.input, record.tokens.cache_read, record.tokens.reasoning) == (100, 40, 8)
    assert record.messages[0].content == "café 1.0"
    assert (record.source, record.provider, record.cost_usd) == ("gateway", "local", 0.0)


def test_a_stream_asks_for_usage_on_its_own_and_keeps_the_extra_chunk_to_itself(
    running: Running, upstream: Provider
) -> None:
    parts = [chunk({"role": "assistant", "content": "Hel"}), chunk({"content": "lo"}), chunk({}, "stop")]
    extra = {"id": "c", "object": "chat.completion.chunk", "model": "gpt-4o", "choices": [], "usage": USAGE}
    upstream.script = lambda _seen: stream(events(*parts, extra))
    answer = post(f"{running.url}/chat/completions", CHAT | {"stream": True})
    assert upstream.seen[0].json["stream_options"] == {"include_usage": True}
    assert answer.data == b"".join(events(*parts))
    (record,) = interactions(running.home)
    assert (record.response, record.tokens.output, record.streamed) == ("Hello", 20, True)
    assert record.ttft_ms is not None
    assert record.latency_ms is not None


def test_a_client_that_asks_for_usage_itself_gets_every_byte(running: Running, upstream: Provider) -> None:
    extra = {"choices": [], "usage": USAGE}
    sent = events(chunk({"content": "Hi"}), chunk({}, "stop"), extra)
    upstream.script = lambda _seen: stream(sent)
    raw = json.dumps(CHAT | {"stream": True, "stream_options": {"include_usage": True}}).encode()
    assert post(f"{running.url}/chat/completions", raw).data == b"".join(sent)
    assert upstream.seen[0].body == raw


def test_a_provider_without_stream_options_is_asked_again_as_the_client_did(
    running: Running, upstream: Provider
) -> None:
    def script(seen: Seen) -> Reply:
        if "stream_options" in seen.json:
            return whole({"error": {"message": "unknown field stream_options"}}, status=400)
        return stream(events(chunk({"content": "Hi"}), chunk({}, "stop")))

    upstream.script = script
    for _ in range(2):
        assert post(f"{running.url}/chat/completions", CHAT | {"stream": True}).status == 200
    assert len(upstream.seen) == 3
    assert [record.response for record in interactions(running.home)] == ["Hi", "Hi"]


@pytest.mark.parametrize(
    ("status", "external"), [(401, True), (429, True), (500, True), (503, True), (400, False), (404, False)]
)
def test_an_upstream_refusal_passes_as_it_is_and_is_recorded_once(
    running: Running, upstream: Provider, status: int, external: bool
) -> None:
    body = {"error": {"message": "no", "type": "t", "param": None, "code": None}}
    upstream.script = lambda _seen: whole(body, status=status)
    answer = post(f"{running.url}/chat/completions", CHAT)
    assert (answer.status, json.loads(answer.data)) == (status, body)
    (record,) = interactions(running.home)
    assert record.terminal is Terminal.UPSTREAM_ERROR
    assert record.external_failure is external
    assert record.error == f"HTTP {status}: no"


def test_an_upstream_that_is_down_gives_the_openai_error_shape(tmp_path: Path) -> None:
    with gateway(tmp_path, "http://127.0.0.1:9/v1") as running:
        answer = post(f"{running.url}/chat/completions", CHAT)
        assert answer.status == 502
        error = json.loads(answer.data)["error"]
        assert set(error) == {"message", "type", "param", "code"}
        assert error["code"] == "upstream_unreachable"
        (record,) = interactions(tmp_path)
        assert record.terminal is Terminal.UPSTREAM_ERROR
        assert record.external_failure


@pytest.mark.parametrize("system", [b"Be kind.", b"cut \\ud83d"])
@pytest.mark.parametrize("options", [b"", b',"stream_options":{"x":"\\ud83d"}'])
def test_half_of_a_character_that_a_client_cut_passes_and_is_recorded(
    running: Running, upstream: Provider, options: bytes, system: bytes
) -> None:
    raw = b'{"model":"m","stream":true,"messages":[{"role":"system","content":"%s"},' % system
    raw += b'{"role":"user","content":"hi \\ud83d"}],"top_p":NaN%s}' % options
    line = b'data: {"choices":[{"index":0,"delta":{"content":"so \\ud83d"},"finish_reason":"stop"}]}\n\n'
    upstream.script = lambda _seen: stream([line, b"data: [DONE]\n\n"])
    answer = post(f"{running.url}/chat/completions", raw)
    assert (answer.status, answer.data) == (200, line + b"data: [DONE]\n\n")
    sent = upstream.seen[0].body
    asked = raw[:-1] + b',"stream_options":{"include_usage":true}}'
    assert sent == (raw if options else asked)
    (record,) = interactions(running.home)
    assert [m.content[:3] for m in record.messages[1:]] == ["hi "]
    assert (record.response or "").startswith("so ")
    assert record.terminal is Terminal.COMPLETED


@pytest.mark.parametrize("body", [b"", b"{", b"[1]", b'"x"', b"\xff\xfe", b"[" * 100_000])
def test_a_body_that_is_no_json_object_is_refused_and_recorded_once(
    running: Running, upstream: Provider, body: bytes
) -> None:
    answer = post(f"{running.url}/chat/completions", body)
    assert answer.status == 400
    assert json.loads(answer.data)["error"]["type"] == "invalid_request_error"
    (record,) = interactions(running.home)
    assert record.record_id == answer.headers["x-prx-record"]
    assert not upstream.seen


@pytest.mark.parametrize(
    "odd",
    [
        {"messages": "hello"},
        {"messages": [1, None, "x", {"role": 3, "content": {"a": 1}}]},
        {"model": 7, "messages": None, "stream": "yes", "user": 5, "metadata": [], "tools": "no"},
        {"messages": [{"role": "assistant", "tool_calls": [None, {"id": 4}], "content": [None, 3]}]},
        {"previous_response_id": {}, "input": 4, "instructions": [], "stream_options": 3},
    ],
)
def test_fields_of_wrong_types_pass_to_the_provider_and_are_recorded_once(
    running: Running, upstream: Provider, odd: dict[str, object]
) -> None:
    assert post(f"{running.url}/chat/completions", odd).status == 200
    assert upstream.seen[0].json == odd
    assert len(interactions(running.home)) == 1


@pytest.mark.parametrize(
    "odd", [b"", b"null", b"[]", b"{", b'{"choices":[]}', b'{"choices":[7]}', b'{"choices":"x","usage":4}']
)
def test_an_answer_that_cannot_be_read_passes_untouched_and_is_recorded_once(
    running: Running, upstream: Provider, odd: bytes
) -> None:
    upstream.script = lambda _seen: Reply(odd)
    answer = post(f"{running.url}/chat/completions", CHAT)
    assert (answer.status, answer.data) == (200, odd)
    assert len(interactions(running.home)) == 1


def test_a_body_above_the_limit_is_refused_with_413(tmp_path: Path, upstream: Provider) -> None:
    with gateway(tmp_path, upstream.url, max_body=1000) as running:
        big = json.dumps(CHAT | {"pad": "x" * 2000}).encode()
        assert post(f"{running.url}/chat/completions", big).status == 413
        answer = POOL.request(
            "POST", f"{running.url}/chat/completions", body=iter([big[:500], big[500:]]), chunked=True
        )
        assert answer.status == 413
        assert len(interactions(tmp_path)) == 2
        assert not upstream.seen


def test_a_large_body_passes_and_only_its_envelope_is_recorded(tmp_path: Path, upstream: Provider) -> None:
    with gateway(tmp_path, upstream.url, recorded_bytes=1000) as running:
        raw = json.dumps(CHAT | {"pad": "x" * 2000}).encode()
        assert post(f"{running.url}/chat/completions", raw).status == 200
        assert upstream.seen[0].body == raw
        (record,) = interactions(tmp_path)
        assert record.messages == ()
        assert record.extra["body_bytes"] == len(raw)


@pytest.mark.parametrize("status", [200, 400])
@pytest.mark.parametrize("announced", [True, False])
def test_a_large_answer_passes_as_it_comes_and_only_its_envelope_is_recorded(
    tmp_path: Path, upstream: Provider, status: int, announced: bool
) -> None:
    """The provider waits with the end until the client has the beginning, so nobody can hold it whole."""
    begun = threading.Event()

    class Late(list[bytes]):
        def __iter__(self) -> Iterator[bytes]:
            yield b'{"pad": "' + b"x" * 5000
            assert begun.wait(10)
            yield b"y" * 5000 + b'"}'

    length = {"Content-Length": "10011"} if announced else {}
    upstream.script = lambda _seen: Reply(
        Late(),
        status=status,
        headers={"Content-Type": "application/json", **length},
    )
    with gateway(tmp_path, upstream.url, recorded_bytes=1000) as running:
        answer = POOL.request(
            "POST", f"{running.url}/chat/completions", body=json.dumps(CHAT), preload_content=False
        )
        first = answer.read(1000)
        begun.set()
        assert (answer.status, len(first + answer.read())) == (status, 10_011)
        (record,) = interactions(tmp_path)
        assert record.response is None
        assert record.terminal is (Terminal.COMPLETED if status == 200 else Terminal.UPSTREAM_ERROR)
        if status == 200:
            assert record.extra["answer_bytes"] == 10_011


def test_what_a_provider_says_of_its_own_origin_stays_behind(running: Running, upstream: Provider) -> None:
    headers = {
        "Set-Cookie": "session=of-the-operator",
        "Strict-Transport-Security": "max-age=1",
        "Clear-Site-Data": "*",
        "Alt-Svc": 'h3=":443"',
    }
    kept = {"Content-Type": "application/json", "x-request-id": "r"}
    upstream.script = lambda _seen: Reply(json.dumps(completion()).encode(), headers=headers | kept)
    for path in ("/chat/completions", "/models"):
        answer = post(f"{running.url}{path}", CHAT)
        assert answer.headers["x-request-id"] == "r"
        assert not {name.lower() for name in headers} & {name.lower() for name in answer.headers}


def test_other_paths_pass_untouched_and_leave_an_envelope(running: Running, upstream: Provider) -> None:
    upstream.script = lambda _seen: Reply(b"\x00\x01binary", headers={"Content-Type": "audio/mpeg"})
    answer = post(f"{running.url}/audio/speech?x=%2F1", b"\xffraw")
    assert answer.data == b"\x00\x01binary"
    assert answer.headers["content-type"] == "audio/mpeg"
    assert (upstream.seen[0].path, upstream.seen[0].body) == ("/v1/audio/speech?x=%2F1", b"\xffraw")
    POOL.request("GET", f"{running.url}/models")
    assert upstream.seen[1].path == "/v1/models"
    first, second = interactions(running.home)
    assert first.extra["path"] == "/v1/audio/speech"
    assert not first.messages
    assert first.response is None
    assert second.session_id.startswith("passthrough/default/")


@pytest.mark.parametrize("path", ["/../admin", "/%2e%2e/admin", "/x/..%2f..%2fadmin", "/..%5cadmin"])
def test_a_path_that_climbs_out_of_the_api_is_refused(
    running: Running, upstream: Provider, path: str
) -> None:
    import http.client

    connection = http.client.HTTPConnection(running.url.split("/")[2])
    connection.request("GET", f"/v1{path}")
    assert connection.getresponse().status == 400
    connection.close()
    assert not upstream.seen


def test_redirects_are_passed_on_and_not_followed(running: Running, upstream: Provider) -> None:
    upstream.script = lambda _seen: Reply(b"", status=307, headers={"Location": "http://169.254.169.254/"})
    answer = POOL.request("POST", f"{running.url}/chat/completions", body=json.dumps(CHAT), redirect=False)
    assert (answer.status, len(upstream.seen)) == (307, 1)


def test_headers_of_the_connection_and_ours_stay_and_the_key_passes(
    running: Running, upstream: Provider
) -> None:
    answer = post(
        f"{running.url}/chat/completions",
        CHAT,
        Authorization="Bearer abc",
        Cookie="a=b",
        Connection="keep-alive, X-Hop",
        X_Hop="1",
        TE="trailers",
        X_PRX_Session="s-1",
        X_Kept="yes",
        Accept_Encoding="br, gzip",
    )
    seen = upstream.seen[0]
    assert seen.header("authorization") == "Bearer abc"
    assert seen.header("x-kept") == "yes"
    assert seen.header("host") == upstream.url.split("/")[2]
    assert all(seen.header(name) is None for name in ("cookie", "x-hop", "te", "x-prx-session"))
    assert seen.header("accept-encoding") == "gzip"
    assert answer.headers["x-prx-session"] == "s-1"


def test_a_compressed_answer_passes_compressed_and_is_recorded_in_clear(
    running: Running, upstream: Provider
) -> None:

    packed = gzip.compress(json.dumps(completion()).encode())
    upstream.script = lambda _seen: Reply(
        packed, headers={"Content-Type": "application/json", "Content-Encoding": "gzip"}
    )
    answer = POOL.request(
        "POST",
        f"{running.url}/chat/completions",
        body=json.dumps(CHAT),
        headers={"Accept-Encoding": "gzip"},
        decode_content=False,
    )
    assert answer.data == packed
    assert interactions(running.home)[0].response == "Hello!"


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n", b"\r\r"])
@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_a_stream_cut_anywhere_reaches_the_client_whole(
    running: Running, upstream: Provider, end: bytes, size: int
) -> None:
    sent = [b": hello" + end]
    for part in (chunk({"content": "café "}), chunk({"content": "你😀"}), chunk({}, "stop")):
        sent.append(b"data: " + json.dumps(part, ensure_ascii=False).encode() + end)
    data = b"".join([*sent, b"data: [DONE]" + end])
    upstream.script = lambda _seen: stream([data[i : i + size] for i in range(0, len(data), size)])
    answer = post(f"{running.url}/chat/completions", CHAT | {"stream": True})
    assert answer.data == data
    (record,) = interactions(running.home)
    assert (record.response, record.terminal) == ("café 你😀", Terminal.COMPLETED)


def test_an_error_line_in_a_stream_passes_and_is_recorded_as_the_providers(
    running: Running, upstream: Provider
) -> None:
    sent = events(
        chunk({"content": "Hel"}), {"error": {"message": "overloaded", "type": "server_error"}}, done=False
    )
    upstream.script = lambda _seen: stream(sent)
    answer = post(f"{running.url}/chat/completions", CHAT | {"stream": True})
    assert answer.data == b"".join(sent)
    (record,) = interactions(running.home)
    assert (record.terminal, record.error, record.response) == (Terminal.UPSTREAM_ERROR, "overloaded", "Hel")
    assert record.external_failure


def test_a_stream_without_its_last_chunk_is_never_recorded_as_done(
    running: Running, upstream: Provider
) -> None:
    sent = events(chunk({"content": "Hel"}), done=False)
    upstream.script = lambda _seen: stream(sent)
    assert post(f"{running.url}/chat/completions", CHAT | {"stream": True}).data == b"".join(sent)
    (record,) = interactions(running.home)
    assert record.terminal is Terminal.UPSTREAM_ERROR
    assert record.response == "Hel"


def test_a_stream_that_breaks_off_ends_in_an_error_line(running: Running, upstream: Provider) -> None:
    sent = events(chunk({"content": "Hel"}), done=False)
    upstream.script = lambda _seen: stream(sent, abort=True, gap=0.05)
    answer = post(f"{running.url}/chat/completions", CHAT | {"stream": True})
    assert answer.data.startswith(sent[0])
    assert b'"upstream_error"' in answer.data
    (record,) = interactions(running.home)
    assert record.terminal is Terminal.UPSTREAM_ERROR
    assert record.response == "Hel"
    assert record.external_failure


@pytest.mark.parametrize("length", [{}, {"Content-Length": "40"}])
def test_an_answer_that_is_only_passed_on_breaks_off_as_the_providers_did(
    running: Running, upstream: Provider, length: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    head = {"Content-Type": "audio/mpeg"} | length
    upstream.script = lambda _seen: Reply([b"first", b"second"], headers=head, abort=True, gap=0.05)
    answer = POOL.request("POST", f"{running.url}/audio/speech", body=b"{}", preload_content=False)
    with pytest.raises(urllib3.exceptions.ProtocolError):
        answer.read()
    (record,) = interactions(running.home)
    assert (record.terminal, record.external_failure) == (Terminal.UPSTREAM_ERROR, True)
    # It is the provider's failure: no traceback of ours belongs into the log.
    assert [line for line in caplog.messages if "Exception" in line] == []
    upstream.script = lambda _seen: whole(completion())
    assert post(f"{running.url}/chat/completions", CHAT).status == 200


def test_malformed_chunks_pass_and_are_counted(running: Running, upstream: Provider) -> None:
    sent = events(
        chunk({"content": "a"}), b"{oops", b'{"choices":[{"delta":5}]}', chunk({"content": "b"}, "stop")
    )
    upstream.script = lambda _seen: stream(sent)
    assert post(f"{running.url}/chat/completions", CHAT | {"stream": True}).data == b"".join(sent)
    (record,) = interactions(running.home)
    assert (record.response, record.terminal) == ("ab", Terminal.COMPLETED)
    assert record.extra["unread_events"] == 1


def test_tool_call_fragments_are_put_together_for_the_record(running: Running, upstream: Provider) -> None:
    def piece(index: int, **function: str) -> dict[str, object]:
        return {"index": index, "function": function}

    first = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "look", "arguments": ""}}
    second = {"index": 1, "id": "call_2", "type": "function", "function": {"name": "book", "arguments": "{}"}}
    sent = events(
        chunk({"tool_calls": [first]}),
        chunk({"tool_calls": [piece(0, arguments='{"q":'), second]}),
        chunk({"tool_calls": [piece(0, arguments='"x"}')]}),
        chunk({}, "tool_calls"),
    )
    upstream.script = lambda _seen: stream(sent)
    post(f"{running.url}/chat/completions", CHAT | {"stream": True})
    (record,) = interactions(running.home)
    assert [(c.name, c.arguments, c.call_id) for c in record.tool_calls] == [
        ("look", '{"q":"x"}', "call_1"),
        ("book", "{}", "call_2"),
    ]


def test_a_stream_that_comes_compressed_all_the_same_passes_as_it_is(
    running: Running, upstream: Provider
) -> None:
    packed = gzip.compress(b"".join(events(chunk({"content": "Hi"}), chunk({}, "stop"))))
    coded = {"Content-Type": "text/event-stream", "Content-Encoding": "gzip"}
    upstream.script = lambda _seen: Reply([packed[:30], packed[30:]], headers=coded)
    url, body = f"{running.url}/chat/completions", json.dumps(CHAT | {"stream": True})
    assert POOL.request("POST", url, body=body, decode_content=False).data == packed
    (record,) = interactions(running.home)
    assert record.terminal is Terminal.COMPLETED
    assert record.extra["answer_bytes"] == len(packed)
