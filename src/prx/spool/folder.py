"""The spool folder: what its files are called and what they add up to."""

import errno
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from prx.domain.errors import StoreError

SEGMENT = ".seg"
POSITION = ".pos"
RESERVE = "reserve.bin"
SHIP_LOCK = "ship.lock"


class Position(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How far a segment has been committed to the store.

    `committed_at` is set once the segment is complete and committed whole; `held` keeps it beyond its time
    because it holds records that this release cannot read.
    """

    offset: int = 0
    committed_at: datetime | None = None
    held: bool = False


@dataclass(frozen=True, slots=True)
class Usage:
    """What the folder holds, in bytes; `waiting` is not committed to the store yet."""

    segments: int
    total: int
    waiting: int
    oldest_waiting: datetime | None


def prepare(folder: Path) -> Path:
    """The folder, made if missing and readable by its owner only. Raises: StoreError."""
    try:
        make_folder(folder)
    except OSError as error:
        raise StoreError(
            f"the spool folder {folder} cannot be made ({error.strerror}); "
            "choose a writable PRX_HOME or change the rights of the folder"
        ) from error
    return folder


def make_folder(folder: Path) -> None:
    """Make the folder and the one above it, for their owner only. Raises: OSError."""
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder.mkdir(exist_ok=True, mode=0o700)


def segments(folder: Path) -> list[Path]:
    """All segments, oldest first."""
    return sorted(folder.glob(f"*{SEGMENT}"))


def position_of(segment: Path) -> Position:
    """The committed position; the start when it was never shipped, or its note cannot be true."""
    try:
        told = msgspec.json.decode(segment.with_suffix(POSITION).read_bytes(), type=Position)
        return told if 0 <= told.offset <= segment.stat().st_size else Position()
    except (FileNotFoundError, msgspec.DecodeError):
        return Position()


def set_position(segment: Path, position: Position) -> None:
    """Replace the committed position in one step."""
    target = segment.with_suffix(POSITION)
    staged = target.with_suffix(".pos.tmp")
    staged.write_bytes(msgspec.json.encode(position))
    os.replace(staged, target)


def usage(folder: Path) -> Usage:
    """Bytes held in all segments, and of these the ones not committed."""
    total = waiting = count = 0
    oldest: datetime | None = None
    for segment in segments(folder):
        try:
            size = segment.stat().st_size
        except FileNotFoundError:
            continue
        rest = max(0, size - position_of(segment).offset)
        count, total, waiting = count + 1, total + size, waiting + rest
        if rest and oldest is None:
            oldest = started_at(segment)
    return Usage(count, total, waiting, oldest)


def started_at(segment: Path) -> datetime | None:
    """When the segment was opened, from its name; None when a person renamed it."""
    try:
        return datetime.strptime(segment.name.split("-", 1)[0], "%Y%m%dT%H%M%S%f").replace(tzinfo=UTC)
    except ValueError:
        return None


def remove(segment: Path) -> None:
    """Delete a segment and its position; the position goes last, so a crash never re-sends for nothing."""
    segment.unlink(missing_ok=True)
    segment.with_suffix(POSITION).unlink(missing_ok=True)


def reclaim(folder: Path, wanted: int) -> int:
    """Delete committed segments, oldest first, until `wanted` bytes are free; returns the bytes freed."""
    freed = 0
    for segment in segments(folder):
        if freed >= wanted:
            break
        position = position_of(segment)
        if position.committed_at is None or position.held:
            continue
        try:
            freed += segment.stat().st_size
        except FileNotFoundError:
            continue
        remove(segment)
    return freed


def make_reserve(folder: Path, size: int) -> bool:
    """Preallocate the bytes that keep envelopes when the disk is full; False when there is no room."""
    path = folder / RESERVE
    if size <= 0 or path.exists():
        return True
    try:
        with open(path, "xb") as file:
            file.write(bytes(size))
    except FileExistsError:
        return True
    except OSError as error:
        path.unlink(missing_ok=True)
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        return False
    return True


def release_reserve(folder: Path) -> bool:
    """Give the reserve back to the file system; whether there was one."""
    try:
        (folder / RESERVE).unlink()
    except FileNotFoundError:
        return False
    return True
