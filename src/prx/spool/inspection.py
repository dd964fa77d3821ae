"""What a spool holds and what is wrong with it, read without changing anything."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from prx.spool.folder import position_of, segments, usage
from prx.spool.frames import Frame, Gap, Piece, pieces
from prx.spool.gaps import Gaps, gaps_of


@dataclass(frozen=True, slots=True)
class Inspected:
    """`records` in all segments, `waiting_bytes` not in the store yet since `oldest_waiting`; `damaged` names
    stretches that give no record, `held` segments with records that this release or the store refused."""

    segments: int = 0
    records: int = 0
    total_bytes: int = 0
    waiting_bytes: int = 0
    oldest_waiting: datetime | None = None
    damaged: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    gaps: Gaps = field(default_factory=Gaps)


def inspect(folder: Path) -> Inspected:
    """Read every segment. Raises: OSError when one cannot be read."""
    if not folder.is_dir():
        return Inspected()
    held = usage(folder)
    found = segments(folder)
    counted = [_read(segment) for segment in found]
    return Inspected(
        segments=held.segments,
        records=sum(records for records, _ in counted),
        total_bytes=held.total,
        waiting_bytes=held.waiting,
        oldest_waiting=held.oldest_waiting,
        damaged=tuple(line for _, lines in counted for line in lines),
        held=tuple(segment.name for segment in found if position_of(segment).held),
        gaps=gaps_of(folder),
    )


def _read(segment: Path) -> tuple[int, list[str]]:
    try:
        found = list(pieces(segment.read_bytes()))
    except FileNotFoundError:
        return 0, []
    # The unfinished end of a segment is a writer at work, or one that died before it acknowledged.
    return sum(isinstance(piece, Frame) for piece in found), list(_damage(segment, found))


def _damage(segment: Path, found: Sequence[Piece]) -> Iterator[str]:
    for piece in found:
        if isinstance(piece, Gap):
            yield f"{segment.name}, bytes {piece.start} to {piece.end}: {piece.why}"
