"""A store that was replaced under a running worker: told once, filled again, and one open alert about it."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from prx.cli.call import Call, Outside
from prx.cli.program import wired
from prx.cli.top.worker import Loop
from prx.domain.times import utc_now
from prx.wiring.lostrows import LOST_ROWS
from prx.wiring.paths import records_file
from prx.wiring.sdk import open_evolution


def record(home: Path, sessions: int) -> None:
    evolution = open_evolution(home, env={})
    for _ in range(sessions):
        with evolution.session(user="u") as session, session.call(model="m", messages="hi") as call:
            call.reply(text="yes")
    evolution.close()


def worker(home: Path, clock: Callable[[], datetime], said: list[str]) -> Loop:
    outside = Outside(wired, {"PRX_HOME": str(home), "HOME": str(home)}, clock, home)
    return Loop(Call(outside, "default", json=False, lang="en", home=home, config=None), said.append)


def kept(loop: Loop) -> int:
    assert loop.app is not None
    return int(loop.app.records.counts()["interactions"])


def alerts(loop: Loop) -> list[Any]:
    """What the events of the alert say, oldest first."""
    assert loop.app is not None
    with loop.app.ledger.view() as view:
        return [one.details["status"] for _, one in view.events() if one.subject == LOST_ROWS]


def test_records_replaced_under_a_worker_are_filled_again_with_one_alert(tmp_path: Path) -> None:
    clock, said = {"now": utc_now()}, list[str]()
    loop = worker(tmp_path, lambda: clock["now"], said)
    loop.run()
    older = tmp_path / "older"
    shutil.copy(records_file(tmp_path), older)
    record(tmp_path, 5)
    loop.run()
    assert kept(loop) == 5
    for _ in range(2):
        older_again = tmp_path / "again"
        shutil.copy(older, older_again)
        for end in ("-wal", "-shm"):
            records_file(tmp_path).with_name(f"{records_file(tmp_path).name}{end}").unlink(missing_ok=True)
        older_again.replace(records_file(tmp_path))
        loop.run()
        loop.run()
        assert kept(loop) == 5
    assert ["was replaced by another file" in line for line in said] == [True, True]
    assert alerts(loop) == ["open"]
    command = [sys.executable, "-m", "prx.cli", "doctor", "--json", "--home", str(tmp_path)]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    rows = [row["seen"] for row in json.loads(told.stdout) if row["check"] == "alert"]
    assert len(rows) == 1
    assert "the store had lost rows" in rows[0]
    clock["now"] += timedelta(hours=2)
    loop.run()
    assert alerts(loop) == ["open", "resolved"]
    loop.close()
