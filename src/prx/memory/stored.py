"""What both stores share: keys of scopes, and an entry's status at a time."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec

from prx.domain.codec import encode
from prx.domain.memory import EntryStatus, InForce, MemoryEntry, Scope


@dataclass(frozen=True, slots=True)
class Counters:
    """Sums of `Use` over the sessions that could read the entry."""

    retrieved: int = 0
    confirmed: int = 0
    contradicted: int = 0
    alone: int = 0
    last_used: datetime | None = None


def scope_key(scope: Scope) -> str:
    """A token that is equal exactly for equal scopes (96 bits of BLAKE2b)."""
    return f"s{hashlib.blake2b(encode(scope), digest_size=12).hexdigest()}"


def scope_keys(scopes: Iterable[Scope]) -> tuple[str, ...]:
    """Tokens of several scopes."""
    return tuple(scope_key(scope) for scope in scopes)


def bare(entry: MemoryEntry) -> MemoryEntry:
    """The entry without what is counted or depends on time: what is stored of it."""
    return msgspec.structs.replace(
        entry,
        status=EntryStatus.ACTIVE,
        retrieved=0,
        confirmed=0,
        contradicted=0,
        alone=0,
        last_used=None,
    )


def overdue(entries: Iterable[MemoryEntry], at: datetime) -> frozenset[str]:
    """Ids whose validity is over at `at`: it ended, or a later entry on the same subject took their place."""
    latest: dict[tuple[Scope, str], tuple[datetime, str]] = {}
    every = tuple(entries)
    for entry in every:
        if entry.subject is not None and entry.valid_from <= at:
            key = (entry.scope, entry.subject)
            latest[key] = max(latest.get(key, (entry.valid_from, "")), (entry.valid_from, entry.memory_id))
    gone = set()
    for entry in every:
        newest = latest.get((entry.scope, entry.subject)) if entry.subject is not None else None
        replaced = newest is not None and newest > (entry.valid_from, entry.memory_id)
        if replaced or (entry.valid_to is not None and entry.valid_to <= at):
            gone.add(entry.memory_id)
    return frozenset(gone)


def told(
    entries: Sequence[MemoryEntry], counters: Mapping[str, Counters], *, force: InForce, at: datetime
) -> tuple[MemoryEntry, ...]:
    """Raw entries and derived ones in force, with status and counters, oldest first."""
    late = overdue(entries, at)
    shown = []
    for entry in sorted(entries, key=lambda one: (one.created_at, one.memory_id)):
        if entry.derived_from and entry.memory_id not in force.derived:
            continue
        counted = counters.get(entry.memory_id, Counters())
        status = EntryStatus.SUPERSEDED if entry.memory_id in late else EntryStatus.ACTIVE
        shown.append(
            msgspec.structs.replace(
                entry,
                status=status if force.holds(entry) else EntryStatus.ARCHIVED,
                retrieved=counted.retrieved,
                confirmed=counted.confirmed,
                contradicted=counted.contradicted,
                alone=counted.alone,
                last_used=counted.last_used,
            )
        )
    return tuple(shown)
