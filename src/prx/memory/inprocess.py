"""Memory that is gone with its process: for tests of programs that use it, and for simulations."""

import threading
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime

from prx.domain.memory import Ask, InForce, LoggedQuery, MemoryEntry, Recalled, Scope, SessionMemory, Use
from prx.domain.records import PRODUCTION, MemoryWritten
from prx.memory.forgetting import bare_session, descendants, written_of
from prx.memory.port import Embedder
from prx.memory.ranking import CANDIDATES, Count, rank
from prx.memory.stored import Counters, bare, overdue, told
from prx.memory.terms import terms_of


class InProcessMemory:
    """A `MemoryStore` in plain dictionaries; usable from several threads."""

    def __init__(self, embedder: Embedder | None = None) -> None:
        self._lock = threading.RLock()
        self._embedder = embedder
        self._entries: dict[str, MemoryEntry] = {}
        self._by_scope: dict[Scope, dict[str, frozenset[str]]] = defaultdict(dict)
        self._sessions: dict[str, SessionMemory] = {}
        self._uses: dict[str, dict[str, tuple[SessionMemory, Use]]] = defaultdict(dict)
        self._counted: dict[str, Counters] = {}
        self._cursor = 0

    def learn(self, sessions: Sequence[SessionMemory]) -> int:
        """Store what sessions wrote and used, each in place of its earlier reading."""
        with self._lock:
            new = 0
            for session in sessions:
                new += sum(self._keep(entry) for entry in session.entries)
                earlier = self._sessions.get(session.session_id)
                for use in earlier.uses if earlier else ():
                    self._uses[use.memory_id].pop(session.session_id, None)
                    self._counted.pop(use.memory_id, None)
                for use in session.uses:
                    self._uses[use.memory_id][session.session_id] = (session, use)
                    self._counted.pop(use.memory_id, None)
                self._sessions[session.session_id] = session
            return new

    def derive(self, entries: Sequence[MemoryEntry]) -> None:
        """Store entries of memory changes."""
        with self._lock:
            for entry in entries:
                self._keep(entry)

    def recall(self, ask: Ask, force: InForce) -> tuple[Recalled, ...]:
        """The best entries for a query."""
        wanted = frozenset(terms_of(ask.query))
        if not wanted or ask.k < 1:
            return ()
        with self._lock:
            scopes = ask.reader.scopes
            readable = [one for scope in scopes for one in self._by_scope.get(scope, {}).items()]
            raw = sum(not self._entries[memory_id].derived_from for memory_id, _ in readable)
            late = overdue((self._entries[memory_id] for memory_id, _ in readable), ask.at)
            found = [
                entry
                for memory_id, terms in readable
                if terms & wanted
                and memory_id not in late
                and force.holds(entry := self._entries[memory_id])
                and entry.valid_from <= ask.at
            ]
            # like the other store, which asks its index for the most promising ones
            found.sort(
                key=lambda one: (-len(self._by_scope[one.scope][one.memory_id] & wanted), one.memory_id)
            )
            found = found[:CANDIDATES]
            counts = {one.memory_id: self._counters(one) for one in found}
        weights = {key: Count(one.confirmed, one.contradicted) for key, one in counts.items()}
        return rank(ask, found, weights, readable=raw, embedder=self._embedder)

    def entries(
        self, agent: str, *, force: InForce, at: datetime, env: str = PRODUCTION
    ) -> tuple[MemoryEntry, ...]:
        """All raw entries and the derived ones in force."""
        with self._lock:
            mine = [e for e in self._entries.values() if e.scope.agent == agent and e.scope.env == env]
            return told(mine, {one.memory_id: self._counters(one) for one in mine}, force=force, at=at)

    def known(self, memory_ids: Sequence[str]) -> tuple[MemoryEntry, ...]:
        """The entries among these ids."""
        with self._lock:
            return tuple(self._entries[one] for one in sorted(set(memory_ids)) if one in self._entries)

    def queries(self, agent: str, *, limit: int, env: str = PRODUCTION) -> tuple[LoggedQuery, ...]:
        """The newest logged queries that found anything."""
        with self._lock:
            mine = [
                query
                for session in self._sessions.values()
                if session.reader.agent == agent and session.reader.env == env
                for query in session.queries
            ]
        mine.sort(key=lambda query: (query.at, query.query_id), reverse=True)
        return tuple(mine[:limit])

    def sessions(self) -> tuple[MemoryWritten, ...]:
        """Raw entries as they were written, and all other sessions."""
        with self._lock:
            raw = [written_of(one) for one in self._entries.values() if not one.derived_from]
            known = {one.session_id for one in raw}
            return (*raw, *(bare_session(key) for key in self._sessions if key not in known))

    def forget(self, sessions: Sequence[str], memory_ids: Sequence[str]) -> tuple[str, ...]:
        """Remove sessions, entries and what was derived from them."""
        with self._lock:
            gone = descendants(self._entries.values(), sessions, memory_ids)
            for memory_id in gone:
                entry = self._entries.pop(memory_id)
                self._by_scope[entry.scope].pop(memory_id, None)
                self._uses.pop(memory_id, None)
            for session_id in sessions:
                told = self._sessions.pop(session_id, None)
                for use in told.uses if told else ():
                    self._uses.get(use.memory_id, {}).pop(session_id, None)
            return gone

    def scrub(self) -> str:
        """Nothing lies on a disk."""
        return ""

    def cursor(self) -> int:
        """How far the records were read."""
        return self._cursor

    def set_cursor(self, value: int) -> None:
        """Keep how far the records were read."""
        self._cursor = value

    def close(self) -> None:
        """Nothing to release."""

    def _keep(self, entry: MemoryEntry) -> bool:
        if entry.memory_id in self._entries:
            return False
        self._entries[entry.memory_id] = bare(entry)
        self._by_scope[entry.scope][entry.memory_id] = frozenset(terms_of(entry.text))
        return True

    def _counters(self, entry: MemoryEntry) -> Counters:
        """Only of sessions that may read the entry: a session cannot vouch for what it never saw."""
        known = self._counted.get(entry.memory_id)
        if known is None:
            given = self._uses.get(entry.memory_id, {}).values()
            known = _summed(use for session, use in given if entry.scope in session.reader.scopes)
            self._counted[entry.memory_id] = known
        return known


def open_memory(embedder: Embedder | None = None) -> InProcessMemory:
    """An empty store in this process."""
    return InProcessMemory(embedder)


def _summed(uses: Iterable[Use]) -> Counters:
    every = tuple(uses)
    return Counters(
        retrieved=sum(use.retrieved for use in every),
        confirmed=sum(use.confirmed for use in every),
        contradicted=sum(use.contradicted for use in every),
        alone=sum(use.alone for use in every),
        last_used=max((use.last_used for use in every if use.last_used is not None), default=None),
    )
