"""Signed heads of the audit chain in a second place.

Whoever owns the store can rewrite a whole chain so that every link fits again. A head written elsewhere under
a key that the store's owner does not have tells the true chain from the rewritten one.
"""

import fcntl
import hashlib
import hmac
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import msgspec

from prx.domain.answers import Failed, Passed
from prx.domain.codec import encode
from prx.domain.errors import StoreError
from prx.domain.events import AuditRow
from prx.domain.times import to_micros
from prx.ledger.audit import Head

BEGAN = "audit.heads_began"
"""Kind of the audit row that says of a file (its subject) that heads are written to it from now on."""
_TAG = b"prx.audit.head.v1"
_FIRST = ""


class SignedHead(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the file: the newest link at a time, and the signature over it and the line before."""

    seq: int
    hash: str
    at: datetime
    signature: str

    @property
    def head(self) -> Head:
        """The link."""
        return Head(self.seq, self.hash)


@dataclass(frozen=True, slots=True)
class Noted:
    """The lines of the file `place`; `torn` counts lines that a crash cut off, which say nothing."""

    place: str
    heads: tuple[SignedHead, ...] = ()
    torn: int = 0

    @property
    def newest(self) -> SignedHead | None:
        """The last line."""
        return self.heads[-1] if self.heads else None


def sign(head: Head, *, at: datetime, before: SignedHead | None, key: bytes) -> SignedHead:
    """The line that follows `before`."""
    signature = _signature(head, at, before.signature if before else _FIRST, key)
    return SignedHead(seq=head.seq, hash=head.hash, at=at, signature=signature)


def check_heads(noted: Noted, key: bytes) -> Passed | Failed:
    """Whether every line was signed with this key and follows the line before.

    Returns: Failed with code audit_heads_forged.
    """
    before, last = _FIRST, 0
    for number, line in enumerate(noted.heads, start=1):
        if not hmac.compare_digest(_signature(line.head, line.at, before, key), line.signature):
            why = f"head {number} (row {line.seq}) in {noted.place} is not signed with this key"
            because = "it was changed, lines before it were taken out, or the key is another one"
            return Failed(f"{why}: {because}", "audit_heads_forged")
        if line.seq < last:
            why = f"head {number} in {noted.place} is of row {line.seq}, after one of row {last}"
            return Failed(why, "audit_heads_forged")
        before, last = line.signature, line.seq
    return Passed(f"{len(noted.heads)} signed heads")


def missing_head(rows: Iterable[AuditRow], noted: Noted) -> Failed | None:
    """The first noted head that the chain does not hold, or None.

    `rows`: the chain in order. Codes: audit_rewritten, audit_truncated; audit_heads_missing when heads were
    written to this place before and there is none any more.
    """
    wanted = {line.seq: line.hash for line in noted.heads}
    last = 0
    for row in rows:
        last = row.seq
        if row.kind == BEGAN and row.subject == noted.place and not noted.heads:
            why = f"{noted.place} holds no signed head, and row {row.seq} says that it did: it was emptied"
            return Failed(why, "audit_heads_missing")
        if (true := wanted.get(row.seq)) is not None and row.hash != true:
            why = (
                f"audit row {row.seq} ({row.kind}, {row.subject}) is not the one signed outside ({true[:12]})"
            )
            return Failed(f"{why}: the chain was rewritten from there or before", "audit_rewritten")
    newest = max(wanted, default=0)
    if last < newest:
        why = f"the chain ends at row {last}, row {newest} was signed outside: the end was cut off"
        return Failed(why, "audit_truncated")
    return None


def read_heads(path: Path) -> Noted:
    """The lines of the file; none where there is no file. Raises: StoreError when it cannot be read."""
    try:
        return _parsed(path.read_bytes(), path)
    except FileNotFoundError:
        return Noted(str(path))
    except OSError as error:
        raise StoreError(
            f"the signed heads of the audit log in {path} cannot be read ({error.strerror}); check its "
            "rights and audit.head_file"
        ) from error


class HeadFile:
    """The file while nobody else writes to it; lines are only ever added."""

    def __init__(self, descriptor: int, path: Path) -> None:
        self._descriptor, self._path = descriptor, path
        self._whole = True

    def read(self) -> Noted:
        """All lines. Raises: OSError."""
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        pieces = []
        while piece := os.read(self._descriptor, 1 << 20):
            pieces.append(piece)
        data = b"".join(pieces)
        self._whole = not data or data.endswith(b"\n")
        return _parsed(data, self._path)

    def add(self, line: SignedHead) -> None:
        """Append and sync. Raises: OSError."""
        # a line that a crash cut off is closed first, so that it cannot swallow this one
        body = (b"" if self._whole else b"\n") + encode(line) + b"\n"
        while body:
            body = body[os.write(self._descriptor, body) :]
        os.fsync(self._descriptor)


@contextmanager
def appending(path: Path) -> Iterator[HeadFile]:
    """The file, made where missing, for one process at a time. Raises: OSError."""
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield HeadFile(descriptor, path)
    finally:
        os.close(descriptor)


def _parsed(data: bytes, path: Path) -> Noted:
    heads, torn = list[SignedHead](), 0
    for line in filter(None, data.split(b"\n")):
        try:
            heads.append(msgspec.json.decode(line, type=SignedHead))
        except msgspec.DecodeError:
            torn += 1
    return Noted(str(path), tuple(heads), torn)


def _signature(head: Head, at: datetime, before: str, key: bytes) -> str:
    """HMAC-SHA256 in hex over the tag and every field, each preceded by its length in 8 bytes."""
    fields = (str(head.seq), head.hash, str(to_micros(at)), before)
    pieces = [_TAG, *(field.encode() for field in fields)]
    text = b"".join(len(raw).to_bytes(8) + raw for raw in pieces)
    return hmac.new(key, text, hashlib.sha256).hexdigest()
