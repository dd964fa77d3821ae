"""Requests under way, kept where the death of the process leaves them: each gets its one record after all.

The file is mapped into memory, so that a slot costs a copy of its bytes and outlives `kill -9`. The next
start reads the journals whose process is gone, and records what was under way there as crashed.
"""

import errno
import fcntl
import mmap
import os
import secrets
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path

import msgspec

from prx.domain.codec import encode
from prx.domain.records import Interaction, Record, SessionEnd, Terminal
from prx.spool.content import Content, payload
from prx.spool.folder import segments
from prx.spool.frames import Frame, pieces
from prx.spool.redact import CREDENTIALS, redact

SUFFIX = ".open"
_SLOT = 1024
_SLOTS = 4096
_FEWEST = 16
_HEAD = 3
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_WHY = "the gateway died while this request was under way"


class Open(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request under way."""

    record_id: str
    at: datetime
    session_id: str
    model: str = ""
    streamed: bool = False
    version: str | None = None
    ref: str | None = None


@lru_cache(maxsize=4096)
def storable(text: str) -> str:
    """A key as the spool will hold it: itself, or its digest where it holds a credential."""
    if redact(text, CREDENTIALS) == text:
        return text
    probe = SessionEnd(record_id="", at=_EPOCH, session_id=text)
    kept: str = msgspec.json.decode(payload(probe, Content.FULL) or b"{}")["session_id"]
    return kept


class Journal:
    """The requests under way of this process; fewer at once where the disk has no room for all the slots.

    Raises: OSError when the file cannot be made.
    """

    def __init__(self, folder: Path, *, slots: int = _SLOTS) -> None:
        self._folder = folder
        self._fd, self._path, slots = _made(folder, slots)
        self._name, self._is = str(self._path), _file_of(self._fd)
        self._map = mmap.mmap(self._fd, slots * _SLOT)
        self._free = list(range(slots - 1, -1, -1))
        self.unkept = 0

    def enter(self, opened: Open) -> int | None:
        """Note a request before it is accepted; the slot to give back. None, counted, without a free one."""
        if not self._free:
            self.unkept += 1
            return None
        session_id, model, ref = storable(opened.session_id), storable(opened.model), opened.ref
        ref = ref and storable(ref)
        if (session_id, model, ref) != (opened.session_id, opened.model, opened.ref):
            opened = msgspec.structs.replace(opened, session_id=session_id, model=model, ref=ref)
        body = encode(opened)
        if len(body) > _SLOT - _HEAD:
            body = encode(msgspec.structs.replace(opened, model=opened.model[:100], ref=None))
        if len(body) > _SLOT - _HEAD:
            self.unkept += 1
            return None
        slot = self._free.pop()
        at = slot * _SLOT
        self._map[at + 1 : at + _HEAD + len(body)] = len(body).to_bytes(2, "big") + body
        # The mark comes last: a slot that is marked is whole.
        self._map[at] = 1
        return slot

    def leave(self, slot: int | None) -> None:
        """The request has its terminal record."""
        if slot is not None:
            self._map[slot * _SLOT] = 0
            self._free.append(slot)

    def look(self) -> None:
        """Go on in a new file when ours was removed or moved: nobody would find it after our death. Called
        several times a second."""
        try:
            there = os.stat(self._name)
            if (there.st_ino, there.st_dev) == self._is:
                return
        except FileNotFoundError:
            pass
        try:
            size = len(self._map)
            fd, path, slots = _made(self._folder, size // _SLOT)
            if slots * _SLOT < size:
                path.unlink(missing_ok=True)
                os.close(fd)
                return
        except OSError:
            return
        fresh = mmap.mmap(fd, size)
        fresh[:] = self._map[:]
        self._map.close()
        os.close(self._fd)
        self._map, self._fd, self._path = fresh, fd, path
        self._name, self._is = str(path), _file_of(fd)

    def close(self) -> None:
        """Remove the journal; every request must have left."""
        self._map.close()
        self._path.unlink(missing_ok=True)
        os.close(self._fd)


def _made(folder: Path, slots: int) -> tuple[int, Path, int]:
    """A locked file with all its bytes on the disk, and how many slots it has: writing to a page that the
    disk has no room for would kill the process."""
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder.mkdir(exist_ok=True, mode=0o700)
    name = f"{os.getpid()}-{secrets.token_hex(4)}"
    staged, path = folder / f"{name}.new", folder / f"{name}{SUFFIX}"
    fd = os.open(staged, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        while True:
            try:
                os.posix_fallocate(fd, 0, slots * _SLOT)
                break
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) or slots <= _FEWEST:
                    raise
                os.ftruncate(fd, 0)
                slots //= 4
        fcntl.flock(fd, fcntl.LOCK_EX)
        os.rename(staged, path)
    except BaseException:
        staged.unlink(missing_ok=True)
        os.close(fd)
        raise
    return fd, path, slots


def recover(folder: Path, spool: Path, append: Callable[[Sequence[Record]], None]) -> int:
    """Record as crashed what dead processes left under way; returns how many there were.

    What already has its record in the spool is left alone. A journal goes only after its records are kept.
    """
    recovered = 0
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        fd = _locked(path)
        if fd is None:
            continue
        try:
            left = _under_way(path.read_bytes())
            if left:
                done = _recorded(spool, left)
                crashed = [_crashed(one) for one in left if one.record_id not in done]
                append(crashed)
                recovered += len(crashed)
            path.unlink(missing_ok=True)
        finally:
            os.close(fd)
    return recovered


def _file_of(fd: int) -> tuple[int, int]:
    """Inode and device; no other file can have them as long as this one is open."""
    here = os.fstat(fd)
    return here.st_ino, here.st_dev


def _locked(path: Path) -> int | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    return fd


def _under_way(data: bytes) -> list[Open]:
    found = []
    for at in range(0, len(data) - _SLOT + 1, _SLOT):
        if data[at] == 1:
            length = int.from_bytes(data[at + 1 : at + _HEAD], "big")
            try:
                found.append(msgspec.json.decode(data[at + _HEAD : at + _HEAD + length], type=Open))
            except msgspec.DecodeError:
                continue
    return found


def _recorded(spool: Path, left: Iterable[Open]) -> set[str]:
    wanted = {one.record_id: f'"record_id":"{one.record_id}"'.encode() for one in left}
    since = (min(one.at for one in left) - timedelta(minutes=1)).timestamp()
    done: set[str] = set()
    for segment in segments(spool):
        if segment.stat().st_mtime < since:
            continue
        for piece in pieces(segment.read_bytes()):
            if isinstance(piece, Frame):
                done |= {name for name, mark in wanted.items() if mark in piece.payload}
    return done


def _crashed(opened: Open) -> Interaction:
    return Interaction(
        record_id=opened.record_id,
        at=opened.at,
        session_id=opened.session_id,
        model=opened.model,
        streamed=opened.streamed,
        version=opened.version,
        ref=opened.ref,
        terminal=Terminal.CRASHED,
        external_failure=True,
        error=_WHY,
        source="gateway",
    )
