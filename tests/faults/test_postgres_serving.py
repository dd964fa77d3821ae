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
from prx.domain.experiments import Experiment, ExperimentStatus, Plan, Variant
from prx.domain.layers import Layer
from prx.domain.versions import Manifest, MemoryState, PromptSet, Strategy, Version
from prx.ledger.port import Transaction
from prx.wiring.app import App, open_app

pytestmark = pytest.mark.full
NOW = datetime(2026, 12, 1, 8, 0, tzinfo=UTC)
SERVE = """
import sys, time
import prx
from prx.wiring.sdk import open_evolution
evolution = open_evolution(sys.argv[1], config=sys.argv[2], env={}, poll_seconds=float(sys.argv[3]))
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


def running(tx: Transaction) -> Experiment:
    """An experiment that treats everybody."""
    control = tx.version("default", "v1.1").manifest
    treated = control.with_part(
        Layer.PROMPT, tx.put_part(PromptSet(texts={"system": "text of the treatment"}))
    )
    arms = (("control", control), ("treatment", treated))
    plan = Plan(
        traffic_split=1.0, ramp=1.0, confidence_level=0.95, min_effect_size=0.02, effect_scale="absolute",
        min_sample_size=100, min_units=20, default_duration_hours=168, min_duration_hours=24,
        max_duration_hours=720, check_interval_hours=24, outcome_window_hours=24, randomization_unit="user",
        spending="hsd", planned_sample="power", planned_looks=7, act_on_futility=False, weights={}, rho=0.2,
        max_regression=0.1, ramp_salt="r", variant_salt="v",
    )  # fmt: skip
    made = [Variant(name=name, description=name, manifest=manifest) for name, manifest in arms]
    return Experiment(
        experiment_id="e", decision_id="d", layer=Layer.PROMPT, status=ExperimentStatus.RUNNING,
        created_at=NOW, control=made[0], treatment=made[1], plan=plan,
    )  # fmt: skip


@pytest.fixture
def serving(
    request: pytest.FixtureRequest, app: App, config: Path, tmp_path: Path
) -> "Iterator[subprocess.Popen[str]]":
    """Another process that serves v1.1, and reads again as often as the test says."""
    every = str(getattr(request, "param", 0.5))
    with app.ledger.transaction(now=NOW, actor="test") as tx:
        for number, label in enumerate(("v1.0", "v1.1")):
            add(tx, label)
            tx.point("default", label, expected=number or None)
    child = subprocess.Popen(
        [sys.executable, "-c", SERVE, str(tmp_path / "app"), str(config), every],
        stdout=subprocess.PIPE,
        text=True,
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


@pytest.mark.parametrize("serving", [3600.0, 0.5], indirect=True, ids=["announced", "polled"])
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


@pytest.mark.parametrize("serving", [3600.0], indirect=True)
def test_a_kill_is_heard_at_once_and_a_lost_connection_is_made_up_for(
    app: App, serving: "subprocess.Popen[str]", server: pg.PostgresServer, config: Path
) -> None:
    base = pg.database_of(config.read_text().split('"')[1])
    with app.ledger.transaction(now=NOW, actor="test") as tx:
        tx.put(running(tx))
    arms = told(serving)[1]
    assert arms == "text of the treatment"
    app.engine.kill("default", actor="person:test", why="drill", now=NOW)
    assert told(serving)[1] == "text of v1.1"
    # what was announced while nobody was connected is read once somebody is again
    listening = f"FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = '{base}'"
    assert server.say(f"SELECT pg_terminate_backend(pid) {listening}") == [(True,)]
    app.engine.rollback("default", target="v1.0", actor="person:test", now=NOW)
    assert told(serving)[1] == "text of v1.0"


def test_serving_outlives_the_server_and_follows_it_again_when_it_is_back(
    app: App, serving: "subprocess.Popen[str]", server: pg.PostgresServer
) -> None:
    server.stop("immediate")
    assert serving.poll() is None
    server.start()
    app.engine.rollback("default", target="v1.0", actor="person:test", now=NOW)
    assert told(serving)[1] == "text of v1.0"  # no other text was ever served in between
