"""The ledger in a PostgreSQL database, for any number of processes on any number of machines."""

from prx.domain.ids import Ids
from prx.ledger.ledger import StoredLedger
from prx.ledger.tables import Dialect, TableStore
from prx.postgres import Address, Database, Schema
from prx.postgres.database import BUSY_SECONDS, STANDSTILL_SECONDS
from prx.postgres.failures import StoreRefused
from prx.sqlite.statements import read_statements

SCHEMA = Schema(
    name="ledger",
    namespace="prx_ledger",
    lock=1,
    migrations=tuple(
        tuple(read_statements("prx.ledger", f"postgres_schema_{number}.sql").values()) for number in (1, 2, 3)
    ),
)
_DIALECT = Dialect(
    sql=read_statements("prx.ledger", "postgres_statements.sql"),
    everything=None,
    refused=StoreRefused,
    texts_as_json=False,
)


def open_postgres(
    url: str,
    ids: Ids,
    *,
    full_sync: bool = True,
    busy_seconds: float = BUSY_SECONDS,
    standstill_seconds: float = STANDSTILL_SECONDS,
) -> StoredLedger:
    """The ledger in the schema `prx_ledger` of the database at `url`, created or migrated where needed.

    Args: `url`: postgresql://user:password@host:port/name. `full_sync`: False gives up durability against
        power loss, for simulations only. `busy_seconds`: longest wait for another writer.
        `standstill_seconds`: after so long without a statement the server undoes an open write.
    Raises: StoreError, StoreTooNew.
    """
    database = Database(
        Address.of(url),
        SCHEMA,
        full_sync=full_sync,
        busy_seconds=busy_seconds,
        standstill_seconds=standstill_seconds,
    )
    return StoredLedger(TableStore(database, _DIALECT), ids)
