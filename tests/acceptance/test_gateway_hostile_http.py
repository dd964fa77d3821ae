"""Requests that are made to confuse: what the gateway takes for one request is what the provider gets."""

import contextlib
import gzip
import http.client
import json
import re
import socket
import zlib
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import urllib3
from gateway_house import (
    SECRET,
    Provider,
    Reply,
    Running,
    eventually,
    gateway,
    interactions,
    served,
)

from prx.domain.records import Terminal
from prx.gateway.rules import KeyMode
from prx.gateway.tokens import parse_tokens

POOL = urllib3.PoolManager(retries=False)
CHAT = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}]}).encode()
TOKEN = "proxy-token-0123456789"
TOKENS = parse_tokens(f"app proxy {sha256(TOKEN.encode()).hexdigest()}", "tokens")
HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\nContent-Type: application/json\r\n"
SMUGGLED = b"GET /v1/smuggled HTTP/1.1\r\nHost: gateway\r\n\r\n"


def exchange(running: Running, sent: bytes, silence: float = 1.0) -> bytes:
    """Everything that comes back on one connection until the gateway closes it, or is silent."""
    host, port = running.url.split("/")[2].split(":")
    got = b""
    with socket.create_connection((host, int(port)), timeout=silence) as one:
        # Where it is refused before all of it was sent, the answer can still be read.
        with contextlib.suppress(OSError):
            one.sendall(sent)
        try:
            while piece := one.recv(65_536):
                got += piece
        except (TimeoutError, ConnectionResetError):
            pass
    return got


def statuses(got: bytes) -> list[int]:
    return [int(one) for one in re.findall(rb"HTTP/1\.1 (\d{3}) ", got)]


LENGTH = b"Content-Length: %d\r\n" % len(CHAT)
CHUNKED = b"%x\r\n" % len(CHAT) + CHAT + b"\r\n0\r\n\r\n"


@pytest.mark.parametrize(
    "framing",
    [
        b"Content-Length: 3\r\n" + LENGTH,
        b"Content-Length: 3, 4\r\n",
        b"Content-Length: +3\r\n",
        b"Content-Length: -1\r\n",
        b"Content-Length: 0x10\r\n",
        b"Content-Length : 3\r\n",
        b"Transfer-Encoding: xchunked\r\n",
        b"Transfer-Encoding: identity, chunked\r\n",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        b"Transfer-Encoding: \x0bchunked\r\n",
        b"Transfer-Encoding : chunked\r\n",
        b"X: a\x00b\r\n",
        b"X: a\rTransfer-Encoding: chunked\r\n",
        b"Bad Name: 1\r\n",
        b": nothing\r\n",
    ],
)
def test_a_head_that_can_be_read_in_two_ways_is_refused_and_nothing_after_it_is_read(
    running: Running, upstream: Provider, framing: bytes
) -> None:
    got = exchange(running, HEAD + framing + b"\r\n" + CHAT + SMUGGLED)
    assert all(400 <= one < 502 for one in statuses(got)), got
    assert len(statuses(got)) <= 1
    assert not upstream.seen


@pytest.mark.parametrize("hosts", [b"", b"Host: gateway\r\nHost: other\r\n"])
def test_a_request_has_exactly_one_host(running: Running, upstream: Provider, hosts: bytes) -> None:
    got = exchange(running, b"GET /v1/models HTTP/1.1\r\n" + hosts + b"\r\n")
    assert statuses(got) == [400]
    assert b"invalid_http" in got
    assert not upstream.seen


def test_a_request_with_length_and_chunks_is_one_request_or_none(
    running: Running, upstream: Provider
) -> None:
    for both in (
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
    ):
        exchange(running, HEAD + both + b"Connection: close\r\n\r\n" + CHUNKED)
    assert [seen.body for seen in upstream.seen] in ([], [CHAT, CHAT])
    assert all(seen.header("transfer-encoding") is None for seen in upstream.seen)


def test_pipelined_requests_are_answered_in_order_and_recorded_each(
    running: Running, upstream: Provider
) -> None:
    last = b"Connection: close\r\n"
    got = exchange(running, HEAD + LENGTH + b"\r\n" + CHAT + HEAD + last + LENGTH + b"\r\n" + CHAT)
    assert statuses(got) == [200, 200]
    assert len(upstream.seen) == len(interactions(running.home)) == 2


@pytest.mark.parametrize(
    "line",
    [
        b"GET http://169.254.169.254/latest/meta-data HTTP/1.1",
        b"GET https://evil.example/v1/models HTTP/1.1",
        b"CONNECT evil.example:443 HTTP/1.1",
        b"OPTIONS * HTTP/1.1",
        b"GET @evil.example/v1 HTTP/1.1",
        b"GET //evil.example/v1 HTTP/1.1",
        b"GET /\\evil.example/v1 HTTP/1.1",
        b"GET /a/x//evil.example/v1 HTTP/1.1",
        b"GET /v1/../../etc/passwd HTTP/1.1",
        b"GET /v1/%2e%2E/%2e./admin HTTP/1.1",
        b"GET /v1/..%5c..%5cadmin HTTP/1.1",
        b"GET /a/x/v1/..%2fadmin HTTP/1.1",
        b"GET /a/../v1/admin HTTP/1.1",
        b"GET /v1/models%0d%0aX-Injected:%201 HTTP/1.1",
        b"GET /v1/models%00 HTTP/1.1",
    ],
)
def test_no_target_leads_anywhere_but_to_the_operators_provider_below_its_base(
    running: Running, upstream: Provider, line: bytes
) -> None:
    got = exchange(running, line + b"\r\nHost: evil.example\r\nConnection: close\r\n\r\n")
    assert statuses(got), got
    for seen in upstream.seen:
        assert seen.path.startswith("/")
        assert ".." not in seen.path.lower().replace("%2e", ".")
        assert seen.header("x-injected") is None
        assert seen.header("host") == upstream.url.split("/")[2]
    assert len(upstream.seen) <= 1
    assert b"root:" not in got


@pytest.mark.parametrize("method", [b"TRACE", b"CONNECT", b"TRACK", b"DEBUG", b"FOO"])
def test_a_method_that_could_echo_the_operators_key_never_reaches_the_provider(
    tmp_path: Path, upstream: Provider, method: bytes
) -> None:
    rules: Any = {"tokens": TOKENS, "key_mode": KeyMode.GATEWAY, "upstream_key": SECRET}
    upstream.script = lambda seen: Reply(str(seen.headers).encode())
    with gateway(tmp_path, upstream.url, **rules) as running:
        head = method + b" /v1/models HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
        got = exchange(running, head + b"Authorization: Bearer " + TOKEN.encode() + b"\r\n\r\n")
    assert SECRET.encode() not in got
    assert statuses(got)[0] in (400, 405, 501)
    assert not upstream.seen


def test_an_upgrade_stays_at_the_gateway(running: Running, upstream: Provider) -> None:
    for upgrade in (b"h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__", b"websocket\r\nSec-WebSocket-Version: 13"):
        head = (
            b"GET /v1/models HTTP/1.1\r\nHost: x\r\nConnection: close, Upgrade, HTTP2-Settings\r\nUpgrade: "
        )
        got = exchange(running, head + b"Upgrade: " + upgrade + b"\r\n\r\n")
        assert 101 not in statuses(got)
    for seen in upstream.seen:
        assert seen.header("upgrade") is None
        assert seen.header("http2-settings") is None


@pytest.mark.parametrize(
    "shown",
    [
        b"X-PRX-Key: wrong\r\nX-PRX-Key: wrong2\r\n",
        b"X_PRX_Key: %s\r\n" % TOKEN.encode(),
        b"X-PRX-Key: %s\r\n" % TOKEN.upper().encode(),
        b"X-PRX-Key: %s,\r\n" % TOKEN.encode(),
        b"X-PRX-Key: Bearer %s\r\n" % TOKEN.encode(),
        b"X-PRX-Key:\r\n %s\r\n" % TOKEN[:-1].encode(),
        b"X-PRX-Key: %s\r\n" % sha256(TOKEN.encode()).hexdigest().encode(),
        b"X-PRX-Key: \r\n",
        b"X-PRX-Key: %s\r\n" % (b"\xff" * 300),
        b"Authorization: Bearer %s\r\n" % TOKEN.encode(),
        b"X-Forwarded-For: 127.0.0.1\r\nX-Real-IP: 127.0.0.1\r\nForwarded: for=127.0.0.1\r\n",
        b"X-Original-URL: /livez\r\nX-Rewrite-URL: /livez\r\nX-HTTP-Method-Override: GET\r\n",
    ],
)
def test_nothing_but_the_token_in_its_place_opens_the_gateway(
    tmp_path: Path, upstream: Provider, shown: bytes
) -> None:
    with gateway(tmp_path, upstream.url, tokens=TOKENS) as running:
        got = exchange(running, HEAD + shown + LENGTH + b"Connection: close\r\n\r\n" + CHAT)
        assert statuses(got)[0] in (400, 401), got
        for path in (b"/v1/../livez/../v1/models", b"/livez/../v1/models", b"//v1/models", b"/V1/models"):
            got = exchange(
                running, b"GET " + path + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + shown + b"\r\n"
            )
            assert statuses(got)[0] in (400, 401), got
    assert not upstream.seen
    assert interactions(tmp_path) == []


def test_the_gateways_own_token_never_reaches_the_provider_however_it_is_spelled(
    tmp_path: Path, upstream: Provider
) -> None:
    with gateway(tmp_path, upstream.url, tokens=TOKENS) as running:
        token = TOKEN.encode()
        for shown in (
            b"x-PRX-kEy: " + token + b"\r\n",
            b"X-PRX-Key: " + token + b"\r\nx-prx-key: " + token + b"\r\n",
            b"X-PRX-Key: " + token + b"\r\nAuthorization: Bearer a\r\n",
        ):
            got = exchange(running, HEAD + shown + LENGTH + b"Connection: close\r\n\r\n" + CHAT)
            assert statuses(got)[0] in (200, 400)
    assert upstream.seen
    assert TOKEN not in str([seen.headers for seen in upstream.seen])


def test_what_a_client_names_itself_cannot_end_a_header_of_the_answer(running: Running) -> None:
    body = {"messages": [], "metadata": {"session_id": "a\r\nSet-Cookie: x=1\r\n\r\n<b>"}}
    answer = POOL.request("POST", f"{running.url}/chat/completions", body=json.dumps(body))
    assert answer.status == 200
    assert "set-cookie" not in answer.headers
    assert answer.headers["x-prx-session"].startswith("a??Set-Cookie")


@pytest.mark.parametrize(
    "head",
    [
        b"X-Long: " + b"y" * 300_000 + b"\r\n",
        b"".join(b"X-%d: %s\r\n" % (n, b"z" * 100) for n in range(3_000)),
        b"".join(b"X-%d: \r\n" % n for n in range(30_000)),
    ],
)
def test_a_head_of_absurd_size_is_refused_and_others_are_served(
    running: Running, upstream: Provider, head: bytes
) -> None:
    got = exchange(running, HEAD + head + LENGTH + b"\r\n" + CHAT)
    assert statuses(got) in ([], [400], [431])
    assert not upstream.seen
    assert POOL.request("POST", f"{running.url}/chat/completions", body=CHAT).status == 200


def test_a_head_that_is_no_http_gets_an_error_that_openai_clients_can_read(running: Running) -> None:
    for sent in (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", b"GET\r\n\r\n", HEAD + b"X: \x00\r\n\r\n"):
        got = exchange(running, sent)
        assert statuses(got) == [400]
        error = json.loads(got.split(b"\r\n\r\n", 1)[1])["error"]
        assert set(error) == {"message", "type", "param", "code"}


def bomb(levels: int) -> bytes:
    packed = gzip.compress(b"[" + b"0," * (32 * 1024 * 1024) + b"0]", 9)
    for _ in range(levels - 1):
        packed = gzip.compress(packed, 9)
    return packed


@pytest.mark.parametrize("kind", ["request", "answer"])
def test_a_decompression_bomb_passes_as_it_is_and_is_not_unpacked_for_the_record(
    tmp_path: Path, upstream: Provider, kind: str
) -> None:
    packed = bomb(1)
    coded = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    with gateway(tmp_path, upstream.url, recorded_bytes=1024 * 1024) as running:
        url = f"{running.url}/chat/completions"
        if kind == "request":
            answer = POOL.request("POST", url, body=packed, headers=coded)
            assert answer.status == 200
            assert upstream.seen[0].body == packed
        else:
            upstream.script = lambda _seen: Reply(packed, headers=coded)
            accept = {"Accept-Encoding": "gzip"}
            answer = POOL.request("POST", url, body=CHAT, headers=accept, decode_content=False)
            assert answer.data == packed
        (record,) = interactions(tmp_path)
        size = record.extra["body_bytes" if kind == "request" else "answer_bytes"]
        assert size == len(packed)
        assert record.response in (None, "Hello!")


@pytest.mark.parametrize("damage", ["cut", "tail", "two", "noise", "deflate-raw", "lie"])
def test_a_coded_body_that_is_odd_is_the_providers_to_judge(
    running: Running, upstream: Provider, damage: str
) -> None:
    packed = gzip.compress(CHAT)
    body = {
        "cut": packed[:-12],
        "tail": packed + b"tail",
        "two": gzip.compress(CHAT[:10]) + gzip.compress(CHAT[10:]),
        "noise": b"\x1f\x8b" + b"\x00" * 40,
        "deflate-raw": zlib.compress(CHAT, wbits=-15),
        "lie": CHAT,
    }[damage]
    coding = "deflate" if damage == "deflate-raw" else "gzip"
    headers = {"Content-Encoding": coding}
    answer = POOL.request("POST", f"{running.url}/chat/completions", body=body, headers=headers)
    assert answer.status == 200
    assert upstream.seen[0].body == body
    assert upstream.seen[0].header("content-encoding") == coding
    assert len(interactions(running.home)) == 1


def closed_after_dripping(running: Running, begun: bytes, drip: bytes) -> bool:
    """Whether the gateway closes a connection on which one byte comes every now and then."""
    host, port = running.url.split("/")[2].split(":")
    with socket.create_connection((host, int(port)), timeout=0.1) as one:
        one.sendall(begun)
        for _ in range(100):
            try:
                one.sendall(drip)
                if one.recv(65_536) == b"":
                    return True
            except TimeoutError:
                continue
            except OSError:
                return True
    return False


def test_a_client_that_sends_its_request_drop_by_drop_is_let_go(tmp_path: Path, upstream: Provider) -> None:
    slow = [
        (b"POST /v1/chat/completions HTTP/1.1\r\nX: ", b"y"),
        (HEAD + b"Content-Length: 9999\r\n\r\n", b" "),
        # Also after a request that was served on the same connection.
        (HEAD + LENGTH + b"\r\n" + CHAT + b"POST /v1/x HTTP/1.1\r\nX: ", b"y"),
    ]
    with gateway(tmp_path, upstream.url, head_seconds=0.5, body_seconds=0.5) as running:
        with ThreadPoolExecutor(len(slow)) as pool:
            assert all(pool.map(lambda one: closed_after_dripping(running, *one), slow))
        text = POOL.request("GET", running.url.removesuffix("/v1") + "/metrics").data.decode()
        assert 'prx_gateway_refused_total{why="slow_head"} 2' in text
        assert 'prx_gateway_refused_total{why="slow_body"} 1' in text
    assert [record.response for record in interactions(tmp_path)] == ["Hello!"]


def test_a_client_that_takes_nothing_of_its_answer_is_let_go_and_recorded(
    tmp_path: Path, upstream: Provider
) -> None:
    upstream.script = lambda _seen: Reply([b"x" * 1_000_000] * 40, headers={"Content-Type": "audio/mpeg"})
    with gateway(tmp_path, upstream.url, stall_seconds=0.5) as running:
        host, port = running.url.split("/")[2].split(":")
        with socket.create_connection((host, int(port)), timeout=5) as one:
            one.sendall(HEAD.replace(b"chat/completions", b"audio/speech") + LENGTH + b"\r\n" + CHAT)
            (record,) = eventually(lambda: interactions(tmp_path))
        assert record.terminal is Terminal.CLIENT_CANCELLED
        eventually(lambda: upstream.gone == 1)


def test_connections_without_end_take_no_file_from_those_who_are_served(
    tmp_path: Path, upstream: Provider
) -> None:
    """Whoever only connects has shown no key, and must not be able to cost a record."""
    few = ("sh", "-c", 'ulimit -n 256; exec "$@"', "sh")
    with served(tmp_path, upstream.url, under=few) as (process, url), contextlib.ExitStack() as stack:
        host, _, port = url.split("/")[2].partition(":")
        known = http.client.HTTPConnection(host, int(port), timeout=10)
        stack.callback(known.close)
        for asked in range(2):
            known.request("POST", "/v1/chat/completions", body=CHAT)
            assert known.getresponse().read()
            if not asked:
                for _ in range(400):
                    stack.enter_context(socket.create_connection((host, int(port)), timeout=10))
                late = socket.create_connection((host, int(port)), timeout=10)
                assert stack.enter_context(late).recv(100).startswith(b"HTTP/1.1 503 ")
        assert len(upstream.seen) == len(interactions(tmp_path)) == 2
        assert process.poll() is None
