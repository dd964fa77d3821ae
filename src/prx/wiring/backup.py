"""Backup of a state folder while others write to it, and its restore: all of it or nothing."""

import ctypes
import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version
from pathlib import Path

from prx.domain.answers import Failed
from prx.domain.errors import EvolutionError, InvalidInput, StoreError
from prx.domain.ids import Ids
from prx.ledger.sqlite import open_sqlite as open_ledger
from prx.records.sqlite import open_sqlite as open_records
from prx.settings import Settings
from prx.spool.folder import POSITION, SEGMENT
from prx.sqlite import check_file, copy_file
from prx.views.audit import AuditCheck, verify
from prx.wiring.archive import FORMAT, Kept, Manifest, damaged, fingerprint, unpack, write
from prx.wiring.paths import records_file, spool_folder
from prx.wiring.stores import ledger_path, ledger_url

_DATABASE = ".sqlite"
_PASSING = ("-wal", "-shm", ".lock", ".part", ".tmp")
_EXCHANGE = 2  # RENAME_EXCHANGE of renameat2(2)


@dataclass(frozen=True, slots=True)
class BackedUp:
    """What a backup holds; `size` in bytes, `audit_head` as SEQ:HASH."""

    file: str
    files: int
    size: int
    sessions: int
    audit_rows: int
    audit_head: str


@dataclass(frozen=True, slots=True)
class Restored:
    """What was restored; `set_aside` is where the state folder went that was there before. `erase_again`:
    when something was erased that came back with the backup, as far as the old state could tell."""

    home: str
    made_at: datetime
    files: int
    audit_rows: int
    audit_head: str
    set_aside: str | None
    erase_again: tuple[datetime, ...] = ()


def back_up(
    home: Path, settings: Settings, target: Path, *, ids: Ids, now: datetime, force: bool
) -> BackedUp:
    """Write everything in `home` to the file `target`; processes that use it go on.

    The copies are checked (pages, audit chain) before the file appears.
    Raises: InvalidInput for a target that is there, or a store in PostgreSQL; StoreError; OSError.
    """
    _refuse_postgres(settings, target)
    ledger = ledger_path(settings, home).resolve()
    if not ledger.is_relative_to(home.resolve()):
        raise InvalidInput(
            f"the ledger is in {ledger}, outside of {home} (decision_log.database.path), and one backup "
            "holds one folder; nothing was written; keep the ledger in the state folder to back it up"
        )
    if not ledger.is_file():
        raise StoreError(
            f"{home} holds no state yet, so there is nothing to back up; check --home or PRX_HOME"
        )
    if target.is_dir() or (target.exists() and not force):
        raise InvalidInput(f"{target} is there already; name another file, or replace it with --force")
    if not target.parent.is_dir():
        raise InvalidInput(f"the folder {target.parent} does not exist; create it, or name another file")
    if target.resolve().is_relative_to(home.resolve()):
        raise InvalidInput(f"{target} lies in the state folder itself; name a file outside of {home}")
    with _folder_beside(target) as staged:
        name = str(ledger.relative_to(home.resolve()))
        files = dict(_copied(home, settings, staged, name))
        chain, sessions = _checked(staged, ids, "the copy", name)
        manifest = Manifest(
            format=FORMAT,
            made_at=now,
            release=version("prx-evolution"),
            audit_head=chain.head,
            files={file: fingerprint(path) for file, path in files.items()},
            ledger=name,
        )
        write(target, files, manifest)
    return BackedUp(
        file=str(target),
        files=len(files),
        size=_total(manifest.files),
        sessions=sessions,
        audit_rows=chain.rows,
        audit_head=chain.head,
    )


def restore(source: Path, home: Path, *, ids: Ids, now: datetime, actor: str, force: bool) -> Restored:
    """Make `home` what it was when the backup was written, plus an audit row that says so.

    Hashes, schemas and the audit chain are checked in a folder beside `home` first; then that folder takes
    its place in one step. With `force` a state folder that is there is set aside, never deleted.
    Raises: InvalidInput for a damaged backup or a folder that is not empty; StoreTooNew; StoreError; OSError.
    """
    if not source.is_file():
        raise InvalidInput(f"there is no file {source}; name a file that `prx backup` wrote")
    occupied = home.is_dir() and any(home.iterdir())
    if occupied and not force:
        raise InvalidInput(
            f"{home} is not empty; nothing was restored; stop every `prx` process and give --force to set it "
            "aside, or restore into another folder with --home"
        )
    with _folder_beside(home) as staged:
        manifest = unpack(source, staged)
        chain, _ = _checked(staged, ids, str(source), manifest.ledger)
        if chain.head != manifest.audit_head:
            raise damaged(source, "its audit chain does not end where the manifest says")
        ledger = open_ledger(staged / manifest.ledger, ids)
        with ledger.transaction(now=now, actor=actor) as tx:
            told = {"made_at": manifest.made_at.isoformat(), "head": chain.head}
            row = tx.audit("store.restored", source.name, told)
        ledger.close()
        again = _undone(home, staged) if occupied else ()
        aside = _take_place(staged, home, now) if occupied else None
        if not occupied:
            _rename(staged, home)
    return Restored(
        home=str(home),
        made_at=manifest.made_at,
        files=len(manifest.files),
        audit_rows=row.seq,
        audit_head=f"{row.seq}:{row.hash}",
        set_aside=str(aside) if aside else None,
        erase_again=again,
    )


def _undone(home: Path, staged: Path) -> tuple[datetime, ...]:
    """Times of the erasures that the old state knows and the restored one does not."""
    old, new = _erasures(home), _erasures(staged)
    return tuple(at for digest, at in old if (digest, at) not in new)


def _erasures(folder: Path) -> list[tuple[str, datetime]]:
    if not records_file(folder).is_file():
        return []
    try:
        records = open_records(records_file(folder))
    except EvolutionError:
        # The old state may be damaged: that is what backups are for.
        return []
    try:
        return [(one.digest, one.at) for one in records.erasures.erasures()]
    except EvolutionError:
        return []
    finally:
        records.close()


def _refuse_postgres(settings: Settings, target: Path) -> None:
    if url := ledger_url(settings) or settings.store.url:
        from prx.postgres import Address

        raise InvalidInput(
            "the state is in PostgreSQL, which has its own backup; nothing was written; run: pg_dump "
            f"--format=custom --schema='prx_*' --file={target} '{Address.of(url).public}' "
            "(and pg_restore to restore); of the state folder copy spool/, prompts/ and secret.key"
        )


def _copied(home: Path, settings: Settings, staged: Path, ledger: str) -> Iterator[tuple[str, Path]]:
    """Every file of the state folder, copied.

    SQLite itself copies databases. In this order: a spool position that is older than the records sends
    some again, and the store keeps each once; a position, ledger or memory that is newer than the records
    would skip what they lack.
    """
    for position in sorted(spool_folder(home).glob(f"*{POSITION}")):
        yield from _taken(position, staged / "spool" / position.name, f"spool/{position.name}")
    for segment in sorted(spool_folder(home).glob(f"*{SEGMENT}")):
        yield from _taken(segment, staged / "spool" / segment.name, f"spool/{segment.name}")
    for prompts in sorted((home / "prompts").glob("*.json")):
        yield from _taken(prompts, staged / "prompts" / prompts.name, f"prompts/{prompts.name}")
    (staged / ledger).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    copy_file(home / ledger, staged / ledger)
    yield ledger, staged / ledger
    top = [path for path in home.iterdir() if _lasting(path) and path.name != ledger]
    for path in sorted(top, key=lambda one: (one.suffix == _DATABASE, one == records_file(home), one.name)):
        if path.suffix == _DATABASE:
            copy_file(path, staged / path.name)
            yield path.name, staged / path.name
        else:
            yield from _taken(path, staged / path.name, path.name)
    own = "prx.toml"
    if settings.file is not None and not (home / own).is_file():
        yield from _taken(settings.file, staged / own, own)


def _lasting(path: Path) -> bool:
    passing = path.name.startswith(".") or path.name.endswith(_PASSING) or ".sqlite." in path.name
    return path.is_file() and not path.is_symlink() and not passing


def _taken(path: Path, copy: Path, name: str) -> Iterator[tuple[str, Path]]:
    copy.parent.mkdir(mode=0o700, exist_ok=True)
    try:
        shutil.copyfile(path, copy)
    except FileNotFoundError:
        return  # the shipper was done with it in the meantime
    yield name, copy


def _checked(folder: Path, ids: Ids, what: str, ledger_name: str) -> tuple[AuditCheck, int]:
    """The whole audit chain, and the number of sessions. Raises: InvalidInput, StoreTooNew, StoreError."""
    if not (folder / ledger_name).is_file() or not records_file(folder).is_file():
        raise InvalidInput(f"{what} holds no ledger or no records; nothing was written")
    for path in {folder / ledger_name, *folder.glob(f"*{_DATABASE}")}:
        sound = check_file(path)
        if isinstance(sound, Failed):
            raise InvalidInput(f"{what}: {sound.why}; nothing was written")
    ledger = open_ledger(folder / ledger_name, ids)
    try:
        with ledger.view() as view:
            chain = verify(view)
    finally:
        ledger.close()
    if not chain.whole:
        raise InvalidInput(f"{what}: {chain.why}; nothing was written; see `prx evolution audit verify`")
    records = open_records(records_file(folder))
    try:
        sessions = records.counts()["sessions"]
    finally:
        records.close()
    return chain, sessions


@contextmanager
def _folder_beside(path: Path) -> Iterator[Path]:
    """A folder of its owner alone on the same disk as `path`; what is left of it at the end is deleted."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    except OSError as error:
        raise StoreError(
            f"{path.parent} cannot be written ({error.strerror}); it must have room for a copy of the state"
        ) from error
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _take_place(staged: Path, home: Path, now: datetime) -> Path:
    """Put `staged` in the place of `home` in one step; returns where the old folder is now."""
    aside = home.with_name(f"{home.name}.before-restore-{now:%Y%m%dT%H%M%S}")
    if aside.exists():
        raise InvalidInput(f"{aside} is there already; nothing was restored; move it away and try again")
    _exchange(staged, home)
    _rename(staged, aside)
    return aside


def _exchange(one: Path, other: Path) -> None:
    """Swap two folders, so that at no moment there is none."""
    library = ctypes.CDLL(None, use_errno=True)
    here = -100  # AT_FDCWD
    if library.renameat2(here, os.fsencode(one), here, os.fsencode(other), _EXCHANGE) != 0:
        raise _cannot_move(other, ctypes.get_errno())


def _rename(one: Path, other: Path) -> None:
    try:
        os.rename(one, other)
    except OSError as error:
        raise _cannot_move(other, error.errno or 0) from error


def _cannot_move(home: Path, number: int) -> StoreError:
    reason = "it is a mount point" if number == errno.EBUSY else os.strerror(number)
    return StoreError(
        f"{home} cannot be replaced in one step ({reason}); nothing was restored; restore into a new folder "
        "with --home and point PRX_HOME there"
    )


def _total(files: dict[str, Kept]) -> int:
    return sum(kept.size for kept in files.values())
