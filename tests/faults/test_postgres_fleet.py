"""Four processes on one PostgreSQL: one assignment, nothing lost over restarts, and no work done twice."""

import json
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from prx.domain.answers import Passed
from prx.domain.events import Control, Due
from prx.domain.experiments import Experiment, ExperimentStatus, Plan, Variant
from prx.domain.layers import Layer
from prx.domain.versions import Manifest, MemoryState, PromptSet, Strategy, Version
from prx.engine.lease import leased
from prx.ledger import verify_chain
from prx.ledger.port import Transaction
from prx.views.audit import verify
from prx.wiring.app import App, open_app

pytestmark = pytest.mark.full
NOW = datetime(2026, 12, 1, 8, 0, tzinfo=UTC)
FLEET, USERS = 4, 40
DAILY = ("analysis",)
ARMS = """
import json, sys
from prx.wiring.sdk import open_evolution
evolution = open_evolution(sys.argv[1], config=sys.argv[2], env={})
def text(user):
    with evolution.session(user=user) as session:
        return session.prompt("system", default="")
while not text("warm"):
    pass
print(json.dumps({f"user-{n}": text(f"user-{n}") for n in range(int(sys.argv[3]))}), flush=True)
evolution.close()
"""
RECORD = """
import sys
from prx.wiring.sdk import open_evolution
evolution = open_evolution(sys.argv[1], config=sys.argv[2], env={})
number = 0
while True:
    key = f"{sys.argv[3]}-{number}"
    with evolution.session(session_id=key, user="u") as session:
        session.prompt("system", default="You help.")
        with session.call(model="m", messages=key) as call:
            call.reply(text="yes")
    evolution.flush(5)
    print(key, flush=True)
    number += 1
"""
HOLD_LEASE = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from prx.domain.events import Control
from prx.engine.lease import Busy, leased
from prx.wiring.app import open_app
now = datetime(2026, 12, 1, 8, 0, tzinfo=UTC)
app = open_app(home=Path(sys.argv[1]), config=Path(sys.argv[2]), env={})
with leased(app.engine.context, "default", now) as lease:
    print("held", flush=True)
    sys.stdin.readline()
    try:
        with lease.transaction(now) as tx:
            tx.audit("late", "default", {})
        print("written", flush=True)
    except Busy as error:
        print(error, flush=True)
"""


@pytest.fixture
def config(postgres_url: str, tmp_path: Path) -> Path:
    path = tmp_path / "prx.toml"
    path.write_text(f'[self_evolution]\nenabled = true\n[self_evolution.store]\nurl = "{postgres_url}"\n')
    return path


@pytest.fixture
def operator(config: Path, tmp_path: Path) -> Iterator[App]:
    with closing(open_app(home=tmp_path / "operator", config=config, env={}, now=lambda: NOW)) as app:
        yield app


def child(script: str, *given: object) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, given)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def experiment(tx: Transaction) -> None:
    manifest = Manifest(
        prompt=tx.put_part(PromptSet(texts={"system": "control"})),
        memory=tx.put_part(MemoryState()),
        strategy=tx.put_part(Strategy()),
    )
    tx.add_version(
        Version(snapshot_id="snap_1", agent="default", label="v1.0", created_at=NOW, manifest=manifest)
    )
    tx.point("default", "v1.0", expected=None)
    treated = manifest.with_part(Layer.PROMPT, tx.put_part(PromptSet(texts={"system": "treatment"})))
    plan = Plan(
        traffic_split=0.5, ramp=1.0, confidence_level=0.95, min_effect_size=0.02, effect_scale="absolute",
        min_sample_size=100, min_units=20, default_duration_hours=168, min_duration_hours=24,
        max_duration_hours=720, check_interval_hours=24, outcome_window_hours=24, randomization_unit="user",
        spending="hsd", planned_sample="power", planned_looks=7, act_on_futility=False, weights={}, rho=0.2,
        max_regression=0.1, ramp_salt="r", variant_salt="v",
    )  # fmt: skip
    arms = [
        Variant(name=name, description=name, manifest=one)
        for name, one in (("control", manifest), ("treatment", treated))
    ]
    tx.put(
        Experiment(
            experiment_id="e", decision_id="d", layer=Layer.PROMPT, status=ExperimentStatus.RUNNING,
            created_at=NOW, control=arms[0], treatment=arms[1], plan=plan,
        )
    )  # fmt: skip


def test_a_user_is_in_one_arm_in_every_process(operator: App, config: Path, tmp_path: Path) -> None:
    with operator.ledger.transaction(now=NOW, actor="test") as tx:
        experiment(tx)
    fleet = [child(ARMS, tmp_path / f"app-{n}", config, USERS) for n in range(FLEET)]
    told = [json.loads(one.communicate(timeout=120)[0]) for one in fleet]
    assert all(one == told[0] for one in told)
    assert set(Counter(told[0].values())) == {"control", "treatment"}


def test_a_rolling_restart_loses_no_acknowledged_session(operator: App, config: Path, tmp_path: Path) -> None:
    rng, acknowledged = random.Random(5), set[str]()

    def read(one: "subprocess.Popen[str]", lines: int) -> None:
        assert one.stdout is not None
        acknowledged.update(one.stdout.readline().strip() for _ in range(lines))

    def start(n: int, turn: int) -> "subprocess.Popen[str]":
        return child(RECORD, tmp_path / f"app-{n}", config, f"s-{n}-{turn}")

    fleet = [start(n, 0) for n in range(FLEET)]
    for n in range(FLEET):
        read(fleet[n], 5)
        fleet[n].send_signal(rng.choice((signal.SIGKILL, signal.SIGTERM)))
        out = fleet[n].stdout
        assert out is not None
        rest = out.read()  # not communicate(): it would miss what readline() has buffered
        fleet[n].communicate(timeout=60)
        acknowledged.update(line for line in rest.splitlines(keepends=True) if line.endswith("\n"))
        fleet[n] = start(n, 1)
        read(fleet[n], 5)
    for one in fleet:
        one.kill()
        one.communicate(timeout=60)
    for n in range(FLEET):
        with closing(open_app(home=tmp_path / f"app-{n}", config=config, env={})) as app:
            app.ship()
            again = app.ship()
            assert again.new == 0
    stored = Counter(trace.start.session_id for trace in operator.records.traces())
    wanted = {key.strip() for key in acknowledged if key.strip()}
    assert len(wanted) >= 10 * FLEET
    assert wanted <= stored.keys()
    assert set(stored.values()) == {1}
    for key in wanted:
        trace = operator.records.trace(key)
        assert trace is not None
        assert len(trace.interactions) == 1


def test_a_worker_that_was_suspended_past_its_lease_writes_nothing(
    operator: App, config: Path, tmp_path: Path
) -> None:
    one = child(HOLD_LEASE, tmp_path / "app-0", config)
    assert one.stdout is not None
    assert one.stdin is not None
    assert one.stdout.readline() == "held\n"
    one.send_signal(signal.SIGSTOP)
    with operator.ledger.transaction(now=NOW, actor="test") as tx:
        tx.put(Control(agent="default"))
    later = open_app(home=tmp_path / "app-1", config=config, env={}, now=lambda: NOW + timedelta(minutes=16))
    with closing(later) as app:
        with leased(app.engine.context, "default", app.now()):
            one.send_signal(signal.SIGCONT)
            one.stdin.write("go on\n")
            one.stdin.flush()
            assert (
                "another process took over agent 'default'; nothing was written here" in one.stdout.readline()
            )
    one.communicate(timeout=60)
    with operator.ledger.view() as view:
        assert "late" not in [row.kind for row in view.audit_rows()]
        assert verify(view).whole


def test_machines_whose_clocks_disagree_do_no_job_twice_in_its_time(
    operator: App, config: Path, tmp_path: Path
) -> None:
    skews = (timedelta(minutes=-90), timedelta(0), timedelta(minutes=30), timedelta(hours=2))
    clock, days = {"now": NOW}, 4
    fleet = [
        open_app(home=tmp_path / f"app-{n}", config=config, env={}, now=lambda s=skew: clock["now"] + s)
        for n, skew in enumerate(skews)
    ]
    with operator.ledger.transaction(now=NOW, actor="test") as tx:
        tx.put(Control(agent="default"))
    errors = list[str]()

    def work(app: App) -> None:
        errors.extend(f"{one.what}: {one.why}" for one in app.advance().steps if one.answer == "error")

    for day in range(days):
        clock["now"] = NOW + timedelta(days=day)
        threads = [threading.Thread(target=work, args=(app,)) for app in fleet]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [one for one in errors if "took over" not in one] == []
    with operator.ledger.view() as view:
        assert isinstance(verify_chain(view.audit_rows()), Passed)
        runs = {one.job: one.runs for one in view.find(Due, agent="default")}
    daily = {job: count for job, count in runs.items() if job in DAILY}
    assert daily == dict.fromkeys(DAILY, days), runs
    for app in fleet:
        app.close()


def test_a_store_that_lost_an_hour_gets_it_back_from_the_spools_with_one_word_about_it(
    operator: App, config: Path, tmp_path: Path, postgres_url: str
) -> None:
    one = child(RECORD, tmp_path / "app-0", config, "s")
    assert one.stdout is not None
    kept = [one.stdout.readline().strip() for _ in range(8)]
    assert all(kept)
    one.kill()
    one.communicate(timeout=60)
    told: list[Any] = []
    with closing(open_app(home=tmp_path / "app-0", config=config, env={}, now=lambda: NOW)) as app:
        app.advance()
        assert {trace.start.session_id for trace in app.records.traces()} >= set(kept)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        for table in ("record", "session", "reference", "given", "touch", "tally", "score"):
            connection.execute(f"DELETE FROM prx_records.{table}")
        connection.execute("UPDATE prx_records.state SET commits = commits - 1")
    for _ in range(3):
        with closing(open_app(home=tmp_path / "app-0", config=config, env={}, now=lambda: NOW)) as app:
            told += [one.why for one in app.advance().steps if one.what == "refill"]
            back = {trace.start.session_id for trace in app.records.traces()}
    assert back >= set(kept)
    assert len(told) == 1
    assert "the store had lost rows" in told[0]
