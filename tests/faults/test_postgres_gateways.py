"""Several gateways over one PostgreSQL: one champion, one kill switch, one store of records."""

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import urllib3
from chat_server import completion
from gateway_house import Provider, Running, eventually, gateway, provider, whole

from prx.domain.versions import Manifest, MemoryState, PromptSet, Strategy, Version
from prx.gateway.prompts.store import ACCEPTED
from prx.records.postgres import open_postgres
from prx.settings import load
from prx.wiring.app import App, open_app

pytestmark = pytest.mark.full
POOL = urllib3.PoolManager(retries=False)
NOW = datetime(2026, 12, 1, 8, 0, tzinfo=UTC)
SENT, BETTER = "You help with parcels, and you are kind to people.", "You help with parcels in two sentences."


@pytest.fixture
def upstream() -> Iterator[Provider]:
    with provider(lambda _seen: whole(completion())) as one:
        yield one


@pytest.fixture
def config(postgres_url: str, tmp_path: Path) -> Path:
    path = tmp_path / "prx.toml"
    path.write_text(f'[self_evolution.store]\nurl = "{postgres_url}"\n')
    return path


@pytest.fixture
def operator(config: Path, tmp_path: Path) -> Iterator[App]:
    opened = open_app(home=tmp_path / "operator", config=config, env={})
    yield opened
    opened.close()


@pytest.fixture
def gateways(tmp_path: Path, config: Path, upstream: Provider) -> Iterator[list[Running]]:
    with ExitStack() as stack:
        running = []
        for name in ("one", "two"):
            prompts = tmp_path / name / "prompts"
            prompts.mkdir(parents=True)
            accepted = [{"agent": "default", "name": "support", "text": SENT, "at": NOW.isoformat()}]
            (prompts / ACCEPTED).write_text(json.dumps(accepted))
            running.append(stack.enter_context(gateway(tmp_path / name, upstream.url, config=config)))
        yield running


def ask(running: Running, upstream: Provider, session: str) -> str:
    """The system prompt that the provider got."""
    body = {
        "model": "m",
        "messages": [{"role": "system", "content": SENT}, {"role": "user", "content": "hi"}],
    }
    headers = {"X-PRX-Session": session}
    POOL.request("POST", f"{running.url}/chat/completions", body=json.dumps(body), headers=headers)
    text: str = upstream.seen[-1].json["messages"][0]["content"]
    return text


def test_gateways_share_records_champion_and_kill_switch(
    gateways: list[Running], operator: App, upstream: Provider, tmp_path: Path, config: Path
) -> None:
    for n, running in enumerate(gateways):
        assert ask(running, upstream, f"s-{n}") == SENT
    for name in ("one", "two"):
        # What `prx serve` starts beside each gateway.
        with closing(open_app(home=tmp_path / name, config=config, env={})) as worker:
            worker.advance()
    with closing(open_postgres(load(config, {}).store.url)) as records:
        traces = [records.trace(f"s-{n}") for n in range(2)]
        assert [trace and trace.start.source for trace in traces] == ["gateway"] * 2
    with operator.ledger.transaction(now=NOW, actor="person:test") as tx:
        manifest = Manifest(
            prompt=tx.put_part(PromptSet(texts={"support": BETTER})),
            memory=tx.put_part(MemoryState()),
            strategy=tx.put_part(Strategy()),
        )
        first = tx.pointer("default")
        assert first is not None
        tx.add_version(
            Version(
                snapshot_id=tx.ids.snapshot(NOW),
                agent="default",
                label="v9.0",
                created_at=NOW,
                manifest=manifest,
            )
        )
        tx.point("default", "v9.0", expected=first.revision)
    for running in gateways:
        eventually(lambda one=running: ask(one, upstream, f"new-{time.monotonic()}") == BETTER)
    operator.engine.kill("default", actor="person:test", why="a test", now=NOW)
    for running in gateways:
        eventually(lambda one=running: health(one)["killed"])


def health(running: Running) -> Any:
    return POOL.request("GET", f"{running.url.removesuffix('/v1')}/health").json()
