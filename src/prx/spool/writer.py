"""Appends records to this process's own segment; a record is kept once `append` has returned."""

import errno
import logging
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import fields
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from prx.domain.errors import StoreError
from prx.domain.forking import renew_in_children
from prx.domain.records import Record
from prx.spool.content import envelope, payload
from prx.spool.folder import make_folder, make_reserve, prepare, reclaim, release_reserve, usage
from prx.spool.frames import MAX_PAYLOAD, Frame, frame, pieces
from prx.spool.gaps import count_gap, make_gaps
from prx.spool.rules import Fsync, OnFull, SpoolCounts, SpoolFull, SpoolRules
from prx.spool.segment import Segment, open_segment

_LOG = logging.getLogger("prx.spool")
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_RESCAN = timedelta(seconds=1)
_ENVELOPE = 65_536  # room for the records of one more call without its bodies


class _Framed(NamedTuple):
    """A record as it goes to the disk; `pressed`: without its bodies."""

    record: Record
    data: bytes
    pressed: bool


class SpoolWriter:
    """One writer per process; threads share it, a forked child opens its own segment.

    Args: `now`: the clock, for names and ages. `write`, `fsync`: how bytes reach a file
    and the disk.
    Raises: StoreError when the folder cannot be written.
    """

    _segment: Segment | None
    _over: bool
    _scarce: bool
    _looked_at: datetime | None
    _scanned_at: datetime | None
    _syncer: threading.Thread | None
    _dirty: bool

    def __init__(
        self,
        folder: Path,
        *,
        now: Callable[[], datetime],
        rules: SpoolRules | None = None,
        write: Callable[[int, bytes], int] = os.write,
        fsync: Callable[[int], None] = os.fsync,
    ) -> None:
        self._folder, self._now, self._write, self._fsync = prepare(folder), now, write, fsync
        self._rules = rules or SpoolRules()
        self._shed_at = int(self._rules.max_bytes * self._rules.shed_share)
        self._renew()
        renew_in_children(self._after_fork)
        try:
            self._scarce = not make_reserve(folder, self._rules.reserve_bytes)
            make_gaps(folder)
            self._segment = self._open()
        except OSError as error:
            raise StoreError(
                f"the spool folder {folder} cannot be written ({error.strerror}); "
                "free space there, change its rights or choose another PRX_HOME"
            ) from error

    @property
    def counts(self) -> SpoolCounts:
        """Counts since this process opened the spool."""
        return SpoolCounts(**self._tally)

    @property
    def over(self) -> bool:
        """Whether the last record found no room: what is served meanwhile cannot be recorded."""
        return self._over

    @property
    def refuses(self) -> bool:
        """Whether the operator wants no call served that cannot be recorded, and there is no room for one."""
        if self._rules.on_full is not OnFull.REFUSE:
            return False
        with self._lock:
            room = self._rules.max_bytes - _ENVELOPE
            return self._over or (self._held > room and not self._make_room(room))

    def append(self, records: Sequence[Record]) -> None:
        """Write the records; on return they survive the death of this process.

        Raises: SpoolFull under `on_full = refuse`. Other failures of the disk count as a gap under `serve`.
        """
        with self._lock:
            if self._rules.fsync is Fsync.NEVER:
                self._stay_in_place()
            framed: list[_Framed] = []
            waiting = 0
            try:
                for record in records:
                    one = self._framed(record, waiting)
                    if one is not None:
                        framed.append(one)
                        waiting += len(one.data)
            finally:
                # Those before one that was refused are kept all the same.
                if framed:
                    self._append(framed)
            self._rotate_if_due()
        self._wake_syncer()

    def sync(self) -> None:
        """Return once everything written by this process is on the disk (nothing to do for `never`)."""
        if self._rules.fsync is Fsync.NEVER:
            return
        with self._syncing:
            with self._lock:
                if not self._dirty or self._segment is None:
                    return
                self._dirty = False
                fd = os.dup(self._segment.fd)
            # Outside the lock: appends go on while the disk works.
            try:
                self._fsync(fd)
            finally:
                os.close(fd)

    def close(self) -> None:
        """Sync and give the segment up to the shipper; a later append opens a new one."""
        # A sync under way holds the segment open, and what it covers is not on the disk before it ends.
        with self._syncing, self._lock:
            self._closing.set()
            self._written.set()
            self._stay_in_place()
            self._seal()

    def _append(self, framed: Sequence["_Framed"]) -> None:
        """All in one write; what that cannot do is tried one by one."""
        try:
            self._put(framed[0].data if len(framed) == 1 else b"".join([one.data for one in framed]))
        except OSError as error:
            if len(framed) > 1:
                for one in framed:
                    # Once the disk is full, texts must not take the reserve.
                    self._append((one if one.pressed or not self._scarce else self._without_bodies(one),))
                return
            self._append_in_need(framed[0], error)
            return
        for one in framed:
            self._kept(one)

    def _append_in_need(self, one: "_Framed", error: OSError) -> None:
        if error.errno not in _NO_ROOM:
            self._refuse(f"writing failed ({error.strerror})")
            return
        one = self._without_bodies(one)
        if self._put_from_reserve(one.data):
            self._kept(one)
        else:
            self._refuse("the disk is full")

    def _without_bodies(self, one: "_Framed") -> "_Framed":
        body = payload(envelope(one.record), self._rules.content) or b""
        return _Framed(one.record, frame(body), True)

    def _kept(self, one: "_Framed") -> None:
        tally = self._tally
        tally["written"] += 1
        tally["bytes"] += len(one.data)
        tally["shed"] += one.pressed

    def _framed(self, record: Record, before: int) -> "_Framed | None":
        """The record as it goes to the disk, `before` bytes after what is there; None when it does not."""
        pressed = (self._scarce or self._held > self._shed_at) and self._has_pressure()
        body = payload(envelope(record) if pressed else record, self._rules.content)
        if body is None:
            self._tally["refused"] += 1
            _LOG.warning("a prompt default holds a credential; it is served as it is but not managed")
            return None
        if len(body) > MAX_PAYLOAD:
            body, pressed = payload(envelope(record), self._rules.content) or b"", True
        if len(body) > MAX_PAYLOAD:
            self._refuse("it is larger than 64 MiB even without its bodies")
            return None
        data = frame(body)
        room = self._rules.max_bytes - len(data) - before
        if self._held > room and not self._make_room(room):
            self._refuse("its byte cap is reached")
            return None
        return _Framed(record, data, pressed)

    def _put(self, data: bytes) -> None:
        segment = self._segment = self._segment or self._open()
        segment.put(data, self._write)
        self._held += len(data)
        self._dirty = True
        self._over = False

    def _stay_in_place(self) -> None:
        """Write what a removed or moved file holds to a new one: its records would be gone with us."""
        segment = self._segment
        if segment is None or segment.size == 0 or segment.in_place:
            return
        _LOG.error(
            "spool %s: the folder or its segment was removed; what this process was writing is written "
            "again, what waited in other segments is gone",
            self._folder,
        )
        held: list[bytes] = []
        try:
            held = [piece.payload for piece in pieces(segment.content()) if isinstance(piece, Frame)]
            self._let_go()
            self._scanned_at, self._held = None, 0
            self._put(b"".join(map(frame, held)))
        except OSError as error:
            self._lose(len(held), f"writing again failed ({error.strerror})")
        else:
            self._tally["rescued"] += len(held)

    def _put_from_reserve(self, data: bytes) -> bool:
        self._scarce, self._looked_at = True, self._now()
        freed = release_reserve(self._folder) or reclaim(self._folder, len(data)) > 0
        if not freed:
            return False
        try:
            self._put(data)
        except OSError:
            return False
        return True

    def _refuse(self, why: str) -> None:
        self._over = True
        if self._rules.on_full is OnFull.REFUSE:
            raise SpoolFull(
                f"the spool {self._folder} takes no more records: {why}; "
                "free space, raise record.spool_max_bytes or start the worker that ships it"
            )
        self._lose(1, why)

    def _lose(self, records: int, why: str) -> None:
        self._over = True
        if self._tally["gaps"] == 0:
            _LOG.error("spool %s: a record was not kept, %s; serving goes on", self._folder, why)
        self._tally["gaps"] += records
        count_gap(self._folder, self._now(), records)

    def _has_pressure(self) -> bool:
        if self._scarce and not self._has_disk():
            return True
        return self._held > self._shed_at and not self._make_room(self._shed_at)

    def _has_disk(self) -> bool:
        """Whether the disk has room for bodies again; the reserve is for envelopes alone until then."""
        now = self._now()
        if self._looked_at is not None and now - self._looked_at < _RESCAN:
            return False
        self._looked_at = now
        disk = os.statvfs(self._folder)
        free = disk.f_bavail * disk.f_frsize
        if free > 2 * self._rules.reserve_bytes and free > _ENVELOPE:
            self._scarce = not make_reserve(self._folder, self._rules.reserve_bytes)
        return not self._scarce

    def _make_room(self, limit: int) -> bool:
        """Whether the folder holds at most `limit` once committed segments are given up, if need be."""
        now = self._now()
        if self._scanned_at is None or now - self._scanned_at >= _RESCAN:
            self._scanned_at = now
            self._held = usage(self._folder).total
            self._held -= reclaim(self._folder, max(0, self._held - limit))
        return self._held <= limit

    def _rotate_if_due(self) -> None:
        segment, rules = self._segment, self._rules
        if segment is None or segment.size == 0:
            return
        if segment.size >= rules.segment_bytes or self._now() - segment.opened_at >= rules.segment_age:
            self._stay_in_place()
            self._seal()

    def _open(self) -> Segment:
        sync = self._rules.fsync is Fsync.BATCH
        try:
            return open_segment(self._folder, self._now(), sync=sync)
        except FileNotFoundError:
            # Somebody removed the folder; what they wanted gone is gone, what comes now is kept.
            make_folder(self._folder)
            make_reserve(self._folder, self._rules.reserve_bytes)
            make_gaps(self._folder)
            return open_segment(self._folder, self._now(), sync=sync)

    def _seal(self) -> None:
        if self._segment is None:
            return
        try:
            if self._rules.fsync is Fsync.BATCH and self._dirty:
                self._fsync(self._segment.fd)
        finally:
            self._let_go()

    def _let_go(self) -> None:
        if self._segment is not None:
            os.close(self._segment.fd)
            self._segment, self._dirty = None, False

    def _renew(self) -> None:
        self._lock = threading.Lock()
        self._syncing = threading.Lock()  # taken before the other one
        self._segment = None
        self._dirty = self._over = False
        self._tally = dict.fromkeys((f.name for f in fields(SpoolCounts)), 0)
        self._scanned_at = self._looked_at = None
        self._scarce = False
        self._held = usage(self._folder).total
        self._closing = threading.Event()
        self._written = threading.Event()
        self._syncer = None

    def _after_fork(self) -> None:
        # The lock may be held by a thread that does not exist here; the open segment is the parent's.
        if self._segment is not None:
            os.close(self._segment.fd)
        self._renew()

    def _wake_syncer(self) -> None:
        if self._rules.fsync is Fsync.NEVER:
            return
        if self._written.is_set() and self._syncer is not None and not self._closing.is_set():
            return  # it is awake, or about to be
        self._written.set()
        if self._syncer is None or not self._syncer.is_alive():
            self._closing.clear()
            self._syncer = threading.Thread(target=self._sync_regularly, name="prx-spool-sync", daemon=True)
            self._syncer.start()

    def _sync_regularly(self) -> None:
        while self._written.wait() and not self._closing.wait(self._rules.sync_seconds):
            self._written.clear()
            try:
                with self._lock:
                    # Here and not at every record: what stands in the removed file is still readable.
                    self._stay_in_place()
                self.sync()
            except OSError as error:
                self._tally["unsynced"] += 1
                _LOG.error(
                    "spool %s: fsync failed (%s); records are in the page cache only", self._folder, error
                )
