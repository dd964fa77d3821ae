"""What a database must offer so that the ledger's rules, written once, hold on it."""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from prx.domain.events import AuditRow, Event
from prx.domain.versions import Pointer


@dataclass(frozen=True, slots=True)
class Document:
    """One record in stored form; `at` in microseconds since 1970, `body` canonical JSON."""

    kind: str
    key: str
    agent: str | None
    layer: str | None
    state: str | None
    at: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Query:
    """Which documents of one kind are wanted; None means any. Half-open in `at`."""

    kind: str
    agent: str | None = None
    layer: str | None = None
    states: tuple[str, ...] | None = None
    since: int | None = None
    until: int | None = None
    newest_first: bool = False
    limit: int | None = None
    offset: int = 0


class ReadStore(Protocol):
    """One consistent read."""

    def document(self, kind: str, key: str) -> Document | None:
        """The document, or None."""
        ...

    def documents(self, query: Query) -> Iterable[Document]:
        """Documents in order of first insertion."""
        ...

    def count(self, query: Query) -> int:
        """How many documents match, whatever limit and offset say."""
        ...

    def agents(self, kinds: Iterable[str]) -> tuple[str, ...]:
        """Agents named by documents of these kinds, sorted."""
        ...

    def part(self, part_hash: str) -> bytes | None:
        """Stored content, not verified; empty when it was erased; None when it never was stored."""
        ...

    def labelled(self, agent: str, label: str) -> str | None:
        """Snapshot id behind a version's label."""
        ...

    def pointer(self, agent: str) -> Pointer | None:
        """What the agent serves."""
        ...

    def pointers(self) -> Iterable[Pointer]:
        """What every agent serves."""
        ...

    def events(self, after: int, limit: int | None) -> Iterable[tuple[int, Event]]:
        """Events with their sequence numbers, oldest first."""
        ...

    def audit(self, after: int, limit: int | None) -> Iterable[AuditRow]:
        """Links of the chain by `seq`."""
        ...

    def audit_head(self) -> tuple[int, str] | None:
        """`seq` and `hash` of the newest link."""
        ...


class WriteStore(ReadStore, Protocol):
    """One write; reads see what it wrote."""

    def put(self, document: Document) -> None:
        """Insert, or replace in place: the order of first insertion stays."""
        ...

    def put_part(self, part_hash: str, body: bytes) -> None:
        """Keep content; silent when it is there already, unless it was erased: then it is stored anew."""
        ...

    def erase_part(self, part_hash: str) -> None:
        """Drop the content and keep the hash."""
        ...

    def name_version(self, agent: str, label: str, snapshot_id: str) -> None:
        """Take a label for ever; the caller has checked that it is free."""
        ...

    def point(self, pointer: Pointer) -> None:
        """Replace the agent's pointer."""
        ...

    def append_event(self, event: Event) -> int:
        """Next sequence number, from 1 and without gaps."""
        ...

    def replace_event(self, seq: int, event: Event) -> None:
        """Put an event without its texts in the place of one; its time and agent stay."""
        ...

    def append_audit(self, row: AuditRow) -> None:
        """Add a link. Raises: Conflict when its `prev` or `seq` is taken."""
        ...

    def erase_audit_body(self, seq: int) -> None:
        """Drop the text of one link and keep the link."""
        ...


class Store(Protocol):
    """Where the ledger is kept."""

    def reading(self) -> AbstractContextManager[ReadStore]:
        """A snapshot that later commits do not change."""
        ...

    def writing(self) -> AbstractContextManager[WriteStore]:
        """The only writer of all processes; commits at the end, rolls back when the block raises."""
        ...

    def data_version(self) -> int:
        """Differs from the answer before exactly when something was committed in between."""
        ...

    def scrub(self) -> str:
        """Overwrite what deleted rows left behind; why not, or empty when that was done."""
        ...

    def close(self) -> None:
        """Release files and locks."""
        ...
