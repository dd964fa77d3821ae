"""One record on disk: magic, length, checksum, payload; a reader finds its way back after damage."""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

# 0xFF never occurs in UTF-8, so no payload can hold the magic.
MAGIC = b"\xffPRX"
_BLANKED = b"\xffPRE"
_HEADER = struct.Struct("<4sII")
HEADER_BYTES = _HEADER.size
MAX_PAYLOAD = 64 * 1024 * 1024
_LENGTH = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class Frame:
    """A whole frame; `start` and `end` are byte offsets in its segment."""

    start: int
    end: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class Gap:
    """Bytes in which no frame could be read; a frame follows at `end`, or the segment ends there."""

    start: int
    end: int
    why: str


@dataclass(frozen=True, slots=True)
class Tail:
    """Bytes after the last whole frame; a writer may still be completing them."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Blank:
    """A whole frame whose record was erased; it keeps its place, so that positions stay true."""

    start: int
    end: int


Piece = Frame | Blank | Gap | Tail


def frame(payload: bytes) -> bytes:
    """The payload with its header; the checksum covers length and payload."""
    length = _LENGTH.pack(len(payload))
    return b"".join((MAGIC, length, _LENGTH.pack(zlib.crc32(payload, zlib.crc32(length))), payload))


def blank_header(length: int) -> bytes:
    """What stands in front of an erased payload of `length` bytes."""
    return _HEADER.pack(_BLANKED, length, _checksum(length, b""))


def pieces(data: bytes, offset: int = 0) -> Iterator[Piece]:
    """What a segment holds, in order; damaged stretches come as Gap, an unfinished end as Tail.

    `data` starts at byte `offset` of the segment; all offsets given are those of the segment.
    """
    at = 0
    while at < len(data):
        payload = _payload_at(data, at)
        if payload is not None:
            end = at + HEADER_BYTES + len(payload)
            yield Frame(offset + at, offset + end, payload)
            at = end
            continue
        blank = _blank_at(data, at)
        if blank is not None:
            yield Blank(offset + at, offset + blank)
            at = blank
            continue
        resumed = _next_whole(data, at + 1)
        if resumed is None:
            yield Tail(offset + at, offset + len(data))
            return
        yield Gap(offset + at, offset + resumed, _what_is_wrong(data, at))
        at = resumed


def _checksum(length: int, payload: bytes | memoryview) -> int:
    return zlib.crc32(payload, zlib.crc32(_LENGTH.pack(length)))


def _payload_at(data: bytes, at: int) -> bytes | None:
    if len(data) - at < HEADER_BYTES:
        return None
    magic, length, checksum = _HEADER.unpack_from(data, at)
    begin = at + HEADER_BYTES
    if magic != MAGIC or length > MAX_PAYLOAD or begin + length > len(data):
        return None
    payload = data[begin : begin + length]
    return payload if _checksum(length, payload) == checksum else None


def _blank_at(data: bytes, at: int) -> int | None:
    """Where the erased frame that starts here ends, or None when none does."""
    if len(data) - at < HEADER_BYTES:
        return None
    magic, length, checksum = _HEADER.unpack_from(data, at)
    end = at + HEADER_BYTES + length
    whole = magic == _BLANKED and length <= MAX_PAYLOAD and end <= len(data)
    return end if whole and _checksum(length, b"") == checksum else None


def _next_whole(data: bytes, at: int) -> int | None:
    while (at := data.find(MAGIC[:3], at)) >= 0:
        if _payload_at(data, at) is not None or _blank_at(data, at) is not None:
            return at
        at += 1
    return None


def _what_is_wrong(data: bytes, at: int) -> str:
    if data[at : at + len(MAGIC)] != MAGIC:
        return "no frame starts here"
    return "checksum or length does not fit the payload"
