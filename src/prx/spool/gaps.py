"""How many records a spool could not keep, by all its processes; the count needs no room on a full disk."""

import fcntl
import os
import struct
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from prx.domain.times import from_micros, to_micros

FILE = "gaps.bin"
_COUNTS = struct.Struct("<4sQq")
_MAGIC = b"GAPS"


@dataclass(frozen=True, slots=True)
class Gaps:
    """Records that were not kept, and when the last of them was lost."""

    records: int = 0
    last_at: datetime | None = None


def make_gaps(folder: Path) -> None:
    """Take the bytes now: overwriting them needs no room later. Without room there is no file."""
    path = folder / FILE
    if path.exists():
        return
    try:
        with open(path, "xb", opener=_private) as file:
            file.write(_COUNTS.pack(_MAGIC, 0, 0))
    except OSError:
        return


def count_gap(folder: Path, at: datetime, records: int = 1) -> None:
    """Add to the count; where even that fails, the process's own count still tells."""
    try:
        fd = os.open(folder / FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        return
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        known = _read(os.pread(fd, _COUNTS.size, 0))
        os.pwrite(fd, _COUNTS.pack(_MAGIC, known.records + records, to_micros(at)), 0)
    except OSError:
        return
    finally:
        os.close(fd)


def gaps_of(folder: Path) -> Gaps:
    """What was counted; nothing where there is no file."""
    try:
        return _read((folder / FILE).read_bytes())
    except OSError:
        return Gaps()


def _read(data: bytes) -> Gaps:
    if len(data) < _COUNTS.size or data[:4] != _MAGIC:
        return Gaps()
    _, records, micros = _COUNTS.unpack_from(data)
    return Gaps(records, from_micros(micros) if records else None)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
