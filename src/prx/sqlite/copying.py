"""Copies and checks of whole files, made by SQLite itself while others read and write.

Opening the file in another way is forbidden: a plain copy misses the log, and closing it would drop the
locks that this process holds.
"""

import os
from pathlib import Path

import apsw

from prx.domain.answers import Failed, Passed
from prx.domain.errors import StoreError
from prx.sqlite.failures import in_words


def copy_file(source: Path, target: Path) -> None:
    """Put a consistent copy of what is committed at `target`, whole or not at all.

    Raises: StoreError when either file cannot be used.
    """
    if not source.is_file():
        raise StoreError(f"{source} cannot be copied: there is no such file")
    unfinished = target.with_name(f"{target.name}.part")
    with in_words(target):
        unfinished.unlink(missing_ok=True)
        origin, copy = apsw.Connection(str(source)), apsw.Connection(str(unfinished))
        try:
            with copy.backup("main", origin, "main") as backup:
                backup.step()
            copy.pragma("journal_mode", "delete")
        finally:
            copy.close()
            origin.close()
        os.replace(unfinished, target)
        _sync_folder(target.parent)


def check_file(path: Path) -> Passed | Failed:
    """Whether every page, index and reference of the file is sound. Reads all of it.

    Raises: StoreError when it cannot be opened.
    """
    with in_words(path):
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            faults = [
                str(text) for (text,) in connection.execute("PRAGMA integrity_check(20)") if text != "ok"
            ]
            orphans = connection.execute("PRAGMA foreign_key_check").fetchall()
        except apsw.CorruptError as error:
            faults, orphans = [str(error)], []
        finally:
            connection.close()
    faults += [f"{row[0]} row {row[1]} refers to nothing in {row[2]}" for row in orphans]
    if faults:
        return Failed(f"{path}: {'; '.join(faults)}", "store_damaged")
    return Passed(f"{path} is sound")


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
