"""Records in one SQLite file, for any number of processes on one machine."""

from pathlib import Path

from prx.records.tables import Dialect, TableRecords
from prx.sqlite import Database, Schema, read_statements
from prx.sqlite.database import BUSY_SECONDS

SCHEMA = Schema(
    name="record store",
    application_id=0x50525852,  # "PRXR"
    migrations=tuple(
        tuple(read_statements("prx.records", f"schema_{number}.sql").values()) for number in (1, 2)
    ),
)
_DIALECT = Dialect(
    sql=read_statements("prx.records", "statements.sql") | read_statements("prx.records", "erasing.sql"),
    texts_as_json=True,
)


class SqliteRecords(TableRecords):
    """A `RecordStore` in one SQLite file."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, _DIALECT)


def open_sqlite(
    path: Path | str,
    *,
    full_sync: bool = False,
    busy_seconds: float = BUSY_SECONDS,
    sqlite_version: str | None = None,
) -> SqliteRecords:
    """Records in the file at `path`, created or migrated where needed.

    Args: `full_sync`: sync at every batch; without it power loss may take the last batches, which the spool
        still has and sends again. `busy_seconds`: longest wait for another writer. `sqlite_version`: what the
        library says of itself, for tests. Raises: StoreError, StoreTooNew.
    """
    return SqliteRecords(
        Database(path, SCHEMA, full_sync=full_sync, busy_seconds=busy_seconds, sqlite_version=sqlite_version)
    )
