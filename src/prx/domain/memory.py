"""Memory entries, who may read them, and which of them a version has in force."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

import msgspec

from prx.domain.changes import MemoryAdd, MemoryArchive, MemoryOp
from prx.domain.codec import decode
from prx.domain.records import DEFAULT_AGENT, PRODUCTION, MemoryWritten
from prx.domain.versions import MemoryState, part_hash

SHARED = "shared"
SUMMARY = "summary"
EMPTY_STATE = part_hash(MemoryState())


class EntryStatus(StrEnum):
    """`archived` entries are out of recall and can be brought back; `superseded` ones are out of date."""

    ACTIVE = "active"
    ARCHIVED = "archived"
    SUPERSEDED = "superseded"


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """Whose an entry is. `owner`: `shared` in the tenant, `user:U`, or `session:S` where no user is known."""

    agent: str = DEFAULT_AGENT
    env: str = PRODUCTION
    tenant: str | None = None
    owner: str = SHARED


class MemoryEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that is remembered, with how often it was of use.

    Written by a session it is raw and never changes; derived by a memory change it names its sources in
    `derived_from`. `valid_from` <= time < `valid_to`. Entries of one scope and `subject` follow each other:
    only the one that became valid last is current. `pinned` ones are never pruned. `retrieved`, `confirmed`,
    `contradicted` count recalls of it, and those that were told to be relevant or not; `alone` those
    confirmed where nothing else of the recall was; `last_used` is the newest confirmed use.
    """

    memory_id: str
    scope: Scope
    text: str
    created_at: datetime
    valid_from: datetime
    valid_to: datetime | None = None
    kind: str = "note"
    subject: str | None = None
    pinned: bool = False
    session_id: str | None = None
    derived_from: tuple[str, ...] = ()
    status: EntryStatus = EntryStatus.ACTIVE
    retrieved: int = 0
    confirmed: int = 0
    contradicted: int = 0
    alone: int = 0
    last_used: datetime | None = None


class Reader(msgspec.Struct, frozen=True, kw_only=True):
    """Who recalls: what is readable follows from it alone, and nothing a query says widens it."""

    agent: str = DEFAULT_AGENT
    env: str = PRODUCTION
    tenant: str | None = None
    user: str | None = None
    session_id: str | None = None

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """Scopes that are readable: the tenant's shared one and the reader's own."""
        own = owner_of(user=self.user, session_id=self.session_id)
        owners = (SHARED,) if own is None else (SHARED, own)
        return tuple(
            Scope(agent=self.agent, env=self.env, tenant=self.tenant, owner=owner) for owner in owners
        )


class Use(msgspec.Struct, frozen=True, kw_only=True):
    """What one session did with one entry. `confirmed`, `contradicted` and `alone` count a session once,
    however often it says so; `last_used` is its newest confirmed use."""

    memory_id: str
    retrieved: int = 0
    confirmed: bool = False
    contradicted: bool = False
    alone: bool = False
    last_used: datetime | None = None


class LoggedQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A recall as it happened; `evidence` are the entries that it must still reach: those confirmed where
    any was, else all that it was given."""

    query_id: str
    reader: Reader
    query: str
    at: datetime
    evidence: tuple[str, ...]
    confirmed: bool


@dataclass(frozen=True, slots=True)
class MemoryStats:
    """What an agent's memory holds now. `confirmed`, `contradicted`: sessions that said so, summed over
    entries; `characters`: of active entries; `queries`: logged ones that a proof could replay, up to 200."""

    agent: str
    active: int
    archived: int
    superseded: int
    summaries: int
    pinned: int
    shared: int
    characters: int
    retrieved: int
    confirmed: int
    contradicted: int
    queries: int


class SessionMemory(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that one session says about memory; a later reading of the session replaces it."""

    session_id: str
    reader: Reader
    entries: tuple[MemoryEntry, ...] = ()
    uses: tuple[Use, ...] = ()
    queries: tuple[LoggedQuery, ...] = ()


class Recalled(NamedTuple):
    """One answer of a recall; `score` in 0..1, comparable within one recall."""

    memory_id: str
    text: str
    score: float


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """One recall: at most `k` entries for `query`, as of `at`, under the memory part `state` (its hash)."""

    reader: Reader
    query: str
    at: datetime
    k: int = 5
    state: str = EMPTY_STATE


@dataclass(frozen=True, slots=True)
class InForce:
    """What operations make of the raw entries: derived ones that count, and ids that are archived.

    `lineage` maps a derived id to the ids that it was made from.
    """

    derived: Mapping[str, MemoryAdd] = field(default_factory=dict)
    archived: frozenset[str] = frozenset()

    def holds(self, entry: MemoryEntry) -> bool:
        """Whether the entry takes part in recall; its own validity is not looked at."""
        known = not entry.derived_from or entry.memory_id in self.derived
        return known and entry.memory_id not in self.archived

    def behind(self, memory_id: str) -> frozenset[str]:
        """The entry and everything that it was derived from, through every step."""
        found: set[str] = set()
        waiting = [memory_id]
        while waiting:
            one = waiting.pop()
            if one not in found:
                found.add(one)
                add = self.derived.get(one)
                waiting.extend(add.derived_from if add else ())
        return frozenset(found)


def in_force(state: MemoryState) -> InForce:
    """The operations of a memory part, in order. Restoring an earlier part therefore inverts the later
    ones with everything derived from them. Raises: StoreError for an operation that cannot be read."""
    derived: dict[str, MemoryAdd] = {}
    archived: set[str] = set()
    for op in operations(state):
        if isinstance(op, MemoryAdd):
            derived[op.memory_id] = op
        else:
            archived.add(op.memory_id)
    return InForce(derived, frozenset(archived))


def operations(state: MemoryState) -> tuple[MemoryOp, ...]:
    """The typed operations of a part. Raises: StoreError."""
    return tuple(decode(text, MemoryAdd | MemoryArchive) for text in state.operations)  # type: ignore[arg-type]


def raw_entry(written: MemoryWritten) -> MemoryEntry:
    """The entry that a session wrote; never wider than the session's own scope unless it said shared.

    Without a user and outside of a session nothing says whose it is: then only `shared` makes it readable.
    """
    owner = SHARED if written.shared else owner_of(user=written.user, session_id=written.session_id)
    scope = Scope(agent=written.agent, env=written.env, tenant=written.tenant, owner=owner or "nobody")
    return MemoryEntry(
        memory_id=written.record_id,
        scope=scope,
        text=written.text,
        created_at=written.at,
        valid_from=written.valid_from or written.at,
        valid_to=written.valid_to,
        kind=written.kind,
        subject=written.subject,
        pinned=written.pinned,
        session_id=written.session_id,
    )


def derived_entry(add: MemoryAdd, sources: Iterable[MemoryEntry]) -> MemoryEntry | None:
    """The entry that an operation adds, in the one scope of its sources.

    None when a source is missing or they have several scopes: whose it were could not be told.
    """
    known = {source.memory_id: source for source in sources}
    scopes = {source.scope for source in known.values()}
    if len(scopes) != 1 or set(known) != set(add.derived_from):
        return None
    return MemoryEntry(
        memory_id=add.memory_id,
        scope=scopes.pop(),
        text=add.text,
        created_at=max(source.created_at for source in known.values()),
        valid_from=max(source.valid_from for source in known.values()),
        kind=SUMMARY,
        derived_from=add.derived_from,
    )


def owner_of(*, user: str | None, session_id: str | None) -> str | None:
    """Owner of what a session writes: its user, else the session itself; None when neither is known."""
    if user is not None:
        return f"user:{user}"
    return None if session_id is None else f"session:{session_id}"
