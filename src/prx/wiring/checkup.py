"""Whether the files of a state folder are whole."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from prx.domain.answers import Failed
from prx.domain.errors import EvolutionError
from prx.settings import Settings
from prx.spool.inspection import Inspected, inspect
from prx.sqlite.copying import check_file
from prx.wiring.memories import memory_file
from prx.wiring.paths import records_file, spool_folder
from prx.wiring.stores import ledger_path, ledger_url

OK, WARNING, FAILED = "ok", "warning", "failed"
_SLOW = timedelta(hours=1)
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Checked:
    """One check: `ok`, `warning` or `failed`, and what was seen."""

    check: str
    answer: str
    seen: str


def check_files(settings: Settings, home: Path) -> Iterator[Checked]:
    """Each database file that is there, read whole."""
    files = [] if ledger_url(settings) else [("ledger file", ledger_path(settings, home))]
    files += [] if settings.store.url else [("records file", records_file(home))]
    files.append(("memory file", memory_file(home)))
    for name, path in files:
        if path.exists():
            yield _file(name, path)


def check_spool(home: Path, now: datetime) -> Checked:
    """The records on their way to the store."""
    folder = spool_folder(home)
    try:
        found = inspect(folder)
    except OSError as error:
        return Checked("spool", FAILED, f"{folder} cannot be read: {error.strerror or error}")
    if found.damaged or found.held:
        wrong = [*found.damaged, *(f"{name} holds records that were refused" for name in found.held)]
        more = f" and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
        return Checked("spool", FAILED, f"{'; '.join(wrong[:_SHOWN])}{more}; all other records are whole")
    late = found.oldest_waiting is not None and now - found.oldest_waiting > _SLOW
    if late or found.gaps.records:
        return Checked("spool", WARNING, _told(found))
    return Checked("spool", OK, _told(found))


def _file(name: str, path: Path) -> Checked:
    try:
        found = check_file(path)
    except EvolutionError as error:
        return Checked(name, FAILED, str(error))
    if isinstance(found, Failed):
        return Checked(
            name, FAILED, f"{found.why}; stop `prx`, and bring back the newest backup with `prx restore`"
        )
    return Checked(name, OK, f"{path}, {path.stat().st_size:,} bytes, every page whole")


def _told(found: Inspected) -> str:
    parts = [f"{found.records} records in {found.segments} segments, {found.total_bytes:,} bytes"]
    parts.append(f"{found.waiting_bytes:,} bytes not in the store yet")
    if found.oldest_waiting is not None:
        parts.append(f"the oldest since {found.oldest_waiting:%Y-%m-%d %H:%M} UTC")
    if found.gaps.records:
        last = f"{found.gaps.last_at:%Y-%m-%d %H:%M} UTC" if found.gaps.last_at else "an unknown time"
        parts.append(f"{found.gaps.records} records could not be kept, the last at {last}")
    return ", ".join(parts)
