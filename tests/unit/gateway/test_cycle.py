"""How an answer is written to a client's connection, byte for byte."""

import asyncio
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from prx.gateway.connections import Connection

_GET = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
_CLOSE = b"connection: close\r\n"


def _written(events: list[dict[str, Any]], request: bytes = _GET) -> bytes:
    """What a client reads until the end, of an application that sends these events."""

    async def application(_scope: Any, _receive: Any, send: Any) -> None:
        for event in events:
            await send(event)

    async def run() -> bytes:
        config = uvicorn.Config(application, http=Connection, lifespan="off", log_config=None)
        config.load()
        state = ServerState()
        loop = asyncio.get_running_loop()
        server = await loop.create_server(
            lambda: Connection(config=config, server_state=state, app_state={}), "127.0.0.1", 0
        )
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(request)
        try:
            return await asyncio.wait_for(reader.read(), 10)
        finally:
            writer.close()
            await writer.wait_closed()
            server.close()

    return asyncio.run(run())


def _start(*headers: tuple[bytes, bytes], status: int = 200) -> dict[str, Any]:
    return {"type": "http.response.start", "status": status, "headers": list(headers)}


def _body(piece: bytes, more: bool = False) -> dict[str, Any]:
    return {"type": "http.response.body", "body": piece, "more_body": more}


_OK = b"HTTP/1.1 200 OK\r\n"
_CHUNKED = b"transfer-encoding: chunked\r\n\r\n"
_LENGTH = (b"Content-Length", b"4")


@pytest.mark.parametrize(
    ("events", "written"),
    [
        ([_start(_LENGTH), _body(b"abcd")], _OK + b"content-length: 4\r\n" + _CLOSE + b"\r\nabcd"),
        (
            [_start(_LENGTH), _body(b"ab", more=True), _body(b"cd")],
            _OK + b"content-length: 4\r\n" + _CLOSE + b"\r\nabcd",
        ),
        (
            [_start(), _body(b"", more=True), _body(b"ab", more=True), _body(b"")],
            _OK + _CLOSE + _CHUNKED + b"2\r\nab\r\n0\r\n\r\n",
        ),
        ([_start(status=204), _body(b"")], b"HTTP/1.1 204 No Content\r\n" + _CLOSE + b"\r\n"),
        # What does not fit its length ends with the connection, so that nobody takes it for whole.
        ([_start(_LENGTH), _body(b"ab")], _OK + b"content-length: 4\r\n" + _CLOSE + b"\r\nab"),
        ([_start(_LENGTH), _body(b"abcde")], b""),
        # An answer that has only begun sends nothing.
        ([_start()], b""),
    ],
    ids=["whole", "pieces", "chunked", "bodiless", "short", "long", "begun"],
)
def test_an_answer_is_framed_as_its_head_says(events: list[dict[str, Any]], written: bytes) -> None:
    assert _written(events) == written


def test_an_answer_to_head_has_no_body() -> None:
    told = _written([_start(_LENGTH), _body(b"")], _GET.replace(b"GET", b"HEAD"))
    assert told == _OK + b"content-length: 4\r\n" + _CLOSE + b"\r\n"


@pytest.mark.parametrize("header", [(b"x\r\ny", b"1"), (b"x", b"1\r\ny: 2"), (b"x y", b"1")])
def test_a_header_that_could_end_the_head_is_never_written(header: tuple[bytes, bytes]) -> None:
    assert b"y: 2" not in _written([_start(header), _body(b"")])


def test_a_head_leaves_with_the_first_event_of_its_body_though_that_is_empty() -> None:
    """A stream whose provider has said nothing yet: its client sees the head."""
    events = [_start(), _body(b"", more=True)]
    assert _written(events) == _OK + _CLOSE + _CHUNKED
