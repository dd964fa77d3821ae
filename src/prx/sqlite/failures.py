"""What SQLite reports, said in words: what happened, to which file, what to do next."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from prx.domain.errors import StoreError

_RESTORE = "restore it with `prx restore`, or move it away to begin anew"
_ADVICE: tuple[tuple[type[apsw.Error], str], ...] = (
    (
        apsw.FullError,
        "could not grow: the disk or quota is full; the write was undone and nothing stored before is lost; "
        "free some space and try again",
    ),
    (
        apsw.ReadOnlyError,
        "is read-only here; check the owner and permissions of the file and of its folder, and that the disk "
        "is mounted for writing",
    ),
    (apsw.PermissionsError, "may not be used by this user; check owner and permissions"),
    (apsw.NotADBError, f"is no SQLite database, or its first bytes are damaged; {_RESTORE}"),
    (apsw.CorruptError, f"is damaged; nothing was changed; {_RESTORE}"),
    (apsw.NoMemError, "needs more memory than there is; nothing was changed; try again with fewer rows"),
    (apsw.TooBigError, "was given a text or blob above SQLite's limit; nothing was changed"),
    (
        apsw.IOError,
        "could not be read or written (disk I/O error), which a full disk causes too; nothing of this write "
        "was kept; look at free space (`df`) and the system log, then try again: the file is checked first",
    ),
    (apsw.ConnectionClosedError, "is closed; open it again"),
)


class StoreRefused(StoreError):
    """The file's own rules (unique, gapless, never changed) refused a row."""


class StoreBusy(StoreError):
    """Another connection held the lock longer than the bounded wait."""


@contextmanager
def in_words(path: Path, *, waited: float = 0.0) -> Iterator[None]:
    """Turn SQLite's errors into StoreError; `waited` is the bounded wait for a lock, in seconds."""
    try:
        yield
    except apsw.Error as error:
        raise explained(error, path, waited=waited) from error
    except OSError as error:
        raise StoreError(
            f"{path} cannot be used: {error.strerror or error}; check the path and its rights"
        ) from error


def explained(error: apsw.Error, path: Path, *, waited: float = 0.0) -> StoreError:
    """The same failure with the path, the reason and the next step."""
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return StoreBusy(
            f"{path} is locked: another process has been writing to it for over {waited:g} s; nothing was "
            "changed; try again, and if it lasts look for a stopped or hanging `prx` process"
        )
    if isinstance(error, apsw.CantOpenError):
        return StoreError(f"{path} cannot be opened: {_why_not_opened(path)}")
    if isinstance(error, apsw.ConstraintError):
        return StoreRefused(
            f"{path} refused a row ({error}); nothing was changed; read again and decide again"
        )
    for kind, advice in _ADVICE:
        if isinstance(error, kind):
            return StoreError(f"{path} {advice} ({error})")
    return StoreError(f"{path} refused a statement: {error}; run `prx doctor`")


def _why_not_opened(path: Path) -> str:
    if path.is_dir():
        return "it is a folder; name a file in it"
    if not path.parent.is_dir():
        return f"the folder {path.parent} does not exist; create it or set PRX_HOME"
    if not os.access(path.parent, os.W_OK | os.X_OK):
        return f"this user may not write in {path.parent}; check its owner and permissions"
    if path.exists() and not os.access(path, os.R_OK | os.W_OK):
        return "this user may not read and write it; check its owner and permissions"
    return "the system refused (too many open files, or a disk fault); look at `ulimit -n` and the system log"
