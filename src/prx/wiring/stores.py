"""Which database holds ledger and records: SQLite files of the state folder, or a PostgreSQL."""

from pathlib import Path

from prx.domain.errors import StoreError
from prx.domain.ids import Ids
from prx.ledger.ledger import StoredLedger
from prx.ledger.sqlite import open_sqlite as open_ledger_file
from prx.records.port import RecordStore
from prx.settings import Settings
from prx.wiring.paths import ledger_file, records_file


def open_ledger(settings: Settings, home: Path, ids: Ids, *, durable: bool = True) -> StoredLedger:
    """The control plane. Raises: StoreError."""
    if not settings.store.url:
        return open_ledger_file(ledger_file(home), ids, full_sync=durable)
    try:
        from prx.ledger.postgres import open_postgres
    except ModuleNotFoundError as error:
        raise _no_driver(error) from error
    return open_postgres(settings.store.url, ids, full_sync=durable)


def open_records(settings: Settings, home: Path) -> RecordStore:
    """The data plane. Raises: StoreError."""
    if not settings.store.url:
        from prx.records.sqlite import open_sqlite

        return open_sqlite(records_file(home))
    try:
        from prx.records.postgres import open_postgres
    except ModuleNotFoundError as error:
        raise _no_driver(error) from error
    return open_postgres(settings.store.url)


def _no_driver(error: ModuleNotFoundError) -> StoreError:
    return StoreError(
        f"[self_evolution.store] url names a PostgreSQL, and {error.name} is not installed; nothing was "
        "opened; pip install 'prx-evolution[postgres]'"
    )
