"""Carries spooled records into a store: each at least once, and the store keeps each once."""

import fcntl
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path

from prx.domain.codec import decode
from prx.domain.errors import InvalidInput, StoreError
from prx.domain.records import Record
from prx.spool.folder import SHIP_LOCK, Position, position_of, prepare, remove, segments, set_position
from prx.spool.frames import Blank, Frame, Gap, Piece, Tail, pieces

Append = Callable[[Sequence[Record]], int]
BATCH = 500
RETENTION = timedelta(hours=72)
_SAMPLE = 64 * 1024


@dataclass(frozen=True, slots=True)
class Damage:
    """A stretch of a segment that gave no record: bytes `start` to `end`, and why."""

    segment: str
    start: int
    end: int
    why: str


@dataclass(frozen=True, slots=True)
class Shipped:
    """One run of the shipper: `records` handed over, of which `new` were not in the store yet;
    `finished` segments committed whole, `expired` deleted after their time. `busy`: another process ships."""

    records: int = 0
    new: int = 0
    finished: int = 0
    expired: int = 0
    damaged: tuple[Damage, ...] = ()
    busy: bool = False


@dataclass(slots=True)
class _Run:
    append: Append
    records: int = 0
    new: int = 0
    damaged: list[Damage] = field(default_factory=list)


def ship(folder: Path, append: Append, *, now: datetime, retention: timedelta = RETENTION) -> Shipped:
    """Hand every record not committed yet to `append`, oldest segment first.

    A position moves only after `append` returned; a crash in between sends the batch again. The unfinished
    end of a segment that still has a writer is left for the next run. Segments committed whole stay for
    `retention`, so that `refill` can use them. A record that the store refuses as InvalidInput is reported as
    damage and stays in its segment. Raises: what else `append` raises; nothing is lost then.
    """
    with _only_one(prepare(folder)) as mine:
        if not mine:
            return Shipped(busy=True)
        run, finished, expired = _Run(append), 0, 0
        for segment in segments(folder):
            position = position_of(segment)
            if position.committed_at is not None:
                if not position.held and now - position.committed_at >= retention:
                    remove(segment)
                    expired += 1
                continue
            finished += _ship_segment(segment, position, run, now)
        return Shipped(run.records, run.new, finished, expired, tuple(run.damaged))


def refill(folder: Path, append: Append) -> Shipped:
    """Hand every record that the spool still holds to `append`, for a store that lost rows.

    Positions stay as they are; the store keeps what it has. Raises: what `append` raises.
    """
    run = _Run(append)
    for segment in segments(prepare(folder)):
        for batch in _batches(pieces(_read(segment, 0))):
            _hand_over(segment, batch, run)
    return Shipped(run.records, run.new, damaged=tuple(run.damaged))


def missed_rows(folder: Path, append: Append) -> int:
    """How many of a sample of committed records the store missed, as after a restore or the loss of its file.

    Asked by handing over again the first and the last record of each segment as far as it was shipped, and
    one of every 64 KiB between them; the rest can then be refilled. Raises: what `append` raises.
    """
    run = _Run(append)
    for segment in segments(prepare(folder)):
        for batch in _batches(_samples(segment, position_of(segment).offset)):
            _hand_over(segment, batch, run)
    return run.new


def _samples(segment: Path, shipped: int) -> Iterator[Piece]:
    last: Frame | None = None
    due = 0
    for piece in pieces(_read(segment, 0)[:shipped]):
        if isinstance(piece, Frame):
            last = piece
            if piece.start >= due:
                yield piece
                last, due = None, piece.start + _SAMPLE
    if last is not None:
        yield last


def _ship_segment(segment: Path, position: Position, run: _Run, now: datetime) -> bool:
    # Whether a writer is left is asked first: what it wrote before it went is then surely in `data`.
    sealed = _has_no_writer(segment)
    data = _read(segment, position.offset)
    held = position.held
    reached = position.offset
    for batch in _batches(pieces(data, position.offset)):
        held |= _hand_over(segment, batch, run, sealed=sealed)
        whole = [piece for piece in batch if isinstance(piece, Frame | Blank | Gap)]
        if whole:
            reached = whole[-1].end
            set_position(segment, Position(offset=reached, held=held))
    if not sealed:
        return False
    set_position(segment, Position(offset=position.offset + len(data), committed_at=now, held=held))
    return True


def _hand_over(segment: Path, batch: Sequence[Piece], run: _Run, *, sealed: bool = False) -> bool:
    """Give a batch to the store; whether it held a record that this release cannot read or store."""
    read: list[tuple[Frame, Record]] = []
    unreadable = False
    for piece in batch:
        if isinstance(piece, Frame):
            try:
                read.append((piece, decode(piece.payload, Record)))  # type: ignore[arg-type]
            except StoreError as error:
                unreadable = True
                run.damaged.append(Damage(segment.name, piece.start, piece.end, str(error)))
        elif isinstance(piece, Gap):
            run.damaged.append(Damage(segment.name, piece.start, piece.end, piece.why))
        elif isinstance(piece, Tail) and sealed:
            why = "the writer died inside this frame; it was never acknowledged"
            run.damaged.append(Damage(segment.name, piece.start, piece.end, why))
    return _store(segment, read, run) or unreadable


def _store(segment: Path, read: Sequence[tuple[Frame, Record]], run: _Run) -> bool:
    """Append what was read; whether the store refused a record for what is in it. One such record must
    not hold up all that follow, so it is named as damage and kept where it is."""
    if not read:
        return False
    try:
        run.new += run.append([record for _, record in read])
    except InvalidInput as error:
        if len(read) == 1:
            run.damaged.append(Damage(segment.name, read[0][0].start, read[0][0].end, str(error)))
            return True
        refused = [_store(segment, (one,), run) for one in read]
        return any(refused)
    run.records += len(read)
    return False


def _batches(found: Iterator[Piece]) -> Iterator[list[Piece]]:
    while batch := list(islice(found, BATCH)):
        yield batch


def _read(segment: Path, offset: int) -> bytes:
    try:
        with segment.open("rb") as file:
            file.seek(offset)
            return file.read()
    except FileNotFoundError:
        return b""


def _has_no_writer(segment: Path) -> bool:
    try:
        fd = os.open(segment, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(fd)
    return True


@contextmanager
def _only_one(folder: Path) -> Iterator[bool]:
    fd = os.open(folder / SHIP_LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
    finally:
        os.close(fd)
