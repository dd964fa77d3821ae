"""Older and half-migrated stores in PostgreSQL."""

import subprocess
import sys
import threading

import pytest

import postgres_server as pg
from prx.domain.errors import StoreError, StoreTooNew
from prx.postgres import Address, Database, Schema

pytestmark = pytest.mark.full
FIRST = ("CREATE TABLE prx_box.thing (name TEXT)", "CREATE TABLE prx_box.other (name TEXT)")
SECOND = (
    "ALTER TABLE prx_box.thing ADD COLUMN size INTEGER",
    "UPDATE prx_box.thing SET size = LENGTH(name)",
)
THIRD = ("CREATE INDEX thing_by_size ON prx_box.thing (size)",)
BROKEN = (SECOND[0], "INSERT INTO prx_box.nowhere VALUES (1)")


def opened(url: str, *migrations: tuple[str, ...]) -> Database:
    return Database(Address.of(url), Schema("box", "prx_box", 9, migrations), full_sync=True)


def things(database: Database) -> list[tuple[object, ...]]:
    with database.reading() as work:
        return work.rows("SELECT * FROM prx_box.thing ORDER BY name")


@pytest.fixture
def old(postgres_url: str) -> str:
    """A store of schema 1 with one row."""
    database = opened(postgres_url, FIRST)
    with database.writing() as work:
        work.rows("INSERT INTO prx_box.thing VALUES ('apple')")
    database.close()
    return postgres_url


def test_an_older_store_is_brought_up_to_date(old: str) -> None:
    database = opened(old, FIRST, SECOND, THIRD)
    assert things(database) == [("apple", 5)]
    database.close()


def test_a_migration_that_fails_leaves_the_old_schema_and_goes_on_at_the_next_opening(old: str) -> None:
    with pytest.raises(StoreError, match="nowhere"):
        opened(old, FIRST, BROKEN)
    database = opened(old, FIRST)
    assert things(database) == [("apple",)]
    database.close()
    database = opened(old, FIRST, SECOND)
    assert things(database) == [("apple", 5)]
    database.close()


def test_steps_done_before_a_failing_one_are_not_done_again(old: str) -> None:
    with pytest.raises(StoreError):
        opened(old, FIRST, SECOND, BROKEN)
    database = opened(old, FIRST, SECOND, THIRD)
    assert things(database) == [("apple", 5)]
    database.close()


def test_openers_at_once_migrate_once(old: str) -> None:
    results = list[object]()

    def work() -> None:
        try:
            database = opened(old, FIRST, SECOND, THIRD)
            results.append(things(database))
            database.close()
        except StoreError as error:
            results.append(error)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [[("apple", 5)]] * 6


KILLED = """
import os, sys
from prx.postgres import Address, Database, Schema
class Deadly(list):
    def __iter__(self):
        yield self[0]
        os.kill(os.getpid(), 9)
steps = (["SELECT 1"], Deadly(["ALTER TABLE prx_box.thing ADD COLUMN size INTEGER"]))
Database(Address.of(sys.argv[1]), Schema("box", "prx_box", 9, steps), full_sync=True)
"""


def test_a_process_killed_inside_a_migration_leaves_the_old_schema_and_its_lock_free(old: str) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, old], check=False)
    assert done.returncode == -9
    database = opened(old, FIRST)
    assert things(database) == [("apple",)]
    database.close()
    database = opened(old, FIRST, SECOND)
    assert things(database) == [("apple", 5)]
    database.close()


def test_an_open_process_refuses_to_go_on_once_a_newer_one_has_migrated(
    old: str, postgres: pg.PostgresServer
) -> None:
    older = opened(old, FIRST)
    opened(old, FIRST, SECOND).close()
    with pytest.raises(StoreTooNew, match="has schema 2 and this PRX Evolution knows up to 1"):
        things(older)
    older.close()
    assert postgres.say("SELECT name FROM prx_box.thing", pg.database_of(old)) == [("apple",)]
