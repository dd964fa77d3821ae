"""The chat endpoint against a real HTTP server that behaves well, badly and maliciously."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from prx.domain.errors import ModelUnavailable
from prx.domain.records import Message, ToolCall
from prx.models.endpoint import ChatEndpoint, EndpointConfig
from prx.models.port import ChatRequest
from prx.models.pricing import Price

KEY = "sk-canary-7f3d2a91"
NOW = datetime(2026, 12, 1, tzinfo=UTC)
REQUEST = ChatRequest(model="", messages=(Message(role="user", content="hello"),), max_tokens=20)
GOOD = {
    "model": "m-2026-01-01",
    "choices": [{"message": {"role": "assistant", "content": "hi there"}, "finish_reason": "stop"}],
    "usage": {
        "prompt_tokens": 1000,
        "completion_tokens": 200,
        "prompt_tokens_details": {"cached_tokens": 400},
    },
}
Behave = Callable[["Handler", int], None]


class Handler(BaseHTTPRequestHandler):
    behave: Behave
    seen: list[dict]
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.seen.append({"path": self.path, "headers": dict(self.headers), "body": json.loads(body)})
        type(self).behave(self, len(self.seen))

    def log_message(self, *args: object) -> None:
        pass

    def reply(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def served(behave: Behave) -> Iterator[tuple[str, list[dict]]]:
    seen: list[dict] = []
    handler = type("Bound", (Handler,), {"behave": staticmethod(behave), "seen": seen})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1", seen
    finally:
        server.shutdown()
        server.server_close()


def endpoint(url: str, *, waits: list[float] | None = None, **options: object) -> ChatEndpoint:
    config = EndpointConfig(role="judge", base_url=url, model="m", key=KEY, **options)
    return ChatEndpoint(config, sleep=(waits if waits is not None else []).append, clock=lambda: NOW)


def good(handler: Handler, _: int) -> None:
    handler.reply(200, json.dumps(GOOD).encode())


def test_a_good_answer_arrives_with_text_tokens_cost_and_the_key_only_in_the_header() -> None:
    with served(good) as (url, seen):
        reply = endpoint(url, price=Price(2.0, 8.0, 0.5)).complete(REQUEST)
    assert (reply.text, reply.model, reply.finish_reason) == ("hi there", "m-2026-01-01", "stop")
    assert (reply.tokens.input, reply.tokens.output, reply.tokens.cache_read) == (1000, 200, 400)
    assert reply.cost_usd == pytest.approx((600 * 2 + 400 * 0.5 + 200 * 8) / 1e6)
    assert reply.latency_ms > 0
    assert seen[0]["path"] == "/v1/chat/completions"
    assert seen[0]["headers"]["Authorization"] == f"Bearer {KEY}"
    assert seen[0]["body"] == {
        "model": "m",
        "messages": [{"role": "user", "content": "hello"}],
        "max_tokens": 20,
    }


def test_tool_calls_travel_both_ways() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"q": 1}'}}
    body = {"choices": [{"message": {"content": None, "tool_calls": [call]}}]}
    history = (
        Message(role="assistant", tool_calls=(ToolCall(name="find", call_id="c0", arguments='{"q": 0}'),)),
        Message(role="tool", content="none", tool_call_id="c0"),
    )
    with served(lambda h, _: h.reply(200, json.dumps(body).encode())) as (url, seen):
        reply = endpoint(url).complete(ChatRequest(model="other", messages=history))
    assert reply.tool_calls == (ToolCall(name="find", call_id="c1", arguments='{"q": 1}'),)
    assert reply.text == ""
    assert reply.cost_usd is None
    sent = seen[0]["body"]
    assert sent["model"] == "other"
    assert sent["messages"][0]["tool_calls"][0]["function"] == {"name": "find", "arguments": '{"q": 0}'}
    assert sent["messages"][1]["tool_call_id"] == "c0"


def test_a_refused_key_is_named_by_setting_and_neither_retried_nor_shown() -> None:
    echo = f"bad key {KEY}".encode()
    with (
        served(lambda h, _: h.reply(401, echo)) as (url, seen),
        pytest.raises(ModelUnavailable, match=r"401.*\[self_evolution\.models\.judge\] key") as caught,
    ):
        endpoint(url).complete(REQUEST)
    assert KEY not in str(caught.value)
    assert len(seen) == 1


def test_an_error_body_that_repeats_the_key_is_shown_without_it_on_one_line() -> None:
    echo = f"bad\x1b[2J\r\nrequest with {KEY} {'x' * 5000}".encode()
    with (
        served(lambda h, _: h.reply(400, echo)) as (url, _),
        pytest.raises(ModelUnavailable, match=r"400: bad .*\[key\]") as caught,
    ):
        endpoint(url).complete(REQUEST)
    assert KEY not in str(caught.value)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 500


def test_too_many_requests_waits_as_told_and_then_succeeds() -> None:
    def limited(handler: Handler, attempt: int) -> None:
        if attempt == 1:
            handler.reply(429, b"{}", Retry_After="7")
        elif attempt == 2:
            handler.reply(429, b"{}", Retry_After="Tue, 01 Dec 2026 00:00:09 GMT")
        else:
            good(handler, attempt)

    waits: list[float] = []
    with served(limited) as (url, seen):
        assert endpoint(url, waits=waits).complete(REQUEST).text == "hi there"
    assert waits == [7.0, 9.0]
    assert len(seen) == 3


def test_a_wait_longer_than_allowed_is_not_waited_for() -> None:
    waits: list[float] = []
    with (
        served(lambda h, _: h.reply(429, b"{}", Retry_After="3600")) as (url, seen),
        pytest.raises(ModelUnavailable, match=r"429.*3600 s"),
    ):
        endpoint(url, waits=waits).complete(REQUEST)
    assert waits == []
    assert len(seen) == 1


def test_a_server_error_is_tried_three_times_with_growing_pauses() -> None:
    waits: list[float] = []
    with (
        served(lambda h, _: h.reply(500, b"boom")) as (url, seen),
        pytest.raises(ModelUnavailable, match="500: boom"),
    ):
        endpoint(url, waits=waits).complete(REQUEST)
    assert waits == [0.5, 1.0]
    assert len(seen) == 3


@pytest.mark.parametrize(
    "body",
    [
        json.dumps(GOOD).encode()[:-20],
        b"",
        b"<html>hello</html>",
        b'{"choices": []}',
        b'{"choices": [{"message": {"content": 7}}]}',
        b'{"choices": "none"}',
        b'{"error": {"message": "overloaded"}}',
        b"[" * 100_000,
        b'{"choices":[{"message":{"content":"\xff\xfe"}}]}',
    ],
    ids=["truncated", "empty", "html", "no choice", "number", "text", "error", "nested", "not utf-8"],
)
def test_an_answer_that_is_no_completion_is_an_error_not_an_empty_text(body: bytes) -> None:
    with (
        served(lambda h, _: h.reply(200, body)) as (url, _),
        pytest.raises(ModelUnavailable, match="answered with"),
    ):
        endpoint(url).complete(REQUEST)


def test_an_answer_cut_before_its_announced_length_is_an_error() -> None:
    def cut(handler: Handler, _: int) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "5000")
        handler.end_headers()
        handler.wfile.write(json.dumps(GOOD).encode())
        handler.close_connection = True

    with (
        served(cut) as (url, _),
        pytest.raises(ModelUnavailable),
    ):
        endpoint(url).complete(REQUEST)


@pytest.mark.parametrize("part", ["headers", "body", "body without length"])
def test_an_answer_that_drips_byte_by_byte_ends_at_the_deadline(part: str) -> None:
    released = threading.Event()

    def drip(handler: Handler, _: int) -> None:
        head = b"HTTP/1.1 200 OK\r\nX-Slow: "
        if part == "body":
            head = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"
        elif part == "body without length":
            head = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
        try:
            handler.connection.sendall(head)
            while not released.wait(0.02):
                handler.connection.sendall(b"x")
        except OSError:
            pass
        handler.close_connection = True

    with served(drip) as (url, _):
        try:
            with pytest.raises(ModelUnavailable, match=r"within 0\.3 s \(deadline\)"):
                endpoint(url, deadline_s=0.3, attempts=1).complete(REQUEST)
        finally:
            released.set()


def test_a_huge_answer_is_dropped() -> None:
    def huge(handler: Handler, _: int) -> None:
        handler.send_response(200)
        handler.send_header("Connection", "close")
        handler.end_headers()
        try:
            for _ in range(1000):
                handler.wfile.write(b"x" * 65536)
        except OSError:
            pass
        handler.close_connection = True

    with (
        served(huge) as (url, seen),
        pytest.raises(ModelUnavailable, match="more than 100000 bytes"),
    ):
        endpoint(url, max_bytes=100_000, attempts=1).complete(REQUEST)
    assert len(seen) == 1


def test_a_redirect_is_not_followed() -> None:
    def away(handler: Handler, _: int) -> None:
        handler.reply(307, b"", Location=target)

    with (
        served(good) as (target, elsewhere),
        served(away) as (url, _),
        pytest.raises(ModelUnavailable, match="redirect"),
    ):
        endpoint(url).complete(REQUEST)
    assert elsewhere == []


def test_a_compressed_answer_is_refused_instead_of_unpacked() -> None:
    with (
        served(lambda h, _: h.reply(200, b"\x1f\x8b", Content_Encoding="gzip")) as (url, _),
        pytest.raises(ModelUnavailable, match="compressed"),
    ):
        endpoint(url, attempts=1).complete(REQUEST)


def test_an_endpoint_that_is_down_is_named_without_path_or_key() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(
            ModelUnavailable, match=rf"http://127\.0\.0\.1:{port} could not be reached"
        ) as caught:
            endpoint(f"http://127.0.0.1:{port}/secret/v1").complete(REQUEST)
    assert KEY not in str(caught.value)
    assert "secret" not in str(caught.value)
