"""Older, newer and half-migrated files."""

import subprocess
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path

import apsw
import pytest

from prx.domain.errors import StoreError, StoreTooNew
from prx.domain.ids import system_ids
from prx.ledger import open_sqlite
from prx.records import open_sqlite as open_records
from prx.sqlite import Database, Schema
from prx.sqlite.release import refuse_wal_reset_bug

NOW = datetime(2026, 12, 1, 8, 0, tzinfo=UTC)
FIRST = ("CREATE TABLE thing (name TEXT)", "CREATE TABLE other (name TEXT)")
SECOND = ("ALTER TABLE thing ADD COLUMN size INTEGER", "UPDATE thing SET size = LENGTH(name)")
THIRD = ("CREATE INDEX thing_by_size ON thing (size)",)
BROKEN = (SECOND[0], "INSERT INTO nowhere VALUES (1)")


def schema(*migrations: tuple[str, ...]) -> Schema:
    return Schema(name="box", application_id=42, migrations=migrations)


def opened(path: Path, *migrations: tuple[str, ...]) -> Database:
    return Database(path, schema(*migrations), full_sync=True)


def things(database: Database) -> list[tuple[object, ...]]:
    with database.reading() as work:
        return work.rows("SELECT * FROM thing ORDER BY name")


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A file of schema 1 with one row."""
    path = tmp_path / "box.sqlite"
    database = opened(path, FIRST)
    with database.writing() as work:
        work.rows("INSERT INTO thing VALUES ('apple')")
    database.close()
    return path


def raw(path: Path, sql: str) -> list[tuple[object, ...]]:
    connection = apsw.Connection(str(path))
    found = connection.execute(sql).fetchall()
    connection.close()
    return found


def test_an_older_file_is_brought_up_to_date_and_a_copy_of_it_is_kept(old: Path) -> None:
    database = opened(old, FIRST, SECOND, THIRD)
    assert things(database) == [("apple", 5)]
    database.close()
    assert raw(old, "PRAGMA user_version") == [(3,)]
    assert raw(old.with_name("box.sqlite.schema-1"), "SELECT * FROM thing") == [("apple",)]


def test_a_copy_left_by_an_abandoned_migration_is_renewed(old: Path) -> None:
    with pytest.raises(StoreError):
        opened(old, FIRST, BROKEN)
    raw(old, "INSERT INTO thing VALUES ('pear')")
    opened(old, FIRST, SECOND).close()
    assert raw(old.with_name("box.sqlite.schema-1"), "SELECT * FROM thing") == [("apple",), ("pear",)]


def test_a_new_file_is_made_by_all_steps_without_a_copy(tmp_path: Path) -> None:
    database = opened(tmp_path / "new.sqlite", FIRST, SECOND, THIRD)
    database.close()
    assert sorted(found.name for found in tmp_path.iterdir()) == ["new.sqlite"]


def test_a_migration_that_fails_leaves_the_old_schema_and_goes_on_at_the_next_opening(old: Path) -> None:
    with pytest.raises(StoreError, match="nowhere"):
        opened(old, FIRST, BROKEN)
    assert raw(old, "PRAGMA user_version") == [(1,)]
    assert raw(old, "SELECT * FROM thing") == [("apple",)]
    database = opened(old, FIRST, SECOND)
    assert things(database) == [("apple", 5)]
    database.close()


def test_steps_done_before_a_failing_one_are_not_done_again(old: Path) -> None:
    with pytest.raises(StoreError):
        opened(old, FIRST, SECOND, BROKEN)
    assert raw(old, "PRAGMA user_version") == [(2,)]
    database = opened(old, FIRST, SECOND, THIRD)
    assert things(database) == [("apple", 5)]
    database.close()


def test_openers_at_once_migrate_once(old: Path) -> None:
    results = list[object]()

    def work() -> None:
        try:
            database = opened(old, FIRST, SECOND, THIRD)
            results.append(things(database))
            database.close()
        except StoreError as error:
            results.append(error)

    threads = [threading.Thread(target=work) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [[("apple", 5)]] * 5


KILLED = """
import os, sys
from prx.sqlite import Database, Schema
class Deadly(list):
    def __iter__(self):
        yield self[0]
        os.kill(os.getpid(), 9)
steps = (["CREATE TABLE thing (name TEXT)"], Deadly(["ALTER TABLE thing ADD COLUMN size INTEGER"]))
Database(sys.argv[1], Schema("box", 42, steps), full_sync=True)
"""


def test_a_process_killed_inside_a_migration_leaves_the_old_schema(old: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(old)], check=False, timeout=60)
    assert done.returncode == -9
    assert raw(old, "PRAGMA user_version") == [(1,)]
    assert raw(old.with_name("box.sqlite.schema-1"), "SELECT * FROM thing") == [("apple",)]
    database = opened(old, FIRST, SECOND)
    assert things(database) == [("apple", 5)]
    database.close()


def test_a_newer_file_is_refused_unchanged_with_the_command_to_run(old: Path) -> None:
    opened(old, FIRST, SECOND).close()
    before = old.read_bytes()
    with pytest.raises(
        StoreTooNew, match=r"box\.sqlite has schema 2.*up to 1.*pip install --upgrade prx-evolution"
    ):
        opened(old, FIRST)
    assert old.read_bytes() == before


def test_a_file_migrated_under_an_open_older_process_is_no_longer_used_by_it(old: Path) -> None:
    older = opened(old, FIRST)
    opened(old, FIRST, SECOND).close()
    with pytest.raises(StoreTooNew, match="schema 2"), older.writing() as work:
        work.rows("INSERT INTO thing VALUES ('pear')")
    with pytest.raises(StoreTooNew):
        things(older)
    older.close()
    assert raw(old, "SELECT name FROM thing") == [("apple",)]


@pytest.mark.parametrize("store", ["ledger", "records"])
def test_a_newer_ledger_or_record_store_is_refused(tmp_path: Path, store: str) -> None:
    path = tmp_path / "x.sqlite"
    (open_sqlite(path, system_ids()) if store == "ledger" else open_records(path)).close()
    raw(path, "PRAGMA user_version = 99")
    with pytest.raises(StoreTooNew, match="schema 99"):
        open_sqlite(path, system_ids()) if store == "ledger" else open_records(path)


AFFECTED = ["3.7.0", "3.40.1", "3.44.5", "3.45.1", "3.50.4", "3.50.6", "3.51.0", "3.51.2"]
SAFE = ["3.6.23", "3.44.6", "3.44.7", "3.50.7", "3.51.3", "3.52.0", "3.54.1", "4.0.0"]


@pytest.mark.parametrize("version", AFFECTED)
def test_a_sqlite_with_the_wal_reset_bug_opens_nothing(tmp_path: Path, version: str) -> None:
    path = tmp_path / "x.sqlite"
    for opening in (
        lambda: open_sqlite(path, system_ids(), sqlite_version=version),
        lambda: open_records(path, sqlite_version=version),
    ):
        with pytest.raises(StoreError, match=rf"SQLite {version} .*pip install -U apsw"):
            opening()
    assert not path.exists()


@pytest.mark.parametrize("version", [*SAFE, apsw.sqlite_lib_version()])
def test_a_sqlite_without_the_wal_reset_bug_is_accepted(version: str) -> None:
    refuse_wal_reset_bug(version)
