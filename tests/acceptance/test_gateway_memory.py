"""Memory of a gateway under a million requests: what it keeps is bounded, so that it does not grow."""

import asyncio
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from chat_server import completion
from gateway_house import served

# Up to 65,536 hashes of served answers are kept, one for every second request here.
WARM = 140_000
REQUESTS = int(os.environ.get("PRX_SLOW_REQUESTS", "1000000"))
CLIENTS = 8
# Room for pages that fill up differently; a leak of one small object per request is 50 MB in a million.
ALLOWED = 16 * 1024 * 1024


async def stub(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    body = json.dumps(completion()).encode()
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
    try:
        while True:
            asked = (await reader.readuntil(b"\r\n\r\n")).lower()
            await reader.readexactly(int(asked.split(b"content-length:", 1)[1].split(b"\r\n", 1)[0]))
            writer.write(head + body)
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


@contextmanager
def provider() -> Iterator[str]:
    loop, ready = asyncio.new_event_loop(), threading.Event()
    servers: list[asyncio.Server] = []

    async def start() -> None:
        servers.append(await asyncio.start_server(stub, "127.0.0.1", 0))
        ready.set()

    asyncio.run_coroutine_threadsafe(start(), loop)
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    ready.wait(10)
    yield f"http://127.0.0.1:{servers[0].sockets[0].getsockname()[1]}/v1"
    loop.call_soon_threadsafe(servers[0].close)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)
    loop.close()


async def ask(port: int, numbers: range) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for number in numbers:
        system = f"You help the customer number {number} of a parcel service with what they ask."
        messages = [{"role": "system", "content": system}, {"role": "user", "content": f"Where is {number}?"}]
        # Half of the requests name their conversation; the others are recognised by what was served.
        named = f"x-prx-session: s-{number}\r\nx-prx-user: u-{number}\r\n" if number % 2 else ""
        body = json.dumps({"model": "m", "messages": messages}).encode()
        head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n{named}content-length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        got = (await reader.readuntil(b"\r\n\r\n")).lower()
        assert got.startswith(b"http/1.1 200 ")
        await reader.readexactly(int(got.split(b"content-length:", 1)[1].split(b"\r\n", 1)[0]))
    writer.close()


async def load(port: int, first: int, count: int) -> None:
    await asyncio.gather(*(ask(port, range(first + c, first + count, CLIENTS)) for c in range(CLIENTS)))


def resident(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


@pytest.mark.slow
def test_memory_is_flat_over_a_million_requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Without bodies the spool stays below its cap, which is not what is measured here.
    monkeypatch.setenv("PRX__RECORD__CONTENT", "none")
    with provider() as upstream, served(tmp_path, upstream) as (process, url):
        port = int(url.split(":")[2].split("/")[0])
        asyncio.run(load(port, 0, WARM))
        before = resident(process.pid)
        asyncio.run(load(port, WARM, REQUESTS))
        grown = resident(process.pid) - before
        process.terminate()
        assert process.wait(60) == 0
    told = f"{before} bytes after {WARM} requests, {grown / REQUESTS:.2f} more per request over {REQUESTS}"
    (tmp_path / "memory.txt").write_text(told)
    assert grown <= ALLOWED, told
