"""Ledger and records under several processes, killed processes and forks."""

import os
import subprocess
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from prx.domain.answers import Passed
from prx.domain.errors import StoreError
from prx.domain.events import Due
from prx.domain.ids import system_ids
from prx.domain.records import SessionStart
from prx.ledger import open_memory, open_sqlite, verify_chain
from prx.records import open_sqlite as open_records
from prx.sqlite.failures import StoreBusy

NOW = datetime(2026, 12, 1, 8, 0, tzinfo=UTC)
PRELUDE = """
import sys
from datetime import UTC, datetime
from prx.domain.events import Due
from prx.domain.ids import system_ids
from prx.domain.records import Interaction, SessionStart
from prx.ledger import open_sqlite
from prx.records import open_sqlite as open_records
NOW = datetime(2026, 12, 1, 8, 0, tzinfo=UTC)
path, name = sys.argv[1:3]
"""
HOLD_LOCK = """
ledger = open_sqlite(path, system_ids())
with ledger.transaction(now=NOW, actor=name) as tx:
    tx.audit("held", name, {})
    print("held", flush=True)
    sys.stdin.read()
"""


def process(script: str, *args: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", PRELUDE + script, *args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(child: "subprocess.Popen[str]") -> None:
    _, errors = child.communicate(timeout=120)
    assert child.returncode == 0, errors


def test_a_killed_transaction_is_undone_and_its_lock_is_free(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    child = process(HOLD_LOCK, str(path), "holder")
    assert child.stdout is not None
    assert child.stdout.readline() == "held\n"
    child.kill()
    child.communicate(timeout=60)
    ledger = open_sqlite(path, system_ids(), busy_seconds=0.2)
    with ledger.transaction(now=NOW, actor="next") as tx:
        assert tx.audit("after", "x", {}).seq == 1
    ledger.close()


def test_a_held_lock_is_waited_for_within_the_bound_and_then_named(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    child = process(HOLD_LOCK, str(path), "holder")
    assert child.stdout is not None
    child.stdout.readline()
    ledger = open_sqlite(path, system_ids(), busy_seconds=0.2)
    with (
        pytest.raises(StoreBusy, match=r"ledger\.sqlite is locked.*over 0\.2 s.*try again"),
        ledger.transaction(now=NOW, actor="late"),
    ):
        pass
    with ledger.view() as view:
        assert view.audit_rows() == ()
    finished(child)
    with ledger.transaction(now=NOW, actor="next") as tx:
        assert tx.audit("after", "x", {}).seq == 2
    ledger.close()


@pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")
@pytest.mark.parametrize("kind", ["memory", "sqlite", "records"])
def test_a_forked_child_is_told_to_open_anew_and_leaves_the_parent_alone(tmp_path: Path, kind: str) -> None:
    ledger = (
        open_memory(system_ids()) if kind == "memory" else open_sqlite(tmp_path / "l.sqlite", system_ids())
    )
    records = open_records(tmp_path / "r.sqlite")
    with ledger.transaction(now=NOW, actor="parent") as tx:
        tx.audit("before", "x", {})
    records.append([SessionStart(record_id="r", at=NOW, session_id="s")])
    child = os.fork()
    if child == 0:
        code = 1
        try:
            if kind == "records":
                records.counts()
            else:
                with ledger.view():
                    pass
        except StoreError as error:
            code = 0 if "again after the fork" in str(error) else 2
        finally:
            ledger.close()
            records.close()
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    with ledger.transaction(now=NOW, actor="parent") as tx:
        assert tx.audit("after", "x", {}).seq == 2
    assert records.counts()["sessions"] == 1
    ledger.close()
    records.close()


def test_threads_of_one_process_share_a_ledger_and_records(tmp_path: Path) -> None:
    ledger = open_sqlite(tmp_path / "ledger.sqlite", system_ids(), busy_seconds=60)
    records = open_records(tmp_path / "records.sqlite", busy_seconds=60)
    failures = list[BaseException]()

    def work(name: str) -> None:
        try:
            for number in range(10):
                with ledger.transaction(now=NOW, actor=name) as tx:
                    tx.audit("note", name, {"number": number})
                with ledger.view() as view:
                    assert isinstance(verify_chain(view.audit_rows()), Passed)
                records.append(
                    [SessionStart(record_id=f"{name}-{number}", at=NOW, session_id=f"{name}-{number}")]
                )
                assert ledger.data_version() > 0
        except BaseException as error:  # noqa: BLE001 - a thread's failure is the test's failure
            failures.append(error)

    threads = [threading.Thread(target=work, args=(f"t{n}",)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    with ledger.view() as view:
        assert len(view.audit_rows()) == 60
    assert records.counts()["sessions"] == 60
    ledger.close()
    records.close()


def test_a_restored_version_is_visible_to_a_polling_process_at_its_next_poll(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    writer, reader = open_sqlite(path, system_ids()), open_sqlite(path, system_ids())
    seen = reader.data_version()
    for number in range(20):
        with writer.transaction(now=NOW, actor="w") as tx:
            tx.put(Due(due_id="d", agent="a", job="j", at=NOW, runs=number))
        assert reader.data_version() != seen
        seen = reader.data_version()
        with reader.view() as view:
            assert view.get(Due, "d").runs == number
    writer.close()
    reader.close()
