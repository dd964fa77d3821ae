"""A scripted provider on 127.0.0.1, a gateway in front of it, and what it recorded."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from prx.domain.codec import decode
from prx.domain.records import Interaction, Record
from prx.gateway.opening import open_gateway
from prx.gateway.policy import Policy
from prx.gateway.prompts.learner import LearnRules
from prx.gateway.rules import GatewayRules
from prx.gateway.server import Gateway, listen
from prx.settings.gateway import GatewayPolicy
from prx.spool.folder import segments
from prx.spool.frames import Frame, pieces
from prx.wiring.paths import spool_folder

SECRET = "sk-proj-0123456789abcdefghijABCDEFGHIJ"


@dataclass(frozen=True)
class Seen:
    method: str
    path: str
    headers: list[tuple[str, str]]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def header(self, name: str) -> str | None:
        return next((v for k, v in self.headers if k.lower() == name), None)


@dataclass
class Reply:
    body: bytes | list[bytes] = b"{}"
    status: int = 200
    headers: dict[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"})
    delay: float = 0.0
    gap: float = 0.0
    abort: bool = False


Script = Callable[[Seen], Reply]


def events(*data: Any, end: bytes = b"\n\n", done: bool = True) -> list[bytes]:
    lines = [b"data: " + (one if isinstance(one, bytes) else json.dumps(one).encode()) + end for one in data]
    return [*lines, b"data: [DONE]" + end] if done else lines


def stream(pieces: list[bytes], **more: Any) -> Reply:
    return Reply(pieces, headers={"Content-Type": "text/event-stream; charset=utf-8"}, **more)


def whole(value: Any, **more: Any) -> Reply:
    return Reply(json.dumps(value).encode(), **more)


class Provider:
    """Answers by `script`, and remembers what it was asked."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.seen: list[Seen] = []
        self.gone = 0
        self.url = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        seen = Seen(request.method, request.raw_path, list(request.headers.items()), body)
        self.seen.append(seen)
        reply = self.script(seen)
        try:
            return await _reply(request, reply)
        except (asyncio.CancelledError, ConnectionError):
            self.gone += 1
            raise


async def _reply(request: web.Request, reply: Reply) -> web.StreamResponse:
    await asyncio.sleep(reply.delay)
    if isinstance(reply.body, bytes) and not reply.abort:
        return web.Response(body=reply.body, status=reply.status, headers=reply.headers)
    answer = web.StreamResponse(status=reply.status, headers=reply.headers)
    await answer.prepare(request)
    for piece in reply.body if isinstance(reply.body, list) else [reply.body]:
        await answer.write(piece)
        await asyncio.sleep(reply.gap)
    if reply.abort:
        assert request.transport is not None
        request.transport.close()
        return answer
    await answer.write_eof()
    return answer


class _Loop:
    """A thread that runs one coroutine until it is told to stop."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()

    def run(self, work: Awaitable[Any], timeout: float = 30.0) -> Any:
        return asyncio.run_coroutine_threadsafe(_await(work), self.loop).result(timeout)

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(10)
        self.loop.close()


async def _await(work: Awaitable[Any]) -> Any:
    return await work


@contextmanager
def provider(script: Script) -> Iterator[Provider]:
    one, loop = Provider(script), _Loop()

    async def start() -> web.AppRunner:
        app = web.Application(client_max_size=2**30)
        app.router.add_route("*", "/{rest:.*}", one.handle)
        runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True, auto_decompress=False)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        one.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        return runner

    runner = loop.run(start())
    try:
        yield one
    finally:
        loop.run(runner.cleanup())
        loop.close()


@dataclass
class Running:
    """A gateway in a thread of this process."""

    home: Path
    url: str
    gateway: Gateway
    loop: _Loop
    task: Any

    def stop(self) -> None:
        self.loop.loop.call_soon_threadsafe(self.gateway.stop)

    def wait(self) -> None:
        self.task.result(30)


@contextmanager
def gateway(
    home: Path,
    upstream: str,
    *,
    learn: LearnRules | None = None,
    config: Path | None = None,
    env: Mapping[str, str] | None = None,
    **rules: Any,
) -> Iterator[Running]:
    # Tests of what a client gets count what the provider was asked: once, unless they say otherwise.
    plain = Policy(GatewayPolicy(retries=0)) if config is None else None
    rules = {"port": 0, "drain_seconds": 5.0, "policy": plain} | rules
    chosen = GatewayRules(upstream=upstream, home=home, **rules)
    listener = listen(chosen)
    loop = _Loop()

    async def start() -> tuple[Gateway, Any]:
        one = open_gateway(chosen, config=config, env=env or {}, learn=learn)
        started = asyncio.Event()
        task = asyncio.get_running_loop().create_task(one.run(listener, started))
        await started.wait()
        return one, task

    one, task = loop.run(start())
    done = asyncio.run_coroutine_threadsafe(_await(task), loop.loop)
    running = Running(home, f"http://127.0.0.1:{one.port}/v1", one, loop, done)
    try:
        yield running
    finally:
        running.stop()
        running.wait()
        loop.close()


def spooled(home: Path) -> list[Record]:
    """Everything in the spool, in order."""
    return [
        decode(piece.payload, Record)  # type: ignore[arg-type]
        for segment in segments(spool_folder(home))
        for piece in pieces(segment.read_bytes())
        if isinstance(piece, Frame)
    ]


def interactions(home: Path) -> list[Interaction]:
    return [record for record in spooled(home) if isinstance(record, Interaction)]


def every_byte(home: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(home.rglob("*")) if path.is_file())


@contextmanager
def served(
    home: Path, upstream: str, *more: str, under: tuple[str, ...] = (), log: Path | None = None
) -> Iterator[tuple["subprocess.Popen[bytes]", str]]:
    """`prx serve` as a process of its own, without worker unless asked otherwise. `under`: a command that
    runs it, such as strace; `log`: where its standard error goes."""
    command = [*under, sys.executable, "-m", "prx.cli", "serve", "--upstream", upstream, "--home", str(home)]
    command += ["--port", "0", *(more or ("--no-evolution",))]
    with contextlib.ExitStack() as stack:
        error = stack.enter_context(log.open("wb")) if log is not None else None
        env = {**os.environ, "PRX_CONFIG": ""}
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=error, env=env)
    try:
        assert process.stdout is not None
        line = process.stdout.readline().decode()
        yield process, line.split()[2]
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def eventually(true: Callable[[], Any], seconds: float = 10.0) -> Any:
    """What `true` gives once it gives something; fails when it never does."""
    until = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < until, "it never happened"
        time.sleep(0.01)
    return found


async def until(true: Callable[[], Any], seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it never happened"
        await asyncio.sleep(0.01)
