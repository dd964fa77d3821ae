"""The ledger in one SQLite file, for any number of processes on one machine."""

from pathlib import Path

from prx.domain.ids import Ids
from prx.ledger.ledger import StoredLedger
from prx.ledger.tables import Dialect, TableStore
from prx.sqlite import Database, Schema, read_statements
from prx.sqlite.database import BUSY_SECONDS
from prx.sqlite.failures import StoreRefused

SCHEMA = Schema(
    name="ledger",
    application_id=0x5052584C,  # "PRXL"
    migrations=tuple(
        tuple(read_statements("prx.ledger", f"schema_{number}.sql").values()) for number in (1, 2)
    ),
)
_DIALECT = Dialect(
    sql=read_statements("prx.ledger", "statements.sql"),
    everything=-1,
    refused=StoreRefused,
    texts_as_json=True,
)


class SqliteStore(TableStore):
    """A `Store` in one SQLite file: write-ahead log, one writer at a time, synced at every commit."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, _DIALECT)


def open_sqlite(
    path: Path | str,
    ids: Ids,
    *,
    full_sync: bool = True,
    busy_seconds: float = BUSY_SECONDS,
    sqlite_version: str | None = None,
) -> StoredLedger:
    """The ledger in the file at `path`, created or migrated where needed.

    Args: `full_sync`: False gives up durability against power loss, for simulations only.
        `busy_seconds`: longest wait for another writer. `sqlite_version`: what the library says of
        itself, for tests. Raises: StoreError, StoreTooNew.
    """
    database = Database(
        path, SCHEMA, full_sync=full_sync, busy_seconds=busy_seconds, sqlite_version=sqlite_version
    )
    return StoredLedger(SqliteStore(database), ids)
