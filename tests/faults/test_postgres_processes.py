"""Ledger and records on one PostgreSQL under several processes, killed and stopped processes, and forks."""

import os
import signal
import subprocess
import sys
from datetime import UTC, datetime

import msgspec
import pytest

from prx.domain.answers import Passed
from prx.domain.errors import StoreError
from prx.domain.events import Due
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
APPEND_AUDIT = """
ledger = open_postgres(url, system_ids(), busy_seconds=60)
for number in range(int(sys.argv[3])):
    with ledger.transaction(now=NOW, actor=name) as tx:
        tx.audit("note", name, {"number": number})
"""
WRITE_PAIRS = """
ledger = open_postgres(url, system_ids(), busy_seconds=60)
for number in range(100000):
    with ledger.transaction(now=NOW, actor=name) as tx:
        tx.put(Due(due_id=f"{name}-{number}-a", agent=name, job="a", at=NOW))
        tx.audit("pair", name, {"number": number})
        tx.put(Due(due_id=f"{name}-{number}-b", agent=name, job="b", at=NOW))
    print(number, flush=True)
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


def test_three_writers_make_one_chain_without_a_fork_or_a_gap(postgres_url: str) -> None:
    children = [process(APPEND_AUDIT, postgres_url, f"writer-{n}", "500") for n in range(3)]
    for child in children:
        finished(child)
    ledger = open_postgres(postgres_url, system_ids())
    with ledger.view() as view:
        rows = view.audit_rows()
    assert isinstance(verify_chain(rows), Passed)
    assert [row.seq for row in rows] == list(range(1, 1501))
    for writer in range(3):
        own = [msgspec.json.decode(r.body or "")["number"] for r in rows if r.actor == f"writer-{writer}"]
        assert own == list(range(500))
    ledger.close()


@pytest.mark.parametrize("acknowledged", [1, 7, 20])
def test_a_killed_writer_leaves_what_it_acknowledged_and_no_half_transaction(
    postgres_url: str, acknowledged: int
) -> None:
    with process(WRITE_PAIRS, postgres_url, "w") as child:
        assert child.stdout is not None
        for _ in range(acknowledged):
            child.stdout.readline()
        child.kill()
        rest = child.stdout.read()
    complete = [line for line in rest.splitlines(keepends=True) if line.endswith("\n")]
    last = int(complete[-1]) if complete else acknowledged - 1
    ledger = open_postgres(postgres_url, system_ids(), busy_seconds=60)
    with ledger.transaction(now=NOW, actor="next") as tx:  # the lock is free once the dead one is undone
        rows, first, second = tx.audit_rows(), tx.find(Due, state="a"), tx.find(Due, state="b")
        assert tx.audit("after", "w", {}).seq == len(rows) + 1
    assert len(rows) == len(first) == len(second)
    assert last + 1 <= len(rows) <= last + 2
    assert isinstance(verify_chain(rows), Passed)
    ledger.close()


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


def test_six_processes_that_create_the_same_store_at_once_all_succeed(postgres_url: str) -> None:
    children = [process(APPEND_AUDIT, postgres_url, f"w{n}", "2") for n in range(3)]
    children += [process(APPEND_RECORDS, postgres_url, f"r{n}", "2") for n in range(3)]
    for child in children:
        finished(child)
    ledger, records = open_postgres(postgres_url, system_ids()), open_records(postgres_url)
    with ledger.view() as view:
        assert len(view.audit_rows()) == 6
    assert records.counts()["interactions"] == 6
    ledger.close()
    records.close()


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


def test_a_commit_of_another_process_is_seen_by_the_poll(postgres_url: str) -> None:
    ledger = open_postgres(postgres_url, system_ids())
    before = ledger.data_version()
    assert ledger.data_version() == before
    finished(process(APPEND_AUDIT, postgres_url, "other", "1"))
    assert ledger.data_version() == before + 1
    ledger.close()


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
