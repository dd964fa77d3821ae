"""What a running process serves while PostgreSQL holds the versions: restored within a second, kept through
an outage."""

import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

import postgres_server as pg
from prx.domain.versions import Manifest, MemoryState, PromptSet, Strategy, Version
from prx.ledger.port import Transaction
from prx.wiring.app import App, open_app

pytestmark = pytest.mark.full
NOW = datetime(2026, 12, 1, 8, 0, tzinfo=UTC)
SERVE = """
import sys, time
import prx
evolution = prx.open(sys.argv[1], config=sys.argv[2], env={})
last = None
while True:
    with evolution.session(user="u") as session:
        text = session.prompt("system", default="")
    if text != last:
        print(time.monotonic(), text, flush=True)  # one clock for all processes of the machine
        last = text
    time.sleep(0.01)
"""


@pytest.fixture(scope="module")
def server() -> Iterator[pg.PostgresServer]:
    if why := pg.missing():
        pytest.skip(why)
    with pg.own_server() as made:
        yield made


@pytest.fixture
def config(server: pg.PostgresServer, tmp_path: Path) -> Path:
    path = tmp_path / "prx.toml"
    path.write_text(f'[self_evolution.store]\nurl = "{server.new_database()}"\n')
    return path


@pytest.fixture
def app(config: Path, tmp_path: Path) -> Iterator[App]:
    opened = open_app(home=tmp_path / "operator", config=config, env={})
    yield opened
    opened.close()


def add(tx: Transaction, label: str) -> None:
    manifest = Manifest(
        prompt=tx.put_part(PromptSet(texts={"system": f"text of {label}"})),
        memory=tx.put_part(MemoryState()),
        strategy=tx.put_part(Strategy()),
    )
    tx.add_version(
        Version(
            snapshot_id=tx.ids.snapshot(tx.now),
            agent="default",
            label=label,
            created_at=tx.now,
            manifest=manifest,
        )
    )


@pytest.fixture
def serving(app: App, config: Path, tmp_path: Path) -> "Iterator[subprocess.Popen[str]]":
    """Another process that serves v1.1."""
    with app.ledger.transaction(now=NOW, actor="test") as tx:
        for number, label in enumerate(("v1.0", "v1.1")):
            add(tx, label)
            tx.point("default", label, expected=number or None)
    child = subprocess.Popen(
        [sys.executable, "-c", SERVE, str(tmp_path / "app"), str(config)], stdout=subprocess.PIPE, text=True
    )
    served = told(child)[1]
    if not served:  # the first read may come after the first answer
        served = told(child)[1]
    assert served == "text of v1.1"
    yield child
    child.kill()
    child.communicate()


def told(child: "subprocess.Popen[str]") -> tuple[float, str]:
    assert child.stdout is not None
    at, text = child.stdout.readline().rstrip("\n").split(" ", 1)
    return float(at), text


def test_another_process_serves_a_restored_version_within_a_second(
    app: App, serving: "subprocess.Popen[str]"
) -> None:
    waits = []
    for target in ("v1.0", "v1.1") * 3:
        app.engine.rollback("default", target=target, actor="person:test", now=NOW)
        committed = time.monotonic()
        at, text = told(serving)
        assert text == f"text of {target}"
        waits.append(at - committed)
    assert statistics.median(waits) <= 1.0


def test_serving_outlives_the_server_and_follows_it_again_when_it_is_back(
    app: App, serving: "subprocess.Popen[str]", server: pg.PostgresServer
) -> None:
    server.stop("immediate")
    assert serving.poll() is None
    server.start()
    app.engine.rollback("default", target="v1.0", actor="person:test", now=NOW)
    assert told(serving)[1] == "text of v1.0"  # no other text was ever served in between
