"""A ledger that lives in one process: for tests of programs that use it, and for the demo."""

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, TypeVar

import msgspec

from prx.domain.codec import decode, encode
from prx.domain.errors import Conflict, StoreError
from prx.domain.events import AuditRow, Event
from prx.domain.ids import Ids
from prx.domain.versions import Pointer
from prx.ledger.ledger import StoredLedger
from prx.ledger.store import Document, Query

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _State:
    """Everything stored after one commit. Mappings are never changed once a state is published; the two
    logs are shared and grow, their lengths say how much of them belongs to the state."""

    kinds: dict[str, dict[str, Document]] = field(default_factory=dict)
    parts: dict[str, bytes] = field(default_factory=dict)
    labels: dict[tuple[str, str], str] = field(default_factory=dict)
    pointers: dict[str, Pointer] = field(default_factory=dict)
    audit_bodies_erased: frozenset[int] = frozenset()
    events: list[bytes] = field(default_factory=list)
    audit: list[AuditRow] = field(default_factory=list)
    event_count: int = 0
    audit_count: int = 0
    commits: int = 0


class _Read:
    def __init__(self, state: _State) -> None:
        self._state = state

    def document(self, kind: str, key: str) -> Document | None:
        return self._state.kinds.get(kind, {}).get(key)

    def documents(self, query: Query) -> Iterable[Document]:
        kept = self._state.kinds.get(query.kind, {})
        ordered = reversed(kept.values()) if query.newest_first else iter(kept.values())
        matching = (one for one in ordered if _matches(one, query))
        stop = None if query.limit is None else query.offset + query.limit
        return list(islice(matching, query.offset, stop))

    def count(self, query: Query) -> int:
        return sum(_matches(one, query) for one in self._state.kinds.get(query.kind, {}).values())

    def agents(self, kinds: Iterable[str]) -> tuple[str, ...]:
        named = {one.agent for kind in kinds for one in self._state.kinds.get(kind, {}).values()}
        return tuple(sorted(agent for agent in named if agent is not None))

    def part(self, part_hash: str) -> bytes | None:
        return self._state.parts.get(part_hash)

    def labelled(self, agent: str, label: str) -> str | None:
        return self._state.labels.get((agent, label))

    def pointer(self, agent: str) -> Pointer | None:
        return self._state.pointers.get(agent)

    def pointers(self) -> Iterable[Pointer]:
        return list(self._state.pointers.values())

    def events(self, after: int, limit: int | None) -> Iterable[tuple[int, Event]]:
        page = _page(self._state.events, self._state.event_count, after, limit)
        return [(seq, decode(body, Event)) for seq, body in enumerate(page, start=after + 1)]

    def audit(self, after: int, limit: int | None) -> Iterable[AuditRow]:
        erased = self._state.audit_bodies_erased
        for row in _page(self._state.audit, self._state.audit_count, after, limit):
            yield msgspec.structs.replace(row, body=None) if row.seq in erased else row

    def audit_head(self) -> tuple[int, str] | None:
        if not self._state.audit_count:
            return None
        newest = self._state.audit[self._state.audit_count - 1]
        return newest.seq, newest.hash


class _Write(_Read):
    """Copies a mapping before its first change, so that readers keep theirs."""

    def __init__(self, state: _State) -> None:
        super().__init__(state)
        self._copied: set[str] = set()

    @property
    def state(self) -> _State:
        """What there is with the writes so far."""
        return self._state

    def put(self, document: Document) -> None:
        if "kinds" not in self._copied:
            self._set(kinds=dict(self._state.kinds))
            self._copied.add("kinds")
        mark = f"kind {document.kind}"
        if mark not in self._copied:
            self._state.kinds[document.kind] = dict(self._state.kinds.get(document.kind, {}))
            self._copied.add(mark)
        self._state.kinds[document.kind][document.key] = document

    def put_part(self, part_hash: str, body: bytes) -> None:
        if not self._state.parts.get(part_hash):
            self._set(parts={**self._state.parts, part_hash: body})

    def erase_part(self, part_hash: str) -> None:
        if part_hash in self._state.parts:
            self._set(parts={**self._state.parts, part_hash: b""})

    def name_version(self, agent: str, label: str, snapshot_id: str) -> None:
        self._set(labels={**self._state.labels, (agent, label): snapshot_id})

    def point(self, pointer: Pointer) -> None:
        self._set(pointers={**self._state.pointers, pointer.agent: pointer})

    def append_event(self, event: Event) -> int:
        self._state.events.append(encode(event))
        self._set(event_count=self._state.event_count + 1)
        return self._state.event_count

    def replace_event(self, seq: int, event: Event) -> None:
        events = list(self._state.events[: self._state.event_count])
        events[seq - 1] = encode(event)
        self._set(events=events)

    def append_audit(self, row: AuditRow) -> None:
        if row.seq != self._state.audit_count + 1:
            raise Conflict(
                f"audit row {row.seq} was written by someone else first; run the transaction again"
            )
        self._state.audit.append(row)
        self._set(audit_count=self._state.audit_count + 1)

    def erase_audit_body(self, seq: int) -> None:
        self._set(audit_bodies_erased=self._state.audit_bodies_erased | {seq})

    def _set(self, **changes: Any) -> None:
        self._state = replace(self._state, **changes)


class MemoryStore:
    """A `Store` in the memory of one process; nothing survives it."""

    def __init__(self) -> None:
        self._state = _State()
        self._writer = threading.Lock()
        self._closed = False

    @contextmanager
    def reading(self) -> Iterator[_Read]:
        """A snapshot that later commits do not change."""
        self._refuse_closed()
        yield _Read(self._state)

    @contextmanager
    def writing(self) -> Iterator[_Write]:
        """The only writer; publishes its state at the end, forgets it when the block raises."""
        self._refuse_closed()
        with self._writer:
            before = self._state
            write = _Write(before)
            try:
                yield write
            except BaseException:
                del before.events[before.event_count :]
                del before.audit[before.audit_count :]
                raise
            self._state = replace(write.state, commits=before.commits + 1)

    def data_version(self) -> int:
        """How many commits there were."""
        self._refuse_closed()
        return self._state.commits

    def scrub(self) -> str:
        """Nothing lies on a disk."""
        return ""

    def close(self) -> None:
        """Refuse everything from now on."""
        self._closed = True

    def _refuse_closed(self) -> None:
        if self._closed:
            raise StoreError("this in-memory ledger is closed and its content is gone; open another")


def open_memory(ids: Ids) -> StoredLedger:
    """An empty ledger in memory."""
    return StoredLedger(MemoryStore(), ids)


def _matches(one: Document, query: Query) -> bool:
    return (
        (query.agent is None or one.agent == query.agent)
        and (query.layer is None or one.layer == query.layer)
        and (query.states is None or one.state in query.states)
        and (query.since is None or one.at >= query.since)
        and (query.until is None or one.at < query.until)
    )


def _page(log: list[T], length: int, after: int, limit: int | None) -> list[T]:
    stop = length if limit is None else min(length, after + limit)
    return log[after:stop]
