"""Full, read-only, damaged and replaced files: what is said, and that nothing is lost."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import apsw
import pytest

from prx.domain.answers import Passed
from prx.domain.errors import StoreError
from prx.domain.ids import system_ids
from prx.domain.records import Interaction, SessionStart
from prx.domain.versions import PromptSet, part_hash
from prx.ledger import open_sqlite, verify_chain
from prx.ledger.ledger import StoredLedger
from prx.ledger.sqlite import SCHEMA, SqliteStore
from prx.records import open_sqlite as open_records
from prx.records.sqlite import SCHEMA as RECORDS_SCHEMA
from prx.records.sqlite import SqliteRecords
from prx.sqlite import Database
from prx.sqlite.failures import explained

NOW = datetime(2026, 12, 1, 8, 0, tzinfo=UTC)
BIG = "x" * 200_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


@pytest.fixture
def small(path: Path) -> Iterator[tuple[Database, StoredLedger]]:
    """A ledger whose file may not grow by more than ten pages."""
    database = Database(path, SCHEMA, full_sync=True)
    ledger = StoredLedger(SqliteStore(database), system_ids())
    audit(ledger, "before")
    for connection in database.connections():
        connection.pragma("max_page_count", connection.pragma("page_count") + 10)
    yield database, ledger
    ledger.close()


def audit(ledger: StoredLedger, subject: str, text: str = "") -> None:
    with ledger.transaction(now=NOW, actor="engine") as tx:
        tx.audit("note", subject, {"text": text})


def subjects(ledger: StoredLedger) -> list[str]:
    with ledger.view() as view:
        rows = view.audit_rows()
    assert isinstance(verify_chain(rows), Passed)
    return [row.subject for row in rows]


def integrity(path: Path) -> list[object]:
    connection = apsw.Connection(str(path))
    found = connection.execute("PRAGMA integrity_check").fetchall()
    found += connection.execute("PRAGMA foreign_key_check").fetchall()
    connection.close()
    return found


def test_a_full_disk_undoes_the_transaction_says_so_and_leaves_the_ledger_usable(
    small: tuple[Database, StoredLedger], path: Path
) -> None:
    database, ledger = small
    with pytest.raises(StoreError, match=r"ledger\.sqlite could not grow: the disk or quota is full.*free"):
        audit(ledger, "too big", BIG)
    assert subjects(ledger) == ["before"]
    audit(ledger, "small again")
    for connection in database.connections():
        connection.pragma("max_page_count", 1_000_000)
    audit(ledger, "after", BIG)
    assert subjects(ledger) == ["before", "small again", "after"]
    ledger.close()
    assert integrity(path) == [("ok",)]


def test_a_full_disk_in_the_middle_keeps_nothing_of_the_block_even_if_the_caller_goes_on(
    small: tuple[Database, StoredLedger],
) -> None:
    _, ledger = small
    with (  # noqa: PT012 - the block as a whole must not commit
        pytest.raises(StoreError, match="undone by an earlier failure"),
        ledger.transaction(now=NOW, actor="engine") as tx,
    ):
        tx.audit("note", "first", {})
        with pytest.raises(StoreError, match="disk or quota is full"):
            tx.put_part(PromptSet(texts={"system": BIG}))
        tx.audit("note", "second", {})
    assert subjects(ledger) == ["before"]


def test_records_on_a_full_disk_keep_the_earlier_batches_and_take_the_same_batch_later(
    tmp_path: Path,
) -> None:
    database = Database(tmp_path / "records.sqlite", RECORDS_SCHEMA, full_sync=False)
    records = SqliteRecords(database)
    records.append([SessionStart(record_id="s", at=NOW, session_id="s1")])
    for connection in database.connections():
        connection.pragma("max_page_count", connection.pragma("page_count") + 10)
    batch = [Interaction(record_id=f"i{n}", at=NOW, session_id="s1", response=BIG) for n in range(3)]
    with pytest.raises(StoreError, match="disk or quota is full"):
        records.append(batch)
    assert records.counts()["interactions"] == 0
    assert records.changed_sessions(after=1) == (1, ())
    for connection in database.connections():
        connection.pragma("max_page_count", 1_000_000)
    assert records.append(batch) == 3
    records.close()


LIMITED = """
import resource, sys
from datetime import UTC, datetime
from prx.domain.errors import StoreError
from prx.domain.ids import system_ids
from prx.ledger import open_sqlite
NOW = datetime(2026, 12, 1, 8, 0, tzinfo=UTC)
ledger = open_sqlite(sys.argv[1], system_ids())
def audit(subject, text=""):
    with ledger.transaction(now=NOW, actor="engine") as tx:
        tx.audit("note", subject, {"text": text})
audit("before")
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, hard))
try:
    audit("too big", "x" * 800_000)
except StoreError as error:
    print(error)
with ledger.view() as view:
    print([row.subject for row in view.audit_rows()])
resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
audit("after")
with ledger.view() as view:
    print([row.subject for row in view.audit_rows()])
"""


def test_a_failed_write_reported_as_disk_io_error_is_undone_and_the_file_is_checked_before_going_on(
    path: Path,
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(path)], check=False, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    said, during, after = done.stdout.splitlines()
    assert "disk I/O error" in said
    assert "free space" in said
    assert str(path) in said
    assert during == "['before']"
    assert after == "['before', 'after']"
    assert integrity(path) == [("ok",)]


DAMAGED_MEANWHILE = """
import os, resource, sys
from datetime import UTC, datetime
import apsw
from prx.domain.errors import StoreError
from prx.domain.ids import system_ids
from prx.ledger import open_sqlite
NOW = datetime(2026, 12, 1, 8, 0, tzinfo=UTC)
open_sqlite(sys.argv[1], system_ids()).close()
connection = apsw.Connection(sys.argv[1])
page = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'event'").fetchall()[0][0]
connection.close()
ledger = open_sqlite(sys.argv[1], system_ids())
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
if sys.argv[2] == "failed":
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, hard))
    try:
        with ledger.transaction(now=NOW, actor="engine") as tx:
            tx.audit("note", "too big", {"text": "x" * 800_000})
    except StoreError as error:
        print("failed")
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
with open(sys.argv[1], "r+b") as file:
    file.seek((page - 1) * 4096)
    file.write(bytes([255]) * 4096)
for _ in range(2):
    try:
        with ledger.view() as view:
            print(view.pointer("nobody"))
    except StoreError as error:
        print("damaged" if "is damaged" in str(error) else error)
"""


@pytest.mark.parametrize(("before", "said"), [("failed", "failed damaged damaged"), ("fine", "None None")])
def test_after_a_failed_write_the_whole_file_is_checked_before_anything_is_read_from_it(
    path: Path, before: str, said: str
) -> None:
    command = [sys.executable, "-c", DAMAGED_MEANWHILE, str(path), before]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == said.split(), done.stderr


@pytest.mark.full
def test_a_truly_full_file_system_is_said_and_survived(tmp_path: Path) -> None:
    script = LIMITED.replace("resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, hard))", "")
    script = script.replace("resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))", "")
    shell = f'mount -t tmpfs -o size=400k none {tmp_path} && exec "$0" -c "$1" {tmp_path}/ledger.sqlite'
    done = subprocess.run(
        ["unshare", "-Urm", "sh", "-c", shell, sys.executable, script],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    said, during, after = done.stdout.splitlines()
    assert "full" in said
    assert (during, after) == ("['before']", "['before', 'after']")


def open_ledger(path: Path) -> None:
    open_sqlite(path, system_ids())


def open_record_store(path: Path) -> None:
    open_records(path)


BOTH = pytest.mark.parametrize("opening", [open_ledger, open_record_store])


@BOTH
def test_a_folder_in_place_of_the_file_is_named(tmp_path: Path, opening: Callable[[Path], None]) -> None:
    with pytest.raises(StoreError, match="it is a folder; name a file"):
        opening(tmp_path)


@BOTH
def test_a_file_in_place_of_the_folder_is_named(tmp_path: Path, opening: Callable[[Path], None]) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match=r"file.*check the path"):
        opening(tmp_path / "file" / "ledger.sqlite")


@BOTH
def test_text_in_place_of_a_database_is_refused_and_kept(
    tmp_path: Path, opening: Callable[[Path], None]
) -> None:
    path = tmp_path / "x.sqlite"
    path.write_bytes(b"this is no database " * 500)
    with pytest.raises(StoreError, match=r"x\.sqlite is no SQLite database.*prx restore"):
        opening(path)
    assert path.read_bytes() == b"this is no database " * 500


@BOTH
def test_another_programs_database_is_refused_and_kept(
    tmp_path: Path, opening: Callable[[Path], None]
) -> None:
    path = tmp_path / "other.sqlite"
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE mine (x)")
    connection.close()
    with pytest.raises(StoreError, match=r"no (ledger|record store) of PRX Evolution; nothing was changed"):
        opening(path)
    connection = apsw.Connection(str(path))
    assert connection.execute("SELECT name FROM sqlite_schema").fetchall() == [("mine",)]
    connection.close()


def test_a_ledger_is_not_opened_as_a_record_store(path: Path) -> None:
    open_sqlite(path, system_ids()).close()
    with pytest.raises(StoreError, match="no record store"):
        open_records(path)


def test_a_cut_file_with_its_log_beside_it_is_refused_instead_of_starting_empty(path: Path) -> None:
    ledger = open_sqlite(path, system_ids())
    audit(ledger, "before")
    kept = path.with_name("ledger.sqlite-wal").read_bytes()
    other = path.with_name("cut.sqlite")
    other.write_bytes(b"")
    other.with_name("cut.sqlite-wal").write_bytes(kept)
    missing = path.with_name("gone.sqlite")
    missing.with_name("gone.sqlite-wal").write_bytes(kept)
    with pytest.raises(StoreError, match=r"cut\.sqlite is empty but its log.*restore"):
        open_sqlite(other, system_ids())
    with pytest.raises(StoreError, match=r"gone\.sqlite is missing but its log.*restore"):
        open_sqlite(missing, system_ids())
    ledger.close()


def test_a_damaged_page_is_said_and_nothing_is_written(path: Path) -> None:
    ledger = open_sqlite(path, system_ids())
    for number in range(50):
        audit(ledger, f"row {number}", "x" * 2000)
    ledger.close()
    damaged = bytearray(path.read_bytes())
    for page in range(2, len(damaged) // 4096):
        damaged[page * 4096 : page * 4096 + 100] = b"\xff" * 100
    path.write_bytes(damaged)
    with pytest.raises(StoreError, match=r"ledger\.sqlite is damaged.*prx restore"):  # noqa: PT012
        ledger = open_sqlite(path, system_ids())
        subjects(ledger)
    assert path.read_bytes() == damaged


def test_a_part_whose_bytes_changed_is_never_handed_out(path: Path) -> None:
    ledger = open_sqlite(path, system_ids())
    name = part_hash(PromptSet(texts={"system": "You help."}))
    with ledger.transaction(now=NOW, actor="engine") as tx:
        tx.put_part(PromptSet(texts={"system": "You help."}))
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE part SET body = CAST(replace(CAST(body AS TEXT), 'help', 'harm') AS BLOB)")
    connection.close()
    with ledger.view() as view, pytest.raises(StoreError, match=f"{name} is damaged.*prx restore"):
        view.part(name)
    ledger.close()


@pytest.mark.parametrize("table", ["audit", "event"])
def test_the_file_itself_refuses_to_change_or_drop_a_row_of_history(path: Path, table: str) -> None:
    ledger = open_sqlite(path, system_ids())
    audit(ledger, "row")
    ledger.close()
    connection = apsw.Connection(str(path))
    connection.execute("INSERT INTO event VALUES (1, 'a', 0, '{}', 0)")
    for statement in (f"UPDATE {table} SET at = 1", f"DELETE FROM {table}"):
        with pytest.raises(apsw.ConstraintError, match="never"):
            connection.execute(statement)
    with pytest.raises(apsw.ConstraintError, match="gap"):
        connection.execute(
            "INSERT INTO audit SELECT 9, 'p', 'h', at, actor, kind, subject, body_hash FROM audit"
        )
    with pytest.raises(apsw.ConstraintError, match=r"audit\.prev"):
        connection.execute(
            "INSERT INTO audit SELECT 2, prev, 'h', at, actor, kind, subject, body_hash FROM audit"
        )
    connection.close()


def test_a_file_replaced_or_removed_under_an_open_ledger_is_noticed(path: Path) -> None:
    ledger = open_sqlite(path, system_ids())
    audit(ledger, "mine")
    other = open_sqlite(path.with_name("other.sqlite"), system_ids())
    other.close()
    os.replace(path.with_name("other.sqlite"), path)
    for use in (lambda: subjects(ledger), lambda: audit(ledger, "x"), ledger.data_version):
        with pytest.raises(StoreError, match=r"was replaced by another file.*restart"):
            use()
    path.unlink()
    with pytest.raises(StoreError, match="No such file"):
        ledger.data_version()
    ledger.close()


AS_NOBODY = """
import os, sys
from datetime import UTC, datetime
sys.path[:0] = [p for p in sys.argv[2].split(os.pathsep) if p]
from prx.domain.errors import StoreError
from prx.domain.ids import system_ids
from prx.ledger import open_sqlite
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
try:
    ledger = open_sqlite(sys.argv[1], system_ids())
    with ledger.view() as view:
        print("can read", len(view.audit_rows()))
    with ledger.transaction(now=datetime(2026, 12, 1, tzinfo=UTC), actor="nobody") as tx:
        tx.audit("note", "x", {})
    print("WROTE")
except StoreError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("file_mode", "folder_mode", "said"),
    [
        (0o444, 0o777, "is read-only here|may not read and write"),
        (0o000, 0o777, "may not read and write it"),
        (0o444, 0o555, "read-only|may not write in"),
        (None, 0o555, "Permission denied|may not write in"),
    ],
)
def test_missing_rights_are_named_with_the_path(
    tmp_path: Path, file_mode: int | None, folder_mode: int, said: str
) -> None:
    folder = tmp_path / "home"
    folder.mkdir()
    path = folder / "ledger.sqlite"
    if file_mode is not None:
        open_sqlite(path, system_ids()).close()
        path.chmod(file_mode)
    folder.chmod(folder_mode)
    for above in tmp_path.parents:
        if above.owner() == tmp_path.owner() and above != Path("/tmp"):
            above.chmod(above.stat().st_mode | 0o011)
    tmp_path.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", AS_NOBODY, str(path), os.pathsep.join(sys.path)],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    folder.chmod(0o755)
    assert done.returncode == 0, done.stderr
    assert "WROTE" not in done.stdout
    assert str(path) in done.stdout
    assert any(words in done.stdout for words in said.split("|")), done.stdout


def test_a_new_file_is_readable_by_its_owner_only(path: Path) -> None:
    ledger = open_sqlite(path, system_ids())
    audit(ledger, "x")
    assert [found.stat().st_mode & 0o777 for found in sorted(path.parent.iterdir())] == [0o600] * 3
    ledger.close()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (apsw.FullError("FullError: database or disk is full"), "disk or quota is full"),
        (apsw.IOError("IOError: disk I/O error"), "a full disk causes too"),
        (apsw.ReadOnlyError("attempt to write a readonly database"), "is read-only here"),
        (apsw.PermissionsError("access permission denied"), "may not be used by this user"),
        (apsw.BusyError("database is locked"), "is locked"),
        (apsw.CorruptError("database disk image is malformed"), "is damaged"),
        (apsw.NoMemError("out of memory"), "memory"),
        (apsw.SQLError("no such table: x"), "prx doctor"),
    ],
)
def test_every_failure_names_the_file_and_the_next_step(path: Path, error: apsw.Error, said: str) -> None:
    text = str(explained(error, path, waited=2))
    assert str(path) in text
    assert said in text
    assert ";" in text
