"""Ledger and records on one PostgreSQL under several processes, killed and stopped processes, and forks."""

import os
import signal
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from prx.domain.answers import Passed
from prx.domain.errors import StoreError
from prx.domain.ids import system_ids
from prx.domain.records import SessionStart
from prx.ledger import verify_chain
from prx.ledger.postgres import open_postgres
from prx.postgres.failures import StoreBusy
from prx.records.postgres import open_postgres as open_records

pytestmark = pytest.mark.full
NOW = datetime(2026, 12, 1, 8, 0, tzinfo=UTC)
PRELUDE = """
import sys
from datetime import UTC, datetime
from prx.domain.errors import StoreError
from prx.domain.events import Due
from prx.domain.ids import system_ids
from prx.domain.records import Interaction, SessionStart
from prx.ledger.postgres import open_postgres
from prx.records.postgres import open_postgres as open_records
NOW = datetime(2026, 12, 1, 8, 0, tzinfo=UTC)
url, name = sys.argv[1:3]
"""
APPEND_RECORDS = """
records = open_records(url, busy_seconds=60)
for number in range(int(sys.argv[3])):
    session = f"{name}-{number}"
    records.append([SessionStart(record_id=f"{session}-s", at=NOW, session_id=session),
                    Interaction(record_id=f"{session}-i", at=NOW, session_id=session)])
    print(number, flush=True)
"""
HOLD_LOCK = """
ledger = open_postgres(url, system_ids(), standstill_seconds=float(sys.argv[3]))
try:
    with ledger.transaction(now=NOW, actor=name) as tx:
        tx.audit("held", name, {})
        print("held", flush=True)
        sys.stdin.readline()
except StoreError as error:
    print(error, flush=True)
with ledger.transaction(now=NOW, actor=name) as tx:
    tx.audit("again", name, {})
"""


def process(script: str, *args: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", PRELUDE + script, *args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(child: "subprocess.Popen[str]") -> str:
    said, errors = child.communicate(timeout=120)
    assert child.returncode == 0, errors
    return said


def line_of(child: "subprocess.Popen[str]") -> str:
    assert child.stdout is not None
    return child.stdout.readline()


def test_a_held_lock_is_waited_for_within_the_bound_and_then_named(postgres_url: str) -> None:
    child = process(HOLD_LOCK, postgres_url, "holder", "60")
    assert line_of(child) == "held\n"
    ledger = open_postgres(postgres_url, system_ids(), busy_seconds=0.2)
    with (
        pytest.raises(StoreBusy, match=r"PostgreSQL prx@127.*is locked.*over 0\.2 s.*try again"),
        ledger.transaction(now=NOW, actor="late"),
    ):
        pass
    with ledger.view() as view:
        assert view.audit_rows() == ()
    finished(child)
    with ledger.transaction(now=NOW, actor="next") as tx:
        assert tx.audit("after", "x", {}).seq == 3
    ledger.close()


def test_a_suspended_writer_keeps_nobody_out_and_is_told_when_it_wakes(postgres_url: str) -> None:
    child = process(HOLD_LOCK, postgres_url, "holder", "0.5")
    assert line_of(child) == "held\n"
    child.send_signal(signal.SIGSTOP)
    ledger = open_postgres(postgres_url, system_ids(), busy_seconds=30)
    with ledger.transaction(now=NOW, actor="other") as tx:
        assert tx.audit("mine", "x", {}).seq == 1
    child.send_signal(signal.SIGCONT)
    said = finished(child)
    assert "nothing of this transaction was written" in said
    with ledger.view() as view:
        rows = view.audit_rows()
    assert [row.kind for row in rows] == ["mine", "again"]
    assert isinstance(verify_chain(rows), Passed)
    ledger.close()


def test_a_reader_by_cursor_misses_no_session_while_three_processes_write(postgres_url: str) -> None:
    records = open_records(postgres_url)
    children = [process(APPEND_RECORDS, postgres_url, f"w{n}", "100") for n in range(3)]
    seen, cursor = set[str](), 0
    while any(child.poll() is None for child in children):
        cursor, page = records.changed_sessions(after=cursor)
        seen |= set(page)
    for child in children:
        finished(child)
    cursor, page = records.changed_sessions(after=cursor)
    seen |= set(page)
    assert len(seen) == 300
    assert records.counts() == {"sessions": 300, "interactions": 300, "feedback": 0, "scores": 0}
    records.close()


@pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")
@pytest.mark.parametrize("kind", ["ledger", "records"])
def test_a_forked_child_is_told_to_open_anew_and_leaves_the_parent_alone(
    postgres_url: str, kind: str
) -> None:
    ledger, records = open_postgres(postgres_url, system_ids()), open_records(postgres_url)
    with ledger.transaction(now=NOW, actor="parent") as tx:
        tx.audit("before", "x", {})
    child = os.fork()
    if child == 0:
        code = 1
        try:
            records.counts() if kind == "records" else ledger.data_version()
        except StoreError as error:
            code = 0 if "again after the fork" in str(error) else 2
        finally:
            ledger.close()
            records.close()
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    with ledger.transaction(now=NOW, actor="parent") as tx:
        assert tx.audit("after", "x", {}).seq == 2
    assert records.append([SessionStart(record_id="r", at=NOW, session_id="s")]) == 1
    ledger.close()
    records.close()
