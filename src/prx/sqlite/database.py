"""One SQLite file used by many threads and processes: who may read, who may write, how it fails."""

import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from prx.domain.errors import StoreError
from prx.domain.replaced import StoreReplaced
from prx.sqlite.failures import in_words
from prx.sqlite.release import refuse_wal_reset_bug
from prx.sqlite.schema import Schema, refuse_newer, upgrade
from prx.sqlite.work import Work

BUSY_SECONDS = 10.0
_PAGE_BYTES = 4096
_WAL_PAGES = 4000
_CACHE_KIB = 8192
_IDLE_CONNECTIONS = 8


class Database:
    """A pool of connections to one file; each block of `reading` or `writing` has one to itself.

    Args: `full_sync`: sync at every commit, so that power loss takes nothing that was acknowledged;
        otherwise power loss may take the last commits and never the file. `busy_seconds`: longest wait
        for another writer. `sqlite_version`: what the library says of itself.
    Raises: StoreError for what cannot be opened, StoreTooNew for a newer file.
    """

    def __init__(
        self,
        path: Path | str,
        schema: Schema,
        *,
        full_sync: bool,
        busy_seconds: float = BUSY_SECONDS,
        sqlite_version: str | None = None,
    ) -> None:
        refuse_wal_reset_bug(sqlite_version or apsw.sqlite_lib_version())
        self.path = Path(path).absolute()
        self._schema, self._full_sync, self._busy_seconds = schema, full_sync, busy_seconds
        self._process = os.getpid()
        self._guard = threading.Lock()
        self._idle: list[apsw.Connection] = []
        self._closed = self._suspect = False
        with in_words(self.path, waited=busy_seconds):
            _prepare(self.path)
            self._file: tuple[int, int] | None = None
            first = self._connect()
            try:
                upgrade(first, schema, self.path)
                self._file = _identity(self.path)
                self._poll = self._connect()
            except BaseException:
                first.close()
                raise
            self._idle.append(first)
        _LIVE.add(self)

    @contextmanager
    def reading(self) -> Iterator[Work]:
        """Reads that all show one moment. Raises: StoreError."""
        with self._working("BEGIN") as work:
            yield work

    @contextmanager
    def writing(self) -> Iterator[Work]:
        """The only writer of all processes; commits at the end, rolls back when the block raises.

        Raises: StoreError; nothing of the block is then written.
        """
        with self._working("BEGIN IMMEDIATE") as work:
            yield work

    def data_version(self) -> int:
        """Differs from the answer before exactly when something was committed in between."""
        self._refuse_unusable()
        with self._guard, in_words(self.path, waited=self._busy_seconds):
            return int(self._poll.pragma("data_version"))

    def scrub(self) -> str:
        """Write the file anew, so that nothing of what was deleted is left in it or in its log.

        Returns why the log could not be emptied, or nothing when it was. Raises: StoreError.
        """
        self._refuse_unusable()
        with in_words(self.path, waited=self._busy_seconds):
            connection = self._take()
            try:
                connection.execute("VACUUM")
                ((busy, _, _),) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            finally:
                self._give_back(connection)
        if busy:
            return (
                f"{self.path.name}-wal still holds older pages, because another process reads them; stop the "
                "other `prx` processes and run this again"
            )
        return ""

    def close(self) -> None:
        """Close every connection; in a forked child nothing is closed, the files belong to the parent."""
        if os.getpid() != self._process:
            return
        with self._guard:
            if self._closed:
                return
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in (*idle, self._poll):
            connection.close()

    def connections(self) -> tuple[apsw.Connection, ...]:
        """The connections that nobody uses now, and the one that polls."""
        return (*self._idle, self._poll)

    @contextmanager
    def _working(self, how: str) -> Iterator[Work]:
        self._refuse_unusable()
        with in_words(self.path, waited=self._busy_seconds):
            connection = self._take()
        work = Work(connection, self.path, waited=self._busy_seconds)
        try:
            refuse_newer(work.begin(how), self._schema, self.path)
            yield work
            work.commit()
        finally:
            if isinstance(work.failure, apsw.IOError):
                self._suspect = True
            self._give_back(connection)

    def _take(self) -> apsw.Connection:
        with self._guard:
            if self._suspect:
                self._discard_and_check()
            if self._idle:
                return self._idle.pop()
        return self._connect()

    def _discard_and_check(self) -> None:
        """After a failed read or write nothing cached is trusted: reopen, and check before going on."""
        for connection in self._idle:
            connection.close()
        self._idle.clear()
        fresh = self._connect()
        found = fresh.execute("PRAGMA quick_check(1)").fetchall()
        if found != [("ok",)]:
            fresh.close()
            raise apsw.CorruptError(str(found[0][0]))
        self._suspect = False
        self._idle.append(fresh)

    def _give_back(self, connection: apsw.Connection) -> None:
        # SQLite has often rolled back by itself (disk full), and a second ROLLBACK would raise
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except apsw.Error:
            connection.close(True)
            return
        with self._guard:
            if not (self._closed or self._suspect) and len(self._idle) < _IDLE_CONNECTIONS:
                self._idle.append(connection)
                return
        connection.close()

    def _connect(self) -> apsw.Connection:
        connection = apsw.Connection(str(self.path))
        try:
            connection.set_busy_timeout(int(self._busy_seconds * 1000))
            mode = connection.pragma("journal_mode", "wal")
            if mode != "wal":
                raise StoreError(
                    f"{self.path} cannot use a write-ahead log (mode {mode!r}), as on network folders; "
                    "put PRX_HOME on a local disk"
                )
            connection.pragma("synchronous", 2 if self._full_sync else 1)
            connection.pragma("foreign_keys", True)
            connection.pragma("trusted_schema", False)
            connection.pragma("cell_size_check", True)
            connection.pragma("journal_size_limit", _WAL_PAGES * _PAGE_BYTES)
            connection.pragma("wal_autocheckpoint", _WAL_PAGES)
            connection.pragma("cache_size", -_CACHE_KIB)
        except BaseException:
            connection.close()
            raise
        return connection

    def _refuse_unusable(self) -> None:
        if os.getpid() != self._process:
            raise StoreError(
                f"{self.path} was opened by process {self._process} and this is its fork {os.getpid()}; "
                "open it again after the fork"
            )
        if self._closed:
            raise StoreError(f"{self.path} is closed; open it again")
        with in_words(self.path):
            if _identity(self.path) != self._file:
                raise StoreReplaced(
                    f"{self.path} was replaced by another file while it was open; `prx serve`, `prx worker` "
                    "and the SDK open the new one; restart what else has it open"
                )


def _prepare(path: Path) -> None:
    """Make the folder, and the file readable by its owner only; refuse what would silently start empty."""
    if path.is_dir():
        raise StoreError(f"{path} cannot be opened: it is a folder; name a file in it")
    path.parent.mkdir(parents=True, exist_ok=True)
    log = path.with_name(f"{path.name}-wal")
    if path.exists():
        if path.stat().st_size == 0 and log.exists() and log.stat().st_size > 0:
            raise StoreError(
                f"{path} is empty but its log {log.name} is not: the file was cut; nothing was changed; "
                "restore it with `prx restore`"
            )
        return
    if log.exists() and log.stat().st_size > 0:
        raise StoreError(
            f"{path} is missing but its log {log.name} is there: the file was moved or deleted; nothing "
            "was changed; put it back or restore it with `prx restore`"
        )
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        return  # another process made it just now


def _identity(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino


_LIVE: "weakref.WeakSet[Database]" = weakref.WeakSet()
_INHERITED: list[apsw.Connection] = []


def _keep_inherited() -> None:
    """Closing a parent's connection in its child could drop the parent's log, so the child never does."""
    for database in tuple(_LIVE):
        _INHERITED.extend(database.connections())


os.register_at_fork(after_in_child=_keep_inherited)
