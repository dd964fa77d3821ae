"""The whole application over PostgreSQL: the same answers as over SQLite, and each job once."""

import json
import re
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from prx.cli.call import Outside
from prx.cli.program import main, wired
from prx.domain.answers import Passed
from prx.domain.events import Control, Due
from prx.ledger import verify_chain
from prx.wiring.app import open_app

pytestmark = pytest.mark.full
NOW = datetime(2026, 12, 1, 8, 0, tzinfo=UTC)
LOGS = Path(__file__).parents[1] / "data" / "logs"
ASKED = [
    ["evolution", "fitness", "--breakdown"],
    ["evolution", "status"],
    ["evolution", "findings"],
    ["evolution", "history"],
    ["evolution", "decisions"],
    ["evolution", "audit", "verify"],
]
VOLATILE = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{64}")


def outside(tmp_path: Path, name: str, url: str = "") -> Outside:
    env = {"PRX_HOME": str(tmp_path / name), "PRX_ACTOR": "ada"}
    if url:
        env["PRX__STORE__URL"] = url
    return Outside(wired, env, lambda: NOW, tmp_path)


def answers(place: Outside, capsys: pytest.CaptureFixture[str]) -> list[Any]:
    logs = [str(LOGS / name) for name in ("taubench_airline.jsonl", "bfcl_multi_turn.jsonl")]
    assert main(["import", *logs], place) == 0
    capsys.readouterr()
    told = []
    for command in ASKED:
        code = main([*command, "--json"], place)
        told.append((command, code, json.loads(VOLATILE.sub("*", capsys.readouterr().out))))
    assert main(["import", *logs, "--json"], place) == 0
    told.append([one["new"] for one in json.loads(capsys.readouterr().out)])
    return told


def test_every_command_answers_alike_over_sqlite_and_postgres(
    tmp_path: Path, postgres_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    over_sqlite = answers(outside(tmp_path, "one"), capsys)
    over_postgres = answers(outside(tmp_path, "two", postgres_url), capsys)
    assert over_postgres == over_sqlite
    assert over_sqlite[-1] == [0, 0]
    assert not list((tmp_path / "two").glob("ledger.sqlite*"))
    assert not list((tmp_path / "two").glob("records.sqlite*"))


def test_doctor_and_backup_know_where_the_state_is(
    tmp_path: Path, postgres_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    place = outside(tmp_path, "home", postgres_url)
    assert main(["doctor"], place) == 0
    assert main(["backup", "b.tar"], place) == 1
    said = capsys.readouterr()
    assert "pg_dump --format=custom" in said.err
    assert "test-password" not in said.out + said.err
    assert not (tmp_path / "b.tar").exists()


def test_four_machines_on_one_store_run_each_due_job_once(tmp_path: Path, postgres_url: str) -> None:
    started = datetime(2026, 12, 1, 8, 0, tzinfo=UTC)
    clock = {"now": started}
    apps = [
        open_app(
            home=tmp_path / f"machine-{number}",
            env={"PRX__STORE__URL": postgres_url, "PRX__ENABLED": "true"},
            now=lambda: clock["now"],
        )
        for number in range(4)
    ]
    with apps[0].ledger.transaction(now=started, actor="test") as tx:
        tx.put(Control(agent="default"))
    failures = list[str]()

    def work(app: Any) -> None:
        report = app.advance()
        failures.extend(f"{s.what}: {s.why}" for s in report.steps if s.answer == "error")

    days = 4
    for day in range(days):
        clock["now"] = started + timedelta(days=day)
        threads = [threading.Thread(target=work, args=(app,)) for app in apps]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failures == []
    with apps[0].ledger.view() as view:
        assert isinstance(verify_chain(view.audit_rows()), Passed)
        runs = {one.job: one.runs for one in view.find(Due, agent="default")}
    assert runs
    assert all(count <= days for count in runs.values())
    assert max(runs.values()) == days
    for app in apps:
        app.close()
