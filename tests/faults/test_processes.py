"""What several processes do to one store, whichever it is: the same claims over SQLite and PostgreSQL."""

import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from prx.domain.answers import Passed
from prx.domain.events import Due
from prx.domain.ids import system_ids
from prx.ledger import Ledger, open_sqlite, verify_chain
from prx.records import RecordStore
from prx.records import open_sqlite as open_records_file

NOW = datetime(2026, 12, 1, 8, 0, tzinfo=UTC)
PRELUDE = """
import sys
from datetime import UTC, datetime
from prx.domain.events import Due
from prx.domain.ids import system_ids
from prx.domain.records import Interaction, SessionStart
NOW = datetime(2026, 12, 1, 8, 0, tzinfo=UTC)
kind, where, name, number_of = sys.argv[1:5]
if kind == "sqlite":
    from prx.ledger import open_sqlite as opened
    from prx.records import open_sqlite as open_records
else:
    from prx.ledger.postgres import open_postgres as opened
    from prx.records.postgres import open_postgres as open_records
"""
APPEND_AUDIT = """
ledger = opened(where, system_ids(), busy_seconds=120)
for number in range(int(number_of)):
    with ledger.transaction(now=NOW, actor=name) as tx:
        tx.audit("note", name, {"number": number})
"""
WRITE_PAIRS = """
ledger = opened(where, system_ids(), busy_seconds=60)
for number in range(int(number_of)):
    with ledger.transaction(now=NOW, actor=name) as tx:
        tx.put(Due(due_id=f"{name}-{number}-a", agent=name, job="a", at=NOW))
        tx.audit("pair", name, {"number": number})
        tx.put(Due(due_id=f"{name}-{number}-b", agent=name, job="b", at=NOW))
    print(number, flush=True)
"""
APPEND_RECORDS = """
records = open_records(where, busy_seconds=60)
for number in range(int(number_of)):
    session = f"{name}-{number}"
    records.append([SessionStart(record_id=f"{session}-s", at=NOW, session_id=session),
                    Interaction(record_id=f"{session}-i", at=NOW, session_id=session)])
    print(number, flush=True)
"""


@dataclass(frozen=True)
class House:
    """A store: its kind, where other processes find it, and how this one opens it."""

    kind: str
    ledger_at: str
    records_at: str
    ledger: Callable[[], Ledger]
    records: Callable[[], RecordStore]

    def start(self, script: str, name: str, number: int, *, records: bool = False) -> "subprocess.Popen[str]":
        where = self.records_at if records else self.ledger_at
        return subprocess.Popen(
            [sys.executable, "-c", PRELUDE + script, self.kind, where, name, str(number)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.full)])
def house(request: pytest.FixtureRequest, tmp_path: Path) -> House:
    if request.param == "sqlite":
        ledger, records = tmp_path / "ledger.sqlite", tmp_path / "records.sqlite"
        return House(
            "sqlite",
            str(ledger),
            str(records),
            lambda: open_sqlite(ledger, system_ids(), busy_seconds=60),
            lambda: open_records_file(records),
        )
    from prx.ledger.postgres import open_postgres
    from prx.records.postgres import open_postgres as open_records

    url = request.getfixturevalue("postgres_url")
    return House(
        "postgres",
        url,
        url,
        lambda: open_postgres(url, system_ids(), busy_seconds=60),
        lambda: open_records(url),
    )


def finished(child: "subprocess.Popen[str]") -> None:
    _, errors = child.communicate(timeout=300)
    assert child.returncode == 0, errors


def killed_after(child: "subprocess.Popen[str]", acknowledged: int) -> int:
    """Last number that the child acknowledged before it was killed in the middle of its work."""
    assert child.stdout is not None
    for _ in range(acknowledged):
        child.stdout.readline()
    child.send_signal(signal.SIGKILL)
    rest = child.stdout.read()  # not communicate(): it would miss what readline() has buffered
    child.communicate()
    complete = [line for line in rest.splitlines(keepends=True) if line.endswith("\n")]
    return int(complete[-1]) if complete else acknowledged - 1


@pytest.mark.parametrize("each", [100, pytest.param(500, marks=pytest.mark.full)])
def test_three_writers_make_one_chain_without_a_fork_or_a_gap(house: House, each: int) -> None:
    for child in [house.start(APPEND_AUDIT, f"writer-{n}", each) for n in range(3)]:
        finished(child)
    ledger = house.ledger()
    with ledger.view() as view:
        rows = view.audit_rows()
    assert isinstance(verify_chain(rows), Passed)
    assert [row.seq for row in rows] == list(range(1, 3 * each + 1))
    for writer in range(3):
        own = [msgspec.json.decode(r.body or "")["number"] for r in rows if r.actor == f"writer-{writer}"]
        assert own == list(range(each))
    ledger.close()


@pytest.mark.parametrize("acknowledged", [1, 7, 20])
def test_a_killed_writer_leaves_what_it_acknowledged_and_no_half_transaction(
    house: House, acknowledged: int
) -> None:
    last = killed_after(house.start(WRITE_PAIRS, "w", 100_000), acknowledged)
    ledger = house.ledger()
    with ledger.transaction(now=NOW, actor="next") as tx:  # the lock is free once the dead one is undone
        rows, first, second = tx.audit_rows(), tx.find(Due, state="a"), tx.find(Due, state="b")
        assert tx.audit("after", "w", {}).seq == len(rows) + 1
    assert len(rows) == len(first) == len(second)
    assert last + 1 <= len(rows) <= last + 2  # one may have been committed and not yet acknowledged
    assert isinstance(verify_chain(rows), Passed)
    ledger.close()


def test_a_killed_appender_leaves_whole_batches_of_records(house: House) -> None:
    last = killed_after(house.start(APPEND_RECORDS, "r", 100_000, records=True), 20)
    records = house.records()
    counts = records.counts()
    assert counts["sessions"] == counts["interactions"]
    assert last + 1 <= counts["sessions"] <= last + 2
    assert all(len(trace.interactions) == 1 for trace in records.traces())
    records.close()


def test_six_processes_that_create_the_same_store_at_once_all_succeed(house: House) -> None:
    children = [house.start(APPEND_AUDIT, f"w{n}", 2) for n in range(3)]
    children += [house.start(APPEND_RECORDS, f"r{n}", 2, records=True) for n in range(3)]
    for child in children:
        finished(child)
    ledger, records = house.ledger(), house.records()
    with ledger.view() as view:
        assert len(view.audit_rows()) == 6
    assert records.counts()["interactions"] == 6
    ledger.close()
    records.close()


def test_a_commit_of_another_process_is_seen_by_the_poll_and_by_the_next_view(house: House) -> None:
    ledger = house.ledger()
    before = ledger.data_version()
    assert ledger.data_version() == before
    finished(house.start(WRITE_PAIRS, "other", 1))
    assert ledger.data_version() != before
    with ledger.view() as view:
        assert view.maybe(Due, "other-0-a") is not None
    ledger.close()
