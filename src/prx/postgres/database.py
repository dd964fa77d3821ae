"""One PostgreSQL database used by many threads and processes: who may read, who may write, how it fails."""

import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psycopg
from psycopg.pq import TransactionStatus

from prx.domain.errors import StoreError
from prx.domain.replaced import StoreReplaced
from prx.postgres.address import Address
from prx.postgres.failures import StoreGone, explained, in_words, is_lost
from prx.postgres.schema import LOCK_SPACE, Schema, refuse_newer, upgrade
from prx.postgres.texts import adapt
from prx.postgres.work import Link, Work

BUSY_SECONDS = 10.0
STANDSTILL_SECONDS = 60.0
_OLDEST_SERVER = 130000
_IDLE_CONNECTIONS = 8


class Database:
    """A pool of connections to one store; each block of `reading` or `writing` has one to itself.

    Args: `full_sync`: a commit waits for the disk even where the server's default is not to.
        `busy_seconds`: longest wait for another writer. `standstill_seconds`: after so long without a
        statement the server ends a write of ours, so that a suspended process keeps nobody out.
    Raises: StoreError for what cannot be opened, StoreTooNew for a newer store.
    """

    def __init__(
        self,
        address: Address,
        schema: Schema,
        *,
        full_sync: bool,
        busy_seconds: float = BUSY_SECONDS,
        standstill_seconds: float = STANDSTILL_SECONDS,
    ) -> None:
        self._address, self._schema, self._full_sync = address, schema, full_sync
        self._busy_seconds, self._standstill_seconds = busy_seconds, standstill_seconds
        self._process = os.getpid()
        self._guard = threading.Lock()
        self._idle: list[Link] = []
        self._closed = False
        self._store_id: str | None = None
        self._commits = 0
        with in_words(self.shown, waited=busy_seconds):
            first = self._connect()
            try:
                upgrade(first, schema, self.shown)
                self._idle.append(first)
                self.data_version()
            except BaseException:
                first.close()
                raise
        _LIVE.add(self)

    @property
    def shown(self) -> str:
        """The database in messages, without password."""
        return self._address.shown

    @contextmanager
    def reading(self) -> Iterator[Work]:
        """Reads that all show one moment. Raises: StoreError."""
        with self._working("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY") as (work, connection):
            yield work
            work.refuse_after_failure()
            self._end(connection, "COMMIT")

    @contextmanager
    def writing(self) -> Iterator[Work]:
        """The only writer of all processes; commits at the end, rolls back when the block raises.

        Raises: StoreError; nothing of the block is then written. One text says otherwise: that the
        connection was lost at the commit and the server could not be asked what became of it.
        """
        with self._working(self._begin_writing()) as (work, connection):
            yield work
            work.refuse_after_failure()
            if not work.wrote:
                self._end(connection, "COMMIT")
                return
            bumped = work.rows(
                f"UPDATE {self._schema.namespace}.state SET commits = commits + 1 "
                "RETURNING commits, pg_current_xact_id()::text"
            )
            self._commit(connection, str(bumped[0][1]))
            self._saw(int(bumped[0][0]))

    def data_version(self) -> int:
        """Differs from the answer before exactly when something was committed in between: one short trip."""
        self._refuse_unusable()
        floor = self._commits
        for _ in range(2):
            connection, fresh = self._take()
            try:
                found = connection.execute(self._schema.state).fetchone()
            except psycopg.Error as error:
                self._drop(connection, error)
                if fresh or not is_lost(error):
                    raise explained(error, self.shown) from error
                continue
            self._give_back(connection)
            return self._checked(found, floor)
        raise AssertionError("the second connection is always fresh")

    def scrub(self) -> str:
        """Free the room of deleted rows in every table of the store (VACUUM); blocks no writer.

        Returns nothing: the server's own files are its operator's. Raises: StoreError.
        """
        self._refuse_unusable()
        connection, _ = self._take()
        try:
            with in_words(self.shown, waited=self._busy_seconds):
                tables = connection.execute(
                    "SELECT c.oid::regclass::text FROM pg_class AS c "
                    "WHERE c.relnamespace = to_regnamespace(%s) AND c.relkind = 'r'",
                    (self._schema.namespace,),
                ).fetchall()
                for (table,) in tables:
                    connection.execute(f"VACUUM {table}")
        finally:
            self._give_back(connection)
        return ""

    def close(self) -> None:
        """Close every connection; in a forked child nothing is closed, they belong to the parent."""
        if os.getpid() != self._process:
            return
        with self._guard:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def connections(self) -> tuple[Link, ...]:
        """The connections that nobody uses now."""
        return tuple(self._idle)

    @contextmanager
    def _working(self, begin: str) -> Iterator[tuple[Work, Link]]:
        self._refuse_unusable()
        connection = self._begun(f"{begin}; {self._schema.state}")
        work = Work(connection, self.shown, waited=self._busy_seconds)
        try:
            yield work, connection
        finally:
            self._give_back(connection)

    def _begun(self, begin: str) -> Link:
        """A connection with an open transaction; one that died unused is replaced without a word."""
        floor = self._commits
        for _ in range(2):
            connection, fresh = self._take()
            try:
                cursor = connection.execute(begin)
                while cursor.nextset():
                    pass
                self._checked(cursor.fetchone(), floor)
            except psycopg.Error as error:
                self._drop(connection, error)
                if fresh or not is_lost(error):
                    raise explained(error, self.shown, waited=self._busy_seconds) from error
                continue
            except BaseException:
                self._give_back(connection)
                raise
            return connection
        raise AssertionError("the second connection is always fresh")

    def _begin_writing(self) -> str:
        # not REPEATABLE READ: its snapshot would be taken before the wait for the lock
        return (
            "BEGIN ISOLATION LEVEL READ COMMITTED; "
            f"SET LOCAL lock_timeout = {max(1, int(self._busy_seconds * 1000))}; "
            f"SET LOCAL idle_in_transaction_session_timeout = {int(self._standstill_seconds * 1000)}; "
            f"SELECT pg_advisory_xact_lock({LOCK_SPACE}, {self._schema.lock})"
        )

    def _end(self, connection: Link, how: str) -> None:
        with in_words(self.shown):
            connection.execute(how)

    def _commit(self, connection: Link, transaction: str) -> None:
        """Commit; when the connection is lost at that moment, ask the server what became of it."""
        try:
            connection.execute("COMMIT")
        except psycopg.Error as error:
            if not is_lost(error):
                raise explained(error, self.shown) from error
            fate = self._fate(transaction)
            if fate == "committed":
                return
            if fate == "aborted":
                raise explained(error, self.shown) from error
            raise StoreGone(
                f"{self.shown} went away during a commit and cannot be asked whether it was written: it is "
                "there whole or not at all; when the server is back, read again and decide again "
                f"({' '.join(str(error).split())})"
            ) from error

    def _fate(self, transaction: str) -> str | None:
        """`committed`, `aborted`, or None when that cannot be known now."""
        try:
            connection = self._connect()
        except (psycopg.Error, StoreError):
            return None
        try:
            # the server may still be finishing: whoever gets the lock knows that it has ended
            connection.execute(f"SET lock_timeout = {max(1, int(self._busy_seconds * 1000))}")
            connection.execute("SELECT pg_advisory_lock(%s, %s)", (LOCK_SPACE, self._schema.lock))
            found = connection.execute("SELECT pg_xact_status(%s::xid8)", (transaction,)).fetchone()
        except psycopg.Error:
            return None
        finally:
            connection.close()
        return None if found is None else found[0]

    def _checked(self, state: tuple[object, ...] | None, floor: int) -> int:
        """Commits of the store. Raises: StoreError for another store, a newer one, or one that went back."""
        if state is None:
            raise StoreError(
                f"the {self._schema.name} on {self.shown} has lost the row that names its schema; nothing "
                "was changed; restore the database from a backup"
            )
        number, store_id, commits = int(str(state[0])), str(state[1]), int(str(state[2]))
        refuse_newer(number, self._schema, self.shown)
        if self._store_id is None:
            self._store_id = store_id
        if store_id != self._store_id:
            raise StoreReplaced(
                f"{self.shown} was replaced by another store while it was open; nothing was changed; check "
                "that it is the right one: `prx serve`, `prx worker` and the SDK go on with it"
            )
        if commits < floor:
            raise StoreReplaced(
                f"the {self._schema.name} on {self.shown} went back from commit {floor} to {commits}: it was "
                "replaced by an older copy (a restored backup, or a standby that had not caught up); nothing "
                "was changed; run `prx evolution audit verify`; `prx serve`, `prx worker` and the SDK "
                "open it anew, and workers bring records back from their spools"
            )
        self._saw(commits)
        return commits

    def _saw(self, commits: int) -> None:
        with self._guard:
            self._commits = max(self._commits, commits)

    def _take(self) -> tuple[Link, bool]:
        """A connection, and whether it was opened just now. Raises: StoreError."""
        with self._guard:
            if self._idle:
                return self._idle.pop(), False
        with in_words(self.shown):
            return self._connect(), True

    def _drop(self, connection: Link, error: psycopg.Error) -> None:
        """After a lost connection the idle ones are lost as well."""
        if not is_lost(error):
            self._give_back(connection)
            return
        with self._guard:
            idle, self._idle = self._idle, []
        for one in (connection, *idle):
            one.close()

    def _give_back(self, connection: Link) -> None:
        with suppress(psycopg.Error):
            if connection.info.transaction_status != TransactionStatus.IDLE and not connection.closed:
                connection.execute("ROLLBACK")
        with self._guard:
            usable = connection.info.transaction_status == TransactionStatus.IDLE
            if usable and not self._closed and len(self._idle) < _IDLE_CONNECTIONS:
                self._idle.append(connection)
                return
        connection.close()

    def _connect(self) -> Link:
        connection = psycopg.connect(self._address.conninfo, autocommit=True)
        try:
            if connection.info.server_version < _OLDEST_SERVER:
                raise StoreError(
                    f"{self.shown} runs PostgreSQL {connection.info.server_version // 10000}; 13 or later is "
                    "needed; nothing was changed"
                )
            connection.execute("SET client_encoding = 'UTF8'")
            if self._full_sync:
                connection.execute(
                    "SELECT set_config('synchronous_commit', 'on', FALSE) "
                    "WHERE current_setting('synchronous_commit') = 'off'"
                )
            adapt(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _refuse_unusable(self) -> None:
        if os.getpid() != self._process:
            raise StoreError(
                f"{self.shown} was opened by process {self._process} and this is its fork {os.getpid()}; "
                "open it again after the fork"
            )
        if self._closed:
            raise StoreError(f"{self.shown} is closed; open it again")


_LIVE: "weakref.WeakSet[Database]" = weakref.WeakSet()
_INHERITED: list[Link] = []


def _keep_inherited() -> None:
    """Closing a parent's connection in its child would end the parent's session, so the child never does."""
    for database in tuple(_LIVE):
        _INHERITED.extend(database.connections())


os.register_at_fork(after_in_child=_keep_inherited)
