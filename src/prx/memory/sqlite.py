"""Memory in one SQLite file with a full-text index, for any number of processes on one machine."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from prx.domain.codec import decode, encode
from prx.domain.memory import Ask, InForce, LoggedQuery, MemoryEntry, Recalled, SessionMemory
from prx.domain.records import PRODUCTION, MemoryWritten
from prx.domain.times import from_micros, to_micros
from prx.memory.forgetting import bare_session, descendants, written_of
from prx.memory.port import Embedder
from prx.memory.ranking import CANDIDATES, Count, rank
from prx.memory.stored import Counters, bare, scope_key, scope_keys, told
from prx.memory.terms import ascii_token, terms_of
from prx.sqlite import Database, Schema, Work, read_statements
from prx.sqlite.database import BUSY_SECONDS

SQL = read_statements("prx.memory", "statements.sql")
SCHEMA = Schema(
    name="memory store",
    application_id=0x5052584D,  # "PRXM"
    migrations=(tuple(read_statements("prx.memory", "schema_1.sql").values()),),
)


class SqliteMemory:
    """A `MemoryStore` in one SQLite file. The text index knows only tokens of ours and the scope, so a word
    of one scope is never even looked up for another."""

    def __init__(self, database: Database, embedder: Embedder | None = None) -> None:
        self._database, self._embedder = database, embedder

    def learn(self, sessions: Sequence[SessionMemory]) -> int:
        """Store what sessions wrote and used in one batch."""
        if not sessions:
            return 0
        last = {session.session_id: session for session in sessions}
        ids = [(session_id,) for session_id in last]
        with self._database.writing() as work:
            new = _keep(work, (entry for session in sessions for entry in session.entries))
            work.many(SQL["forget_uses"], ids)
            work.many(SQL["forget_queries"], ids)
            work.many(SQL["use"], (row for session in last.values() for row in _use_rows(session)))
            work.many(SQL["ask"], (row for session in last.values() for row in _query_rows(session)))
        return new

    def derive(self, entries: Sequence[MemoryEntry]) -> None:
        """Store entries of memory changes."""
        with self._database.writing() as work:
            _keep(work, entries)

    def recall(self, ask: Ask, force: InForce) -> tuple[Recalled, ...]:
        """The best entries for a query."""
        wanted = dict.fromkeys(terms_of(ask.query))
        if not wanted or ask.k < 1:
            return ()
        keys = scope_keys(ask.reader.scopes)
        terms = " OR ".join(f'"{ascii_token(term)}"' for term in wanted)
        given = {
            "match": f"terms : ({terms}) AND scope : ({' OR '.join(keys)})",
            "scopes": _listed(keys),
            "at": to_micros(ask.at),
            "derived": _listed(force.derived),
            "archived": _listed(force.archived),
            "limit": CANDIDATES,
        }
        with self._database.reading() as work:
            found = [decode(body, MemoryEntry) for (body,) in work.rows(SQL["recall"], given)]
            counters = _counters(work, [entry.memory_id for entry in found])
            ((readable,),) = work.rows(SQL["readable"], {"scopes": given["scopes"]})
        weights = {key: Count(one.confirmed, one.contradicted) for key, one in counters.items()}
        return rank(ask, found, weights, readable=readable, embedder=self._embedder)

    def entries(
        self, agent: str, *, force: InForce, at: datetime, env: str = PRODUCTION
    ) -> tuple[MemoryEntry, ...]:
        """All raw entries and the derived ones in force."""
        with self._database.reading() as work:
            rows = work.rows(SQL["entries"], {"agent": agent, "env": env})
            mine = [decode(body, MemoryEntry) for (body,) in rows]
            counters = _counters(work, [entry.memory_id for entry in mine])
        return told(mine, counters, force=force, at=at)

    def known(self, memory_ids: Sequence[str]) -> tuple[MemoryEntry, ...]:
        """The entries among these ids."""
        with self._database.reading() as work:
            rows = work.rows(SQL["known"], {"ids": _listed(memory_ids)})
        return tuple(decode(body, MemoryEntry) for (body,) in rows)

    def queries(self, agent: str, *, limit: int, env: str = PRODUCTION) -> tuple[LoggedQuery, ...]:
        """The newest logged queries that found anything."""
        with self._database.reading() as work:
            rows = work.rows(SQL["queries"], {"agent": agent, "env": env, "limit": limit})
        return tuple(decode(body, LoggedQuery) for (body,) in rows)

    def sessions(self) -> tuple[MemoryWritten, ...]:
        """Raw entries as they were written, and all other sessions."""
        with self._database.reading() as work:
            raw = [written_of(decode(body, MemoryEntry)) for (body,) in work.rows(SQL["raw_entries"])]
            others = [session_id for (session_id,) in work.rows(SQL["other_sessions"])]
        known = {one.session_id for one in raw}
        return (*raw, *(bare_session(one) for one in others if one not in known))

    def forget(self, sessions: Sequence[str], memory_ids: Sequence[str]) -> tuple[str, ...]:
        """Remove sessions, entries and what was derived from them."""
        with self._database.writing() as work:
            every = [decode(body, MemoryEntry) for (body,) in work.rows(SQL["all_entries"])]
            gone = descendants(every, sessions, memory_ids)
            given = {"ids": _listed(gone), "sessions": _listed(sessions)}
            for name in ("forget_sought", "forget_entries", "forget_used", "forget_asked"):
                work.rows(SQL[name], given)
            if gone:
                work.rows(SQL["optimize"])
        return gone

    def scrub(self) -> str:
        """Overwrite what removed rows left in the file."""
        return self._database.scrub()

    def cursor(self) -> int:
        """How far the records were read."""
        with self._database.reading() as work:
            found = work.rows(SQL["cursor"])
        return int(found[0][0]) if found else 0

    def set_cursor(self, value: int) -> None:
        """Keep how far the records were read."""
        with self._database.writing() as work:
            work.rows(SQL["set_cursor"], {"value": value})

    def close(self) -> None:
        """Close the file."""
        self._database.close()


def open_sqlite(
    path: Path | str, *, embedder: Embedder | None = None, busy_seconds: float = BUSY_SECONDS
) -> SqliteMemory:
    """Memory in the file at `path`, created or migrated where needed.

    Args: `embedder`: adds likeness of meaning to the words. `busy_seconds`: longest wait for another writer.
    Raises: StoreError, StoreTooNew.
    """
    return SqliteMemory(Database(path, SCHEMA, full_sync=False, busy_seconds=busy_seconds), embedder)


def _keep(work: Work, entries: Iterable[MemoryEntry]) -> int:
    new = 0
    for entry in entries:
        rows = work.rows(SQL["keep"], _entry_row(entry))
        if rows:
            terms = " ".join(ascii_token(term) for term in terms_of(entry.text))
            work.rows(SQL["seek"], (rows[0][0], terms, scope_key(entry.scope)))
            new += 1
    return new


def _entry_row(entry: MemoryEntry) -> tuple[Any, ...]:
    return (
        entry.memory_id,
        entry.scope.agent,
        entry.scope.env,
        scope_key(entry.scope),
        int(bool(entry.derived_from)),
        entry.subject,
        to_micros(entry.valid_from),
        None if entry.valid_to is None else to_micros(entry.valid_to),
        to_micros(entry.created_at),
        encode(bare(entry)).decode(),
    )


def _use_rows(session: SessionMemory) -> list[tuple[Any, ...]]:
    scopes = _listed(scope_keys(session.reader.scopes))
    return [
        (
            session.session_id,
            use.memory_id,
            scopes,
            use.retrieved,
            int(use.confirmed),
            int(use.contradicted),
            int(use.alone),
            None if use.last_used is None else to_micros(use.last_used),
        )
        for use in session.uses
    ]


def _query_rows(session: SessionMemory) -> list[tuple[Any, ...]]:
    reader = session.reader
    return [
        (
            query.query_id,
            session.session_id,
            reader.agent,
            reader.env,
            to_micros(query.at),
            encode(query).decode(),
        )
        for query in session.queries
    ]


def _counters(work: Work, memory_ids: Sequence[str]) -> dict[str, Counters]:
    rows = work.rows(SQL["counts"], {"ids": _listed(memory_ids)})
    return {
        memory_id: Counters(
            retrieved, confirmed, contradicted, alone, None if last is None else from_micros(last)
        )
        for memory_id, retrieved, confirmed, contradicted, alone, last in rows
    }


def _listed(texts: Iterable[str]) -> str:
    return encode(list(texts)).decode()
