"""Records in a PostgreSQL database, for any number of processes on any number of machines."""

from prx.postgres import Address, Database, Schema
from prx.postgres.database import BUSY_SECONDS
from prx.records.tables import Dialect, TableRecords
from prx.sqlite.statements import read_statements

SCHEMA = Schema(
    name="record store",
    namespace="prx_records",
    lock=2,
    migrations=tuple(
        tuple(read_statements("prx.records", f"postgres_schema_{number}.sql").values()) for number in (1, 2)
    ),
)
_DIALECT = Dialect(
    sql=read_statements("prx.records", "postgres_statements.sql")
    | read_statements("prx.records", "postgres_erasing.sql"),
    texts_as_json=False,
)


def open_postgres(url: str, *, busy_seconds: float = BUSY_SECONDS) -> TableRecords:
    """Records in the schema `prx_records` of the database at `url`, created or migrated where needed.

    Writers take turns, one batch each, so that a reader's cursor never passes a batch that is not committed
    yet. Args: `busy_seconds`: longest wait for another writer. Raises: StoreError, StoreTooNew.
    """
    database = Database(Address.of(url), SCHEMA, full_sync=False, busy_seconds=busy_seconds)
    return TableRecords(database, _DIALECT)
