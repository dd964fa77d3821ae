"""Which database holds ledger and records: SQLite files of the state folder, or a PostgreSQL."""

from pathlib import Path

from prx.domain.errors import SettingsError, StoreError
from prx.domain.ids import Ids
from prx.ledger.ledger import StoredLedger
from prx.ledger.sqlite import open_sqlite as open_ledger_file
from prx.records.port import RecordStore
from prx.settings import Settings
from prx.wiring.paths import ledger_file, records_file


def open_ledger(settings: Settings, home: Path, ids: Ids, *, durable: bool = True) -> StoredLedger:
    """The control plane. Raises: StoreError; SettingsError when two places are named for it."""
    place = settings.decision_log.database
    if settings.store.url and place.path:
        raise SettingsError(
            "store.url and decision_log.database.path both say where the ledger is; leave one of them out"
        )
    url = settings.store.url or (place.path if place.backend == "postgres" else "")
    if place.backend == "postgres" and not url:
        raise SettingsError(
            "decision_log.database.backend is postgres and no address is given; "
            "set store.url, or decision_log.database.path, to postgresql://user:password@host:port/name"
        )
    if not url:
        path = home / Path(place.path).expanduser() if place.path else ledger_file(home)
        return open_ledger_file(path, ids, full_sync=durable)
    try:
        from prx.ledger.postgres import open_postgres
    except ModuleNotFoundError as error:
        raise _no_driver(error) from error
    return open_postgres(url, ids, full_sync=durable)


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
