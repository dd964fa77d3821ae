"""What PostgreSQL reports, said in words: what happened, to which database, what to do next."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors

from prx.domain.errors import StoreError

_UNDONE = "nothing of this transaction was written"
_BY_KIND: tuple[tuple[type[psycopg.Error], str], ...] = (
    (
        errors.ReadOnlySqlTransaction,
        "is read-only (a standby, or default_transaction_read_only is on); nothing was written; point "
        "[self_evolution.store] url at the primary, or make it writable again; reading goes on",
    ),
    (
        errors.TooManyConnections,
        "has no connection free; nothing was written; raise max_connections, or run fewer `prx` processes, "
        "then try again",
    ),
    (
        errors.DiskFull,
        f"could not grow: its disk is full; {_UNDONE}; free space on the server and try again",
    ),
    (errors.InsufficientPrivilege, "does not let this user do that; grant the right and try again"),
    (
        errors.QueryCanceled,
        f"cancelled a statement (statement_timeout, or a person); {_UNDONE}; try again",
    ),
    (errors.SerializationFailure, f"let another transaction go first; {_UNDONE}; try again"),
    (errors.DeadlockDetected, f"ended a deadlock; {_UNDONE}; try again"),
    (
        errors.IdleInTransactionSessionTimeout,
        f"ended a transaction that stood still for too long (a stopped or suspended process); {_UNDONE}; "
        "run it again from its start",
    ),
    (
        errors.UndefinedTable,
        "has lost its tables of PRX Evolution; nothing was changed; restore the database, or restart every "
        "`prx` process to begin anew",
    ),
    (errors.DataCorrupted, "reports damaged data; nothing was changed; restore the database from a backup"),
    (errors.IndexCorrupted, "reports a damaged index; nothing was changed; run REINDEX, check the disk"),
    (errors.OutOfMemory, f"has no memory left; {_UNDONE}; try again with fewer rows"),
    (errors.InsufficientResources, f"has run out of resources; {_UNDONE}; look at the server's log"),
)
# a refused connection carries no code, only the server's or the library's own words
_BY_WORDS: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("too many clients", "remaining connection slots", "too many connections"),
        "has no connection free; nothing was written; raise max_connections, or run fewer `prx` processes, "
        "then try again",
    ),
    (
        ("password authentication failed", "no password supplied", "authentication failed"),
        "refused user or password; check [self_evolution.store] url (write the password as env:NAME or "
        "file:PATH of the whole address)",
    ),
    (
        ("no pg_hba.conf entry",),
        "does not accept this user from this machine; add a line to the server's pg_hba.conf",
    ),
    (
        ("is starting up", "is shutting down", "in recovery mode", "not yet accepting connections"),
        "is starting or stopping; nothing was written; try again in a moment",
    ),
    (
        ("could not translate host name", "name or service not known", "failed to resolve host"),
        "names a host that is not known; check the host in [self_evolution.store] url",
    ),
)


class StoreRefused(StoreError):
    """The database's own rules (unique, gapless, never changed) refused a row."""


class StoreBusy(StoreError):
    """Another connection held the lock longer than the bounded wait."""


class StoreGone(StoreError):
    """The server could not be reached, or went away; a later call reconnects by itself."""


@contextmanager
def in_words(shown: str, *, waited: float = 0.0) -> Iterator[None]:
    """Turn psycopg's errors into StoreError; `waited` is the bounded wait for a lock, in seconds."""
    try:
        yield
    except psycopg.Error as error:
        raise explained(error, shown, waited=waited) from error


def is_lost(error: psycopg.Error) -> bool:
    """Whether the connection is gone with this error."""
    if isinstance(error, errors.AdminShutdown | errors.CrashShutdown | errors.IdleSessionTimeout):
        return True
    return isinstance(error, psycopg.OperationalError) and error.sqlstate in (None, "57P03", "08006", "08003")


def explained(error: psycopg.Error, shown: str, *, waited: float = 0.0) -> StoreError:
    """The same failure with the database, the reason and the next step; never with a password."""
    said = " ".join(str(error).split())
    if isinstance(error, errors.LockNotAvailable):
        return StoreBusy(
            f"{shown} is locked: another process has been writing to it for over {waited:g} s; nothing was "
            "changed; try again, and if it lasts look for a stopped or hanging `prx` process"
        )
    if isinstance(error, psycopg.IntegrityError | errors.RaiseException):
        return StoreRefused(f"{shown} refused a row ({said}); nothing was changed; read again, decide again")
    for kind, advice in _BY_KIND:
        if isinstance(error, kind):
            return StoreError(f"{shown} {advice} ({said})")
    lowered = said.lower()
    if error.sqlstate is None or isinstance(error, errors.CannotConnectNow):
        for words, advice in _BY_WORDS:
            if any(word in lowered for word in words):
                return StoreGone(f"{shown} {advice} ({said})")
        if 'database "' in lowered and "does not exist" in lowered:
            return StoreGone(f"{shown} does not exist; create it: createdb NAME ({said})")
    if is_lost(error):
        return StoreGone(
            f"{shown} cannot be reached or went away; {_UNDONE}; check that the server runs, a later call "
            f"connects again by itself ({said})"
        )
    return StoreError(f"{shown} refused a statement: {said}; run `prx doctor`")
