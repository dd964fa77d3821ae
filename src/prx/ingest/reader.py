"""Items of a file one at a time: lines of JSON, one JSON document, or CSV rows; gzip or not."""

import codecs
import csv
import gzip
import io
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from prx.domain.errors import InvalidInput

MAX_LINE = 64 * 1024 * 1024
MAX_DOCUMENT = 256 * 1024 * 1024
_GZIP = b"\x1f\x8b"
_WIDE = ((codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"),
         (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))  # fmt: skip
_CHUNK = 1024 * 1024
_DECODER = msgspec.json.Decoder()
Stream = io.BufferedReader | gzip.GzipFile


@dataclass(frozen=True, slots=True)
class Item:
    """One decoded value; `line` is its line in the file, or its place in the document, from 1."""

    line: int
    value: Any


@dataclass(frozen=True, slots=True)
class Problem:
    """What could not be read, where; `line` 0 is the file as a whole."""

    line: int
    why: str


def read_items(path: Path) -> Iterator[Item | Problem]:
    """Items and problems of the file in order; memory is bounded by one line, or by one JSON document.

    Damage is reported as problems: what was readable before it has been given out already.
    Raises: InvalidInput when the file cannot be opened.
    """
    with _opened(path) as file:
        stream = gzip.GzipFile(fileobj=file) if file.peek(2)[:2] == _GZIP else file
        if path.name.removesuffix(".gz").lower().endswith(".csv"):
            yield from _csv_items(stream)
        else:
            yield from _json_items(_lines(stream))


def _opened(path: Path) -> io.BufferedReader:
    try:
        return path.open("rb")
    except OSError as error:
        raise InvalidInput(
            f"{path} cannot be read ({error.strerror or error}); give a readable file"
        ) from error


def _lines(stream: Stream) -> Iterator[tuple[int, bytes] | Problem]:
    """Numbered lines without their break, in UTF-8 whatever Unicode form the file begins with."""
    line, number = bytearray(), 0
    dropped = 0
    for block in _blocks(stream):
        if isinstance(block, Problem):
            if line:
                yield number + 1, bytes(line)
            yield Problem(number + 1, block.why)
            return
        start = 0
        while (end := block.find(b"\n", start)) >= 0:
            number += 1
            line += block[start:end]
            start = end + 1
            if dropped or len(line) > MAX_LINE:
                yield _too_long(number)
            else:
                yield number, bytes(line)
            line.clear()
            dropped = 0
        line += block[start:]
        if len(line) > MAX_LINE:
            dropped += len(line)
            line.clear()
    if dropped:
        yield _too_long(number + 1)
    elif line:
        yield number + 1, bytes(line)


def _too_long(number: int) -> Problem:
    return Problem(number, f"the line is longer than {MAX_LINE // 2**20} MiB; split it")


def _blocks(stream: Stream) -> Iterator[bytes | Problem]:
    decoder: codecs.IncrementalDecoder | None = None
    first = True
    while True:
        try:
            block = stream.read1(_CHUNK)  # read() would lose what came before damage
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            yield Problem(0, f"the compressed data ends early or is damaged here ({error}); fetch it again")
            return
        except OSError as error:
            yield Problem(0, f"reading stopped here ({error.strerror or error}); read the file again")
            return
        if first:
            first = False
            encoding = next((name for mark, name in _WIDE if block.startswith(mark)), None)
            if encoding:
                decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
            block = block.removeprefix(codecs.BOM_UTF8)
        if decoder is not None:
            ended = not block
            block = decoder.decode(block, final=ended).encode("utf-8", "replace")
            if block:
                yield block
            if ended:
                return
        elif not block:
            return
        else:
            yield block


def _json_items(lines: Iterator[tuple[int, bytes] | Problem]) -> Iterator[Item | Problem]:
    for entry in lines:
        if isinstance(entry, Problem):
            yield entry
        elif entry[1].strip():
            yield from _from_first(entry, lines)
            break
    for entry in lines:
        yield from _from_line(entry)


def _from_first(
    first: tuple[int, bytes], lines: Iterator[tuple[int, bytes] | Problem]
) -> Iterator[Item | Problem]:
    """The first line decides: a value of its own means lines; an open bracket may be one document."""
    number, text = first
    found = _decoded(number, text)
    if isinstance(found, Item):
        yield from _spread(found)
        return
    if text.lstrip()[:1] not in (b"{", b"["):
        yield found
        return
    held = bytearray(text)  # one piece: a list of short lines would take many times their size
    ended: Problem | None = None
    for entry in lines:
        if isinstance(entry, Problem):
            ended = entry
            break
        alone = len(held) == len(text)
        held += b"\n" + entry[1]
        if len(held) > MAX_DOCUMENT or (alone and _broken_first(text, entry)):
            break
    else:
        whole = _decoded(number, bytes(held))
        if isinstance(whole, Item):
            yield from _spread(whole)
            return
    if len(held) > MAX_DOCUMENT:
        limit = MAX_DOCUMENT // 2**20
        yield Problem(number, f"one JSON document of more than {limit} MiB is not read; write it as lines")
    for place, line in enumerate(io.BytesIO(held), number):
        yield from _from_line((place, line.removesuffix(b"\n")))
    if ended is not None:
        yield ended


def _broken_first(first: bytes, second: tuple[int, bytes]) -> bool:
    """True when the second line is an object of its own: the file is lines, and its first one is broken."""
    return (
        first.lstrip()[:1] == b"{" and second[1].strip()[:1] == b"{" and isinstance(_decoded(*second), Item)
    )


def _spread(item: Item) -> Iterator[Item]:
    if isinstance(item.value, list):
        yield from (Item(place, value) for place, value in enumerate(item.value, 1))
    else:
        yield item


def _from_line(entry: tuple[int, bytes] | Problem) -> Iterator[Item | Problem]:
    if isinstance(entry, Problem):
        yield entry
    elif entry[1].strip():
        yield _decoded(*entry)


def _decoded(number: int, text: bytes) -> Item | Problem:
    try:
        return Item(number, _DECODER.decode(text))
    except RecursionError:
        return Problem(number, "the JSON is nested too deep")
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return _decoded_leniently(number, text, error)


def _decoded_leniently(number: int, text: bytes, first: Exception) -> Item | Problem:
    """JSON with what Python writes beyond the standard: NaN, Infinity, halves of surrogate pairs."""
    try:
        decoded = text.decode()
    except UnicodeDecodeError as error:
        return Problem(number, f"the line is not UTF-8 (byte {error.start + 1}); convert the file to UTF-8")
    try:
        return Item(number, json.loads(decoded, parse_constant=lambda _: None))
    except RecursionError:
        return Problem(number, "the JSON is nested too deep")
    except ValueError:
        return Problem(number, f"the line is no JSON ({first})")


def _csv_items(stream: Stream) -> Iterator[Item | Problem]:
    lines = _lines(stream)
    problems: list[Problem] = []

    def texts() -> Iterator[str]:
        for entry in lines:
            if isinstance(entry, Problem):
                problems.append(entry)
                continue
            yield entry[1].decode("utf-8", "replace") + "\n"

    rows = csv.DictReader(texts())
    while True:
        try:
            row = next(rows, None)
        except csv.Error as error:
            yield Problem(rows.line_num, f"the row is no CSV ({error})")
            continue
        yield from problems
        problems.clear()
        if row is None:
            return
        yield Item(
            rows.line_num, {key: value for key, value in row.items() if key and value not in (None, "")}
        )
