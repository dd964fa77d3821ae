"""Requests over pooled connections, against a provider that speaks plain bytes."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp
import pytest
from yarl import URL

from prx.gateway.rules import GatewayRules
from prx.gateway.straight import Answer
from prx.gateway.upstream import Upstream

_WHOLE = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
_HEADERS = [(b"x-name", b"caf\xe9"), (b"accept-encoding", b"identity")]


class _Provider:
    """Answers each request with the next of `answers`; keeps what it was sent, by connection."""

    def __init__(self, *answers: bytes) -> None:
        self.answers, self.connections = list(answers), 0
        self.heads: list[bytes] = []
        self.bodies: list[bytes] = []
        self.tasks: list[asyncio.Task[None] | None] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.tasks.append(asyncio.current_task())
        try:
            while self.answers:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.split(b"content-length: ")[1].split(b"\r\n")[0])
                self.heads.append(head)
                self.bodies.append(await reader.readexactly(length))
                writer.write(self.answers.pop(0))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


def _run(provider: _Provider, work: Callable[[Callable[[], Awaitable[Answer]]], Awaitable[None]]) -> None:
    async def run() -> None:
        server = await asyncio.start_server(provider.serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        base = f"http://127.0.0.1:{port}/v1"
        upstream = Upstream(GatewayRules(upstream=base, home=Path("unused"), idle_seconds=0.3))
        url = URL(f"http://127.0.0.1:{port}/v1/chat/completions?a=%20b", encoded=True)

        async def ask() -> Answer:
            answer = await upstream.send("POST", url, _HEADERS, b'{"a": 1}')
            assert isinstance(answer, Answer)
            return answer

        try:
            await work(ask)
        finally:
            await upstream.close()
            server.close()
            await asyncio.gather(*[task for task in provider.tasks if task is not None])

    asyncio.run(run())


def test_head_and_body_leave_as_the_bytes_that_they_are_and_the_connection_is_used_again() -> None:
    provider = _Provider(_WHOLE, _WHOLE)

    async def work(ask: Callable[[], Awaitable[Answer]]) -> None:
        for _ in range(2):
            answer = await ask()
            assert (answer.status, answer.content_length, await answer.read()) == (200, 2, b"ok")
            answer.close()

    _run(provider, work)
    assert provider.bodies == [b'{"a": 1}'] * 2
    head = provider.heads[1]
    assert head.startswith(b"POST /v1/chat/completions?a=%20b HTTP/1.1\r\nhost: 127.0.0.1:")
    assert b"\r\nx-name: caf\xe9\r\n" in head
    assert head.count(b"content-length: 8\r\n") == 1
    assert provider.connections == 1


def test_early_hints_are_no_answer() -> None:
    hints = b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n"

    async def work(ask: Callable[[], Awaitable[Answer]]) -> None:
        answer = await ask()
        assert (answer.status, await answer.read()) == (200, b"ok")

    _run(_Provider(hints + _WHOLE), work)


def test_a_connection_whose_answer_was_not_read_to_its_end_is_not_used_again() -> None:
    provider = _Provider(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf", _WHOLE)

    async def work(ask: Callable[[], Awaitable[Answer]]) -> None:
        (await ask()).close()
        answer = await ask()
        assert await answer.read() == b"ok"

    _run(provider, work)
    assert provider.connections == 2


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf", TimeoutError),
        (b"", TimeoutError),
        (b"no HTTP\r\n\r\n", aiohttp.ClientError),
    ],
    ids=["half", "silent", "other"],
)
def test_an_answer_that_does_not_come_is_an_error_of_the_client(said: bytes, error: type[Exception]) -> None:
    async def work(ask: Callable[[], Awaitable[Answer]]) -> None:
        with pytest.raises(error):
            await (await ask()).read()

    _run(_Provider(said, _WHOLE), work)
