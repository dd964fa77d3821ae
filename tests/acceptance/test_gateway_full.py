"""A disk or a spool without room: serving goes on or is refused, as the operator said; gaps are counted."""

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import urllib3
from chat_server import completion
from gateway_house import Provider, eventually, gateway, interactions, provider, spooled, whole

from prx.domain.records import Terminal
from prx.records.memory import MemoryRecords
from prx.spool.gaps import gaps_of
from prx.spool.ship import ship
from prx.wiring.paths import spool_folder

POOL = urllib3.PoolManager(retries=False)
# In a mount of its own the folder is a file system of 12 MB; what is in it at the end is copied out.
VICTIM = """
import shutil, sys
from pathlib import Path
from prx.gateway.opening import serve
from prx.gateway.rules import GatewayRules
rules = GatewayRules(upstream=sys.argv[1], home=Path(sys.argv[2]), port=0, drain_seconds=1)
serve(rules, config=None, env={}, announce=lambda url: print(url, flush=True))
shutil.copytree(sys.argv[2], sys.argv[3])
"""
IN_A_SMALL_DISK = 'mount -t tmpfs -o size=12m none "$1" && exec "$2" -c "$3" "$4" "$1" "$5"'


def ask(url: str, ref: str, text: str = "hi") -> Any:
    body = {"model": "m", "messages": [{"role": "user", "content": text}]}
    headers = {"x-prx-ref": ref}
    return POOL.request("POST", f"{url}/chat/completions", body=json.dumps(body), headers=headers)


def can_mount() -> bool:
    if shutil.which("unshare") is None:
        return False
    command = ["unshare", "-Urm", "mount", "-t", "tmpfs", "none", "/mnt"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not can_mount(), reason="this machine lets no test mount a file system of its own")
def test_on_a_full_disk_serving_goes_on_and_the_reserve_keeps_every_envelope(
    tmp_path: Path,
) -> None:
    home, out = tmp_path / "home", tmp_path / "out"
    home.mkdir()
    with provider(lambda _seen: whole(completion())) as upstream:
        command = ["unshare", "-Urm", "sh", "-c", IN_A_SMALL_DISK, "sh", str(home), sys.executable]
        command += [VICTIM, upstream.url, str(out)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            assert process.stdout is not None
            url = process.stdout.readline().decode().strip()
            statuses = {f"big-{n}": ask(url, f"big-{n}", f"{n} " * 100_000).status for n in range(40)}
            statuses |= {f"small-{n}": ask(url, f"small-{n}").status for n in range(40)}
            health = POOL.request("GET", f"{url.removesuffix('/v1')}/health").json()
            ready = POOL.request("GET", f"{url.removesuffix('/v1')}/readyz").status
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
        finally:
            process.kill()
            process.wait()
            process.stdout.close() if process.stdout else None
        asked = len(upstream.seen)
    assert set(statuses.values()) == {200}
    assert asked == 80
    assert ready == 200
    found = interactions(out)
    full = [r for r in found if r.messages and r.messages[0].content]
    assert 5 < len(full) < len(found)
    # The reserve was given to envelopes, and there was room in it for all of them.
    assert sorted(r.ref or "" for r in found) == sorted(statuses)
    assert gaps_of(spool_folder(out)).records == 0
    assert {r.ref for r in found if r.messages and not r.messages[0].content} >= {"small-39"}
    assert health["status"] in ("ok", "degraded")
    store = MemoryRecords()
    assert ship(spool_folder(out), store.append, now=found[0].at).damaged == ()


def limited(home: Path, on_full: str) -> None:
    home.mkdir(exist_ok=True)
    (home / "prx.toml").write_text(
        f'[self_evolution.record]\nspool_max_bytes = 1048576\non_full = "{on_full}"\n', encoding="utf-8"
    )


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


def fill(url: str, upstream: Provider) -> list[int]:
    return [ask(url, f"r-{n}", "x" * 50_000).status for n in range(30)] + [
        ask(url, f"e-{n}").status for n in range(1500)
    ]


def test_a_full_spool_serves_the_champion_and_counts_the_gap(here: Path) -> None:
    limited(here, "serve")
    with provider(lambda _seen: whole(completion())) as upstream, gateway(here, upstream.url) as running:
        statuses = fill(running.url, upstream)
        assert set(statuses) == {200}
        recorder = running.gateway._recorder
        assert recorder.champion_only
        base = running.url.removesuffix("/v1")
        health = POOL.request("GET", f"{base}/health").json()
        text = POOL.request("GET", f"{base}/metrics").data.decode()
        kept = len(interactions(here))
    lost = gaps_of(spool_folder(here)).records
    assert 0 < kept < len(statuses)
    assert kept + lost >= len(statuses)
    assert health["status"] == "degraded"
    assert any("spool" in problem for problem in health["problems"])
    assert f"prx_spool_gaps_total {lost}" in text.replace(f"{lost:g}", str(lost))
    assert all(r.terminal is Terminal.COMPLETED for r in interactions(here))


def test_a_full_spool_refuses_before_the_provider_is_asked_when_the_operator_said_so(here: Path) -> None:
    limited(here, "refuse")
    with provider(lambda _seen: whole(completion())) as upstream, gateway(here, upstream.url) as running:
        statuses = fill(running.url, upstream)
        refused = ask(running.url, "one more")
        asked = len(upstream.seen)
    assert set(statuses) == {200, 503}
    assert statuses == sorted(statuses), "once it is full it stays full until somebody ships"
    assert asked == statuses.count(200)
    assert refused.json()["error"]["code"] == "spool_full"
    assert len(interactions(here)) == asked, "what was served was recorded"
    assert gaps_of(spool_folder(here)).records == 0


def test_a_spool_that_is_shipped_has_room_again(here: Path) -> None:
    limited(here, "refuse")
    store = MemoryRecords()
    with provider(lambda _seen: whole(completion())) as upstream, gateway(here, upstream.url) as running:
        fill(running.url, upstream)
        assert ask(running.url, "full").status == 503
        recorder = running.gateway._recorder
        recorder.spool.close()
        ship(spool_folder(here), store.append, now=recorder.now())
        assert eventually(lambda: ask(running.url, "room").status == 200)
    assert "room" in {r.ref for r in interactions(here)}


def test_a_home_that_is_removed_under_a_running_gateway_costs_no_record_of_the_open_segment(
    tmp_path: Path,
) -> None:
    home = tmp_path / "home"
    with provider(lambda _seen: whole(completion())) as upstream, gateway(home, upstream.url) as running:
        for n in range(3):
            ask(running.url, f"r-{n}")
        shutil.rmtree(home)
        assert ask(running.url, "r-3").status == 200
        eventually(lambda: spool_folder(home).is_dir() and spooled(home))
    assert sorted(r.ref or "" for r in interactions(home)) == [f"r-{n}" for n in range(4)]
    assert len(spooled(home)) > 4
