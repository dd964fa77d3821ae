"""Takes single records out of segments for good, while writers and shippers go on."""

import os
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from prx.domain.codec import decode
from prx.domain.errors import StoreError
from prx.domain.records import Record
from prx.spool.folder import prepare, segments
from prx.spool.frames import HEADER_BYTES, Blank, Frame, blank_header, pieces

_BATCH = 500
Refused = Callable[[Sequence[Record]], frozenset[str]]


def erase(folder: Path, refused: Refused) -> int:
    """Overwrite every record that `refused` names by its id; returns how many there were.

    A frame keeps its place and length, so positions and open writers are not disturbed. First the header says
    that the frame is erased, then its payload is overwritten: a crash in between is finished by the next run.
    Raises: what `refused` raises; OSError.
    """
    return sum(_erase_in(segment, refused) for segment in segments(prepare(folder)))


def _erase_in(segment: Path, refused: Refused) -> int:
    try:
        # not O_APPEND: what is there is overwritten, the writer goes on at the end
        fd = os.open(segment, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return 0
    try:
        found = 0
        with open(fd, "rb", closefd=False) as file:
            data = file.read()
        stream = (piece for piece in pieces(data) if isinstance(piece, Frame | Blank))
        while batch := list(islice(stream, _BATCH)):
            frames = list(_records(batch))
            named = refused([record for _, record in frames]) if frames else frozenset()
            doomed = [frame for frame, record in frames if record.record_id in named]
            for piece in (*doomed, *(one for one in batch if _half_done(one, data))):
                _blank(fd, piece.start, piece.end)
            found += len(doomed)
        os.fsync(fd)
        return found
    finally:
        os.close(fd)


def _records(batch: Sequence[Frame | Blank]) -> Iterator[tuple[Frame, Record]]:
    for piece in batch:
        if isinstance(piece, Frame):
            try:
                yield piece, decode(piece.payload, Record)  # type: ignore[arg-type]
            except StoreError:
                continue  # of a newer release: whose it is cannot be told here


def _half_done(piece: Frame | Blank, data: bytes) -> bool:
    return isinstance(piece, Blank) and any(data[piece.start + HEADER_BYTES : piece.end])


def _blank(fd: int, start: int, end: int) -> None:
    length = end - start - HEADER_BYTES
    os.pwrite(fd, blank_header(length), start)
    os.pwrite(fd, bytes(length), start + HEADER_BYTES)
