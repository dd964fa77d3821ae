"""CPU time per request of the gateway, beside a bare Starlette + aiohttp pass-through in the same run.

`python bench/gateway.py` prints lines to read; `--json` one JSON object per line. Each proxy runs as one
process under uvicorn, on the same stub provider and the same clients (8 connections, kept alive), taking
turns. The bare one runs twice: on the two packages that the gateway brings along (httptools and uvloop), and
without them, as `pip install starlette uvicorn aiohttp` gives it. The gateway records everything: session,
messages, answer, tokens, times, checksummed and synced in batches; every request carries a new user text and
every fourth a new session. `managed` also recognises the system prompt of every request, assigns its session
in a running experiment, and replaces it for the half that is treated. CPU time is that of all threads of the
proxy's process, from the scheduler's own account. The limit is what we claim: 1.6 times the bare
pass-through on the same packages.

The `litellm` cases compare with the LiteLLM proxy, one worker and no database: a 25th of its time is what we
claim. It lives in an environment of its own (`python -m venv DIR && DIR/bin/pip install 'litellm[proxy]'`)
and is found as `PRX_LITELLM=DIR/bin/litellm` or on the PATH; where it is not, it is left out in words.
"""

import argparse
import asyncio
import json
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ALLOWED = 1.6
CLIENTS = 8
REQUESTS = {"plain": 2_000, "stream": 600}
ROUNDS = 5
CASES = ("plain", "stream", "managed_plain", "managed_stream")
LITELLM_CASES = ("litellm_plain", "litellm_stream")
LITELLM_REQUESTS = {"plain": 160, "stream": 80}
LITELLM_SHARE = 25
_NO_KEYS = "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY"
CHUNK_PAUSE = 0.001
SYSTEM = (
    "You are the support agent of a parcel service. Answer briefly and kindly. Never promise a refund.\n"
    "Customer: {slot_1}\nAsk for the parcel number before you look anything up. "
) + "Keep to the policy and say what happens next. " * 12
TREATED = SYSTEM.replace("briefly and kindly", "in two sentences")
USAGE = {"prompt_tokens": 420, "completion_tokens": 60, "total_tokens": 480}
ANSWER = "Your parcel left the depot this morning and should arrive tomorrow before noon. " * 3


def plain_answer() -> bytes:
    message = {"role": "assistant", "content": ANSWER}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "gpt-4o"}
    return json.dumps(head | {"choices": [choice], "usage": USAGE}).encode()


def chunks() -> list[bytes]:
    """21 chunks as providers send them, the last with the usage, and the end mark with it."""
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-4o"}
    words = ANSWER.split()[:19]
    deltas = [({"role": "assistant", "content": ""}, None)] + [({"content": w + " "}, None) for w in words]
    parts = [head | {"choices": [{"index": 0, "delta": d, "finish_reason": f}]} for d, f in deltas]
    parts.append(head | {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": USAGE})
    lines = [b"data: " + json.dumps(part).encode() + b"\n\n" for part in parts]
    return [*lines[:-1], lines[-1] + b"data: [DONE]\n\n"]


async def stub(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """The provider: as little as HTTP/1.1 needs."""
    whole, pieces = plain_answer(), chunks()
    plain = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(whole)
    begin = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            if b"content-length:" not in head:
                break  # LiteLLM looks around at its start
            length = int(head.split(b"content-length:", 1)[1].split(b"\r\n", 1)[0])
            body = await reader.readexactly(length)
            if b'"stream": true' not in body and b'"stream":true' not in body:
                writer.write(plain + whole)
                continue
            writer.write(begin)
            for piece in pieces:
                writer.write(b"%x\r\n" % len(piece) + piece + b"\r\n")
                await asyncio.sleep(CHUNK_PAUSE)
            writer.write(b"0\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    writer.close()


def serve_stub() -> None:
    async def run() -> None:
        server = await asyncio.start_server(stub, "127.0.0.1", 0)
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()

    asyncio.run(run())


def serve_bare(upstream: str, *, faster: bool) -> None:
    """What any Python proxy on this stack has to do: read, ask, pass on."""
    import aiohttp
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response, StreamingResponse
    from starlette.routing import Route

    kept = ("content-type", "authorization", "accept", "user-agent")
    session: list[aiohttp.ClientSession] = []

    async def chat(request: Request) -> Response:
        if not session:
            session.append(aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)))
        body = await request.body()
        headers = {name: value for name, value in request.headers.items() if name in kept}
        answer = await session[0].post(upstream + "/chat/completions", data=body, headers=headers)
        kind = answer.headers["content-type"]
        if not kind.startswith("text/event-stream"):
            return Response(await answer.read(), answer.status, media_type=kind)

        async def pieces() -> AsyncIterator[bytes]:
            async for piece in answer.content.iter_any():
                yield piece

        return StreamingResponse(pieces(), answer.status, media_type=kind)

    app = Starlette(routes=[Route("/v1/chat/completions", chat, methods=["POST"])])
    listener = _listener()
    print(listener.getsockname()[1], flush=True)
    stack: Any = {"http": "httptools", "loop": "uvloop"} if faster else {"http": "h11", "loop": "asyncio"}
    config = uvicorn.Config(app, access_log=False, log_level="warning", lifespan="off", ws="none", **stack)
    uvicorn.Server(config).run(sockets=[listener])


def serve_ours(upstream: str, home: Path, managed: bool) -> None:
    from prx.gateway.opening import serve
    from prx.gateway.rules import GatewayRules

    if managed:
        arrange(home)
    rules = GatewayRules(upstream=upstream, home=home, port=0)
    serve(rules, config=None, env={}, announce=lambda url: print(url.split(":")[2].split("/")[0], flush=True))


def arrange(home: Path) -> None:
    """A registered, accepted prompt and an experiment on it, with half of all sessions treated."""
    from datetime import UTC, datetime

    import msgspec

    from prx.domain.codec import content_hash
    from prx.domain.layers import Layer
    from prx.domain.serving import ServedExperiment, Serving
    from prx.gateway.prompts.store import ACCEPTED, Accepted
    from prx.gateway.serving import LedgerReader

    accepted = Accepted(
        agent="default", name="support", text=SYSTEM, slots=("slot_1",), at=datetime(2026, 1, 1, tzinfo=UTC)
    )
    (home / "prompts").mkdir(parents=True)
    (home / "prompts" / ACCEPTED).write_bytes(msgspec.json.encode((accepted,)))
    experiment = ServedExperiment(
        experiment_id="bench",
        layer=Layer.PROMPT,
        ramp=1.0,
        traffic_split=0.5,
        ramp_salt="r",
        variant_salt="v",
        prompts={"support": TREATED},
    )
    served = Serving(
        version="v1.0",
        prompts={"support": SYSTEM},
        baselines={"support": (content_hash(SYSTEM),)},
        experiments=(experiment,),
    )
    # The ledger is read by a background thread, never by a request: what it says is given here.
    LedgerReader.read = lambda _self, agent: msgspec.structs.replace(served, agent=agent)  # type: ignore[method-assign]


def _listener() -> Any:
    import socket

    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    return listener


def request(number: int, streaming: bool) -> bytes:
    messages = [
        {"role": "system", "content": SYSTEM.replace("{slot_1}", f"Ada Lovelace {number // 4}")},
        {"role": "user", "content": f"Hello, I have a question about parcel {number // 4}."},
        {"role": "assistant", "content": "Of course. What would you like to know about it?"},
        {"role": "user", "content": f"Where is it now, and when will it come? This is request {number}."},
    ]
    body = json.dumps({"model": "gpt-4o", "messages": messages, "stream": streaming, "temperature": 0.2})
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
        "authorization: Bearer sk-bench\r\naccept: application/json\r\nuser-agent: bench\r\n"
        f"x-prx-session: s-{number // 4}\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body.encode()


async def client(port: int, numbers: list[int], streaming: bool) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for number in numbers:
        writer.write(request(number, streaming))
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        if b" 200 " not in head.split(b"\r\n", 1)[0]:
            raise SystemExit(f"a proxy answered {head[:200]!r}")
        if b"content-length:" in head:
            await reader.readexactly(int(head.split(b"content-length:", 1)[1].split(b"\r\n", 1)[0]))
            continue
        data = await reader.readuntil(b"\r\n0\r\n\r\n")
        if b"[DONE]" not in data:
            raise SystemExit("a stream did not come to its end")
    writer.close()


async def load(port: int, first: int, count: int, streaming: bool) -> None:
    each = [list(range(first + c, first + count, CLIENTS)) for c in range(CLIENTS)]
    await asyncio.gather(*(client(port, numbers, streaming) for numbers in each))


def cpu_seconds(pid: int) -> float:
    """CPU time of all threads so far; the first field of schedstat is nanoseconds on a CPU."""
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


class Running:
    """One server process of this bench."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, __file__, "--serve", *arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()


def measure(case: str) -> dict[str, Any]:
    """The proxies, taking turns; seconds of CPU per request."""
    managed, kind = case.startswith("managed_"), case.removeprefix("managed_")
    count, streaming = REQUESTS[kind], kind == "stream"
    taken: dict[str, list[float]] = {"ours": [], "bare": [], "plain_bare": []}
    with tempfile.TemporaryDirectory() as folder:
        provider = Running("stub")
        upstream = f"http://127.0.0.1:{provider.port}/v1"
        running = {
            "ours": Running("ours", upstream, f"{folder}/home", str(int(managed))),
            "bare": Running("bare", upstream, "1"),
            "plain_bare": Running("bare", upstream, "0"),
        }
        first = 0
        for turn in range(ROUNDS + 1):
            for name, one in running.items():
                before = cpu_seconds(one.process.pid)
                asyncio.run(load(one.port, first, count, streaming))
                time.sleep(0.1)
                if turn:  # the first turn warms up
                    taken[name].append((cpu_seconds(one.process.pid) - before) / count)
            first += count
        for one in (*running.values(), provider):
            one.stop()
        recorded = interactions(Path(folder) / "home")
    if recorded != (ROUNDS + 1) * count:
        raise SystemExit(f"{recorded} of {(ROUNDS + 1) * count} requests were recorded")
    ours, bare, plain = (statistics.median(taken[name]) for name in taken)
    return {
        "bench": "gateway",
        "case": f"gateway_{case}",
        "unit": "s",
        "ours": ours,
        "limit": ALLOWED * bare,
        "peer": bare,
        "peer_name": "bare pass-through",
        "ratio_to_limit": ours / (ALLOWED * bare),
        "ratio_to_peer": ours / bare,
        "ratio_to_plain_bare": ours / plain,
        "n": ROUNDS * count,
        "spread": max(taken["ours"]) - min(taken["ours"]),
        "note": "every request was recorded once",
        "machine": f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}",
        "versions": {name: installed(name) for name in PACKAGES},
    }


class LiteLlm:
    """The LiteLLM proxy as a process, in front of the same provider."""

    def __init__(self, program: str, upstream: str, folder: Path) -> None:
        listener = _listener()
        self.port = listener.getsockname()[1]
        listener.close()
        config = folder / "litellm.yaml"
        model = {"model": "openai/gpt-4o", "api_base": upstream, "api_key": "sk-bench"}
        config.write_text(json.dumps({"model_list": [{"model_name": "gpt-4o", "litellm_params": model}]}))
        command = [program, "--config", str(config), "--host", "127.0.0.1", "--port", str(self.port)]
        # Without these it fetches a table from the network at its start, and asks for keys.
        env = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True", _NO_KEYS: "true"}
        quiet = subprocess.DEVNULL
        self.process = subprocess.Popen(
            [*command, "--telemetry", "False"], stdout=quiet, stderr=quiet, env=env
        )
        until = time.monotonic() + 120
        while True:
            try:
                asyncio.run(load(self.port, 0, CLIENTS, False))
                return
            except (OSError, asyncio.IncompleteReadError, SystemExit):
                if time.monotonic() > until or self.process.poll() is not None:
                    raise SystemExit("the LiteLLM proxy did not start") from None
                time.sleep(0.5)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(30)


def litellm() -> str | None:
    """The LiteLLM proxy's program, where it is installed."""
    return shutil.which(os.environ.get("PRX_LITELLM", "litellm"))


def measure_litellm(case: str, program: str) -> dict[str, Any]:
    """The gateway with everything on and the LiteLLM proxy, taking turns; seconds of CPU per request."""
    kind = case.removeprefix("litellm_")
    streaming = kind == "stream"
    counts = {"ours": REQUESTS[kind], "litellm": LITELLM_REQUESTS[kind]}
    taken: dict[str, list[float]] = {"ours": [], "litellm": []}
    with tempfile.TemporaryDirectory() as folder:
        provider = Running("stub")
        upstream = f"http://127.0.0.1:{provider.port}/v1"
        ours = Running("ours", upstream, f"{folder}/home", "1")
        running: dict[str, Running | LiteLlm] = {
            "ours": ours,
            "litellm": LiteLlm(program, upstream, Path(folder)),
        }
        first = 0
        for turn in range(4):
            for name, one in running.items():
                before = cpu_seconds(one.process.pid)
                asyncio.run(load(one.port, first, counts[name], streaming))
                if turn:
                    taken[name].append((cpu_seconds(one.process.pid) - before) / counts[name])
            first += max(counts.values())
        for stopped in (*running.values(), provider):
            stopped.stop()
    mine, peer = (statistics.median(taken[name]) for name in taken)
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    return {
        "bench": "gateway",
        "case": f"gateway_{case}",
        "unit": "s",
        "ours": mine,
        "limit": peer / LITELLM_SHARE,
        "peer": peer,
        "peer_name": "LiteLLM proxy",
        "ratio_to_limit": mine * LITELLM_SHARE / peer,
        "ratio_to_peer": mine / peer,
        "n": 3 * counts["litellm"],
        "spread": max(taken["ours"]) - min(taken["ours"]),
        "note": f"{peer / mine:.0f} times less",
        "machine": f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}",
        "versions": {"litellm": version.strip().rsplit(" ", 1)[-1]},
    }


PACKAGES = ("starlette", "uvicorn", "aiohttp", "httptools", "uvloop")


def installed(name: str) -> str:
    """Version of a package, or that it is missing; uvicorn uses the last two where they are there."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def interactions(home: Path) -> int:
    from prx.spool.folder import segments
    from prx.spool.frames import Frame, pieces

    return sum(
        b'"type":"interaction"' in piece.payload
        for segment in segments(home / "spool")
        for piece in pieces(segment.read_bytes())
        if isinstance(piece, Frame)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    parser.add_argument("--case", choices=(*CASES, *LITELLM_CASES), help="only this case")
    parser.add_argument("--serve", nargs="+", help="one of the servers (used inside)")
    options = parser.parse_args()
    if options.serve:
        kind, *rest = options.serve
        if kind == "stub":
            serve_stub()
        elif kind == "bare":
            serve_bare(rest[0], faster=rest[1] == "1")
        else:
            serve_ours(rest[0], Path(rest[1]), rest[2] == "1")
        return
    program = litellm()
    for case in (options.case,) if options.case else (*CASES, *LITELLM_CASES):
        if case in LITELLM_CASES:
            if program is None:
                print(f"{case}: LiteLLM is not installed", file=sys.stderr)
                continue
            line = measure_litellm(case, program)
            if not options.json:
                times = f"ours {line['ours'] * 1e6:.0f} us, LiteLLM {line['peer'] * 1e6:.0f} us"
                print(f"{line['case']:24} {times}, {line['note']} (claimed: at least {LITELLM_SHARE})")
                continue
        else:
            line = measure(case)
        if options.json:
            print(json.dumps(line))
            continue
        print(
            f"{line['case']:24} ours {line['ours'] * 1e6:.0f} us, bare {line['peer'] * 1e6:.0f} us, "
            f"ratio {line['ratio_to_peer']:.2f} (claimed: at most {ALLOWED}), without httptools and uvloop "
            f"{line['ratio_to_plain_bare']:.2f}"
        )


if __name__ == "__main__":
    main()
