"""What has to go when sessions or entries are erased, the same over every store."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from prx.domain.memory import MemoryEntry
from prx.domain.records import MemoryWritten

_USER = "user:"
_NEVER = datetime(1970, 1, 1, tzinfo=UTC)


def written_of(entry: MemoryEntry) -> MemoryWritten:
    """The record that a raw entry came from, without its text."""
    owner = entry.scope.owner
    return MemoryWritten(
        record_id=entry.memory_id,
        at=entry.created_at,
        session_id=entry.session_id or "",
        text="",
        agent=entry.scope.agent,
        env=entry.scope.env,
        tenant=entry.scope.tenant,
        user=owner.removeprefix(_USER) if owner.startswith(_USER) else None,
    )


def bare_session(session_id: str) -> MemoryWritten:
    """Stands for a session that wrote nothing."""
    return MemoryWritten(record_id="", at=_NEVER, session_id=session_id, text="")


def descendants(
    entries: Iterable[MemoryEntry], sessions: Sequence[str], memory_ids: Sequence[str]
) -> tuple[str, ...]:
    """Ids of the entries of these sessions, of these ids, and of all that were derived from any of them."""
    known = {entry.memory_id: entry for entry in entries}
    gone = {key for key, entry in known.items() if entry.session_id in set(sessions)}
    gone |= known.keys() & set(memory_ids)
    while True:
        more = {key for key, entry in known.items() if gone.intersection(entry.derived_from)} - gone
        if not more:
            return tuple(sorted(gone))
        gone |= more
