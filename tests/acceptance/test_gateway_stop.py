"""However a gateway ends, every request that it accepted has exactly one terminal record."""

import asyncio
import json
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import urllib3
from chat_server import chunk, completion
from gateway_house import (
    Provider,
    Reply,
    Seen,
    events,
    eventually,
    gateway,
    interactions,
    provider,
    served,
    spooled,
    stream,
    whole,
)

from prx.domain.records import Assignment, Exposure, Interaction, Terminal
from prx.records.memory import MemoryRecords
from prx.spool.ship import ship
from prx.wiring.paths import spool_folder

SYSTEM, TREATED = "You answer questions of customers.", "You answer questions of customers in one line."
# With an experiment on the system prompt, as the ledger would tell it.
VICTIM = f"""
import sys
from datetime import UTC, datetime
from pathlib import Path
import msgspec
from prx.domain.codec import content_hash
from prx.domain.layers import Layer
from prx.domain.serving import ServedExperiment, Serving
from prx.gateway.opening import serve
from prx.gateway.prompts.store import ACCEPTED, Accepted
from prx.gateway.rules import GatewayRules
from prx.gateway.serving import LedgerReader
SYSTEM, TREATED = {SYSTEM!r}, {TREATED!r}
folder = Path(sys.argv[2]) / "prompts"
folder.mkdir(parents=True, exist_ok=True)
now = datetime(2026, 1, 1, tzinfo=UTC)
accepted = Accepted(agent="default", name="support", text=SYSTEM, slots=(), at=now)
(folder / ACCEPTED).write_bytes(msgspec.json.encode((accepted,)))
trial = ServedExperiment(experiment_id="e", layer=Layer.PROMPT, ramp=1.0, traffic_split=0.5, ramp_salt="r",
    variant_salt="v", prompts={{"support": TREATED}})
LedgerReader.read = lambda _self, agent: Serving(agent=agent, version="v1.0", prompts={{"support": SYSTEM}},
    baselines={{"support": (content_hash(SYSTEM),)}}, experiments=(trial,))
rules = GatewayRules(upstream=sys.argv[1], home=Path(sys.argv[2]), port=0)
serve(rules, config=None, env={{}}, announce=lambda url: print(url, flush=True))
"""


def body_of(ref: str, streaming: bool, system: str | None = None) -> bytes:
    said = [{"role": "user", "content": ref}]
    if system is not None:
        said.insert(0, {"role": "system", "content": system})
    return json.dumps({"model": "m", "messages": said, "stream": streaming}).encode()


def slow_stream(seconds: float, pieces: int = 40) -> Reply:
    parts = [chunk({"content": f"w{n} "}) for n in range(pieces)]
    return stream(events(*parts, chunk({}, "stop")), gap=seconds / pieces)


def open_stream(url: str, ref: str) -> urllib3.BaseHTTPResponse:
    pool = urllib3.PoolManager(retries=False)
    return pool.request(
        "POST",
        f"{url}/chat/completions",
        body=body_of(ref, True),
        headers={"X-PRX-Ref": ref},
        preload_content=False,
    )


class Load:
    """Clients that ask without pause and note whose answers they saw whole."""

    def __init__(self, url: str, seed: int) -> None:
        self.acknowledged: list[str] = []
        self._stop = threading.Event()
        self._url = url
        self._threads = [threading.Thread(target=self._ask, args=(f"{seed}-{n}",)) for n in range(6)]

    def __enter__(self) -> "Load":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _ask(self, name: str) -> None:
        pool = urllib3.PoolManager(retries=False)
        number = 0
        while not self._stop.is_set():
            number += 1
            streaming = number % 2 == 0
            ref = f"{name}-{number}"
            try:
                answer = pool.request(
                    "POST",
                    f"{self._url}/chat/completions",
                    body=body_of(ref, streaming, SYSTEM),
                    headers={"X-PRX-Ref": ref, "X-PRX-Session": f"session-{ref}"},
                )
            except (urllib3.exceptions.HTTPError, OSError):
                continue
            if answer.status == 200 and (not streaming or answer.data.endswith(b"data: [DONE]\n\n")):
                self.acknowledged.append(ref)


def quick(seen: Seen) -> Reply:
    if seen.json["stream"]:
        return stream(events(*(chunk({"content": f"{n}"}) for n in range(8)), chunk({}, "stop")), gap=0.002)
    return whole(completion(), delay=0.004)


def refs_seen(upstream: Provider) -> set[str]:
    return {seen.json["messages"][-1]["content"] for seen in upstream.seen}


@pytest.mark.parametrize("kills", [20, pytest.param(200, marks=pytest.mark.slow)])
def test_kill_9_under_load_leaves_one_terminal_record_for_every_request(tmp_path: Path, kills: int) -> None:
    rng = random.Random(kills)
    acknowledged: list[str] = []
    with provider(quick) as upstream:
        for kill in range(kills):
            command = [sys.executable, "-c", VICTIM, upstream.url, str(tmp_path)]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            assert process.stdout is not None
            url = process.stdout.readline().decode().strip()
            with Load(url, kill) as load:
                eventually(lambda load=load: len(load.acknowledged) > 5)
                time.sleep(rng.random() * 0.1)
                process.kill()
                process.wait()
            process.stdout.close()
            acknowledged += load.acknowledged
        asked = refs_seen(upstream)
        treated = {
            seen.json["messages"][-1]["content"]
            for seen in upstream.seen
            if seen.json["messages"][0]["content"] == TREATED
        }
        with gateway(tmp_path, upstream.url):
            pass
    found = Counter(record.ref for record in interactions(tmp_path))
    assert len(acknowledged) > 5 * kills
    assert set(acknowledged) <= asked
    assert {ref: found[ref] for ref in asked if found[ref] != 1} == {}
    done = {r.ref for r in interactions(tmp_path) if r.terminal is Terminal.COMPLETED}
    assert set(acknowledged) <= done
    assert any(r.terminal is Terminal.CRASHED for r in interactions(tmp_path))
    replayed_twice(tmp_path, len(asked))
    assigned_before_the_outcome(spooled(tmp_path), treated)


def assigned_before_the_outcome(records: list[Any], treated: set[str]) -> None:
    """No arm is noted once its outcome is there, and nobody was treated without a note of it."""
    noted: set[str] = set()
    over: set[str] = set()
    for record in records:
        if isinstance(record, Assignment | Exposure):
            assert record.session_id not in over
            noted.add(record.session_id)
        elif isinstance(record, Interaction):
            over.add(record.session_id)
    assert {f"session-{ref}" for ref in treated} <= noted
    assert 0 < len(treated) < len(noted)


def replayed_twice(home: Path, least: int) -> None:
    from datetime import UTC, datetime

    store, now = MemoryRecords(), datetime(2026, 12, 2, tzinfo=UTC)
    ship(spool_folder(home), store.append, now=now)
    before = store.counts()
    records = spooled(home)
    assert store.append(records) == 0
    assert store.counts() == before
    assert len({r.record_id for r in records if isinstance(r, Interaction)}) >= least


def test_sigterm_during_20_second_streams_loses_no_record(tmp_path: Path) -> None:
    with provider(lambda _seen: slow_stream(20.0)) as upstream:
        with served(tmp_path, upstream.url, "--no-evolution", "--drain", "0.5") as (process, url):
            with ThreadPoolExecutor(8) as pool:
                answers = list(pool.map(lambda n: open_stream(url, f"s-{n}"), range(8)))
                for answer in answers:
                    assert answer.read(10)
                quickly = pool.submit(lambda: [a.read() for a in answers])
                process.send_signal(signal.SIGTERM)
                rests = quickly.result(20)
            assert process.wait(10) == 0
    assert all(b'"code": "shutdown"' in rest for rest in rests)
    records = interactions(tmp_path)
    assert sorted(r.ref or "" for r in records) == [f"s-{n}" for n in range(8)]
    assert {r.terminal for r in records} == {Terminal.SHUTDOWN_CUT}
    assert all(r.response and r.response.startswith("w0 ") for r in records)


def test_requests_under_way_finish_within_the_drain_time(tmp_path: Path) -> None:
    with provider(lambda _seen: slow_stream(0.6, 6)) as upstream:
        with gateway(tmp_path, upstream.url, drain_seconds=10.0) as running:
            answer = open_stream(running.url, "s")
            answer.read(10)
            running.stop()
            assert answer.read().endswith(b"data: [DONE]\n\n")
            running.wait()
            with pytest.raises(urllib3.exceptions.HTTPError):
                open_stream(running.url, "late")
    (record,) = interactions(tmp_path)
    assert record.terminal is Terminal.COMPLETED


def test_a_plain_request_that_is_cut_gets_an_answer_and_its_record(tmp_path: Path) -> None:
    with provider(lambda _seen: whole(completion(), delay=30.0)) as upstream:
        with gateway(tmp_path, upstream.url, drain_seconds=0.1) as running:
            with ThreadPoolExecutor(1) as pool:
                pending = pool.submit(
                    lambda: urllib3.request(
                        "POST", f"{running.url}/chat/completions", body=body_of("p", False)
                    )
                )
                eventually(lambda: upstream.seen)
                running.stop()
                answer = pending.result(10)
            running.wait()
    assert answer.status == 503
    assert answer.json()["error"]["code"] == "shutdown"
    (record,) = interactions(tmp_path)
    assert record.terminal is Terminal.SHUTDOWN_CUT


@pytest.mark.parametrize("streaming", [True, False])
def test_a_client_that_leaves_cancels_upstream_and_is_recorded(tmp_path: Path, streaming: bool) -> None:
    slow: Any = (lambda _s: slow_stream(20.0)) if streaming else (lambda _s: whole(completion(), delay=20.0))
    with provider(slow) as upstream, gateway(tmp_path, upstream.url) as running:

        async def leave() -> None:
            host, port = running.url.split("/")[2].split(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            body = body_of("x", streaming)
            writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\n")
            writer.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
            await writer.drain()
            if streaming:
                await reader.readuntil(b"w0 ")
            else:
                await asyncio.to_thread(eventually, lambda: upstream.seen)
            writer.close()
            await writer.wait_closed()

        asyncio.run(leave())
        (record,) = eventually(lambda: interactions(tmp_path))
        assert record.terminal is Terminal.CLIENT_CANCELLED
        assert record.external_failure
        assert (record.response or "").startswith("w0 ") is streaming
        eventually(lambda: upstream.gone == 1)
    assert len(interactions(tmp_path)) == 1


def test_a_client_that_leaves_after_the_model_was_done_had_a_completed_answer(tmp_path: Path) -> None:
    done = [*events(chunk({"content": "Hi"}), chunk({}, "stop"), done=False), *[b": wait\n\n"] * 400]
    with provider(lambda _s: stream(done, gap=0.05)) as upstream, gateway(tmp_path, upstream.url) as running:
        answer = open_stream(running.url, "x")
        read = b""
        while b'"stop"' not in read:
            read += answer.read1()
        answer.close()
        (record,) = eventually(lambda: interactions(tmp_path))
        assert (record.terminal, record.response) == (Terminal.COMPLETED, "Hi")


def test_serving_goes_on_without_a_store(tmp_path: Path) -> None:
    (tmp_path / "ledger.sqlite").write_bytes(b"this is no database" * 500)
    (tmp_path / "records.sqlite").mkdir()
    with provider(lambda _seen: whole(completion())) as upstream, gateway(tmp_path, upstream.url) as running:
        answer = urllib3.request("POST", f"{running.url}/chat/completions", body=body_of("x", False))
        assert answer.status == 200
        base = running.url.removesuffix("/v1")
        eventually(lambda: urllib3.request("GET", f"{base}/health").json()["status"] == "degraded")
        assert urllib3.request("GET", f"{base}/readyz").status == 200
        assert len(interactions(tmp_path)) == 1


def test_prx_serve_loads_no_numeric_library_and_starts_a_worker_that_ships(tmp_path: Path) -> None:
    with provider(lambda _seen: whole(completion())) as upstream:
        with served(tmp_path, upstream.url, "--drain", "1") as (process, url):
            assert urllib3.request("POST", f"{url}/chat/completions", body=body_of("x", False)).status == 200
            maps = Path(f"/proc/{process.pid}/maps").read_text()
            assert "numpy" not in maps
            assert "scipy" not in maps
            eventually((tmp_path / "records.sqlite").exists, 60)
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
