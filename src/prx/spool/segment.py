"""The segment that a process is writing: its file, and whether that file is still where it was made."""

import fcntl
import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from prx.spool.folder import SEGMENT


@dataclass(slots=True)
class Segment:
    """An open file under an exclusive lock, which it keeps as long as it has a writer."""

    path: Path
    fd: int
    opened_at: datetime
    size: int = 0
    _name: str = field(init=False)
    _is: tuple[int, int] = field(init=False)

    def __post_init__(self) -> None:
        # As long as it is open, no other file can get its number.
        here = os.fstat(self.fd)
        self._name, self._is = str(self.path), (here.st_ino, here.st_dev)

    @property
    def in_place(self) -> bool:
        """False once the file, or the folder above it, was removed or moved: what is written then is lost."""
        try:
            there = os.stat(self._name)
        except OSError:
            return False
        return (there.st_ino, there.st_dev) == self._is

    def content(self) -> bytes:
        """Everything written so far, even of a file that was removed. Raises: OSError."""
        return os.pread(self.fd, self.size, 0)

    def put(self, data: bytes, write: Callable[[int, bytes], int]) -> None:
        """Append the data whole, or not at all. Raises: OSError."""
        done = 0
        try:
            while done < len(data):
                done += write(self.fd, data[done:] if done else data)
        except OSError:
            # Half a frame would read as damage; nobody else writes here, so the end is ours.
            os.ftruncate(self.fd, self.size)
            raise
        self.size += len(data)


def open_segment(folder: Path, opened_at: datetime, *, sync: bool) -> Segment:
    """A new segment, locked before it gets its name: one without a lock has no writer any more.

    Raises: OSError.
    """
    name = f"{opened_at:%Y%m%dT%H%M%S%f}-{os.getpid()}-{secrets.token_hex(4)}"
    staged = folder / f"{name}.new"
    fd = os.open(staged, os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        path = staged.with_suffix(SEGMENT)
        os.rename(staged, path)
        if sync:
            sync_folder(folder)
    except BaseException:
        os.close(fd)
        raise
    return Segment(path, fd, opened_at)


def sync_folder(folder: Path) -> None:
    """Bring the names in the folder to the disk. Raises: OSError."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
