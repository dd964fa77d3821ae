"""Which database holds ledger and records: SQLite files of the state folder, or a PostgreSQL."""

from pathlib import Path

from prx.domain.errors import SettingsError, StoreError
from prx.domain.ids import Ids
from prx.ledger.ledger import StoredLedger
from prx.ledger.sqlite import open_sqlite as open_ledger_file
from prx.records.port import RecordStore
from prx.settings import Settings
from prx.wiring.paths import ledger_file, records_file


def ledger_url(settings: Settings) -> str:
    """Address of the PostgreSQL that holds the ledger; empty for a file.

    Raises: SettingsError when two places are named for it, or none of the kind that is.
    """
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
    return url


def ledger_path(settings: Settings, home: Path) -> Path:
    """The file that holds the ledger where it is not in a PostgreSQL."""
    named = settings.decision_log.database.path
    return home / Path(named).expanduser() if named else ledger_file(home)


def open_ledger(settings: Settings, home: Path, ids: Ids, *, durable: bool = True) -> StoredLedger:
    """The control plane. Raises: StoreError; SettingsError when two places are named for it."""
    url = ledger_url(settings)
    if not url:
        return open_ledger_file(ledger_path(settings, home), ids, full_sync=durable)
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
