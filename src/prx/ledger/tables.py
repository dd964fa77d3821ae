"""The ledger's tables read and written with SQL, the same over every SQL database."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from prx.domain.codec import decode, encode
from prx.domain.errors import Conflict, StoreError
from prx.domain.events import AuditRow, Event
from prx.domain.times import from_micros, to_micros
from prx.domain.versions import Pointer
from prx.ledger.checksum import checked, damaged, with_checksum
from prx.ledger.store import Document, Query

_TEXT = {str}


class Work(Protocol):
    """One open transaction of a database."""

    def rows(self, sql: str, given: Any = ...) -> list[tuple[Any, ...]]:
        """All rows of one statement."""
        ...

    def stream(self, sql: str, given: Any = ...) -> Iterator[tuple[Any, ...]]:
        """Rows one by one."""
        ...


class Tables(Protocol):
    """A database that holds the tables."""

    def reading(self) -> AbstractContextManager[Work]:
        """Reads that all show one moment."""
        ...

    def writing(self) -> AbstractContextManager[Work]:
        """The only writer of all processes."""
        ...

    def data_version(self) -> int:
        """Changes with every commit."""
        ...

    def scrub(self) -> str:
        """Overwrite what deleted rows left behind."""
        ...

    def close(self) -> None:
        """Release what is open."""
        ...


@dataclass(frozen=True, slots=True)
class Dialect:
    """What differs between databases.

    `sql`: statements by name. `everything`: the LIMIT for no limit. `refused`: raised when the tables' own
    rules refuse a row. `texts_as_json`: a list of texts is given as one JSON text, else as a list.
    """

    sql: Mapping[str, str]
    everything: int | None
    refused: type[StoreError]
    texts_as_json: bool

    def texts(self, given: Iterable[str]) -> Any:
        """A list of texts as a statement takes it."""
        return encode(list(given)).decode() if self.texts_as_json else list(given)

    def limit(self, limit: int | None) -> int | None:
        """A limit as a statement takes it."""
        return self.everything if limit is None else limit


class TableRead:
    """A `ReadStore` over one transaction."""

    def __init__(self, work: Work, dialect: Dialect) -> None:
        self._work, self._dialect = work, dialect

    def _rows(self, name: str, /, **given: Any) -> list[tuple[Any, ...]]:
        return self._work.rows(self._dialect.sql[name], given)

    def document(self, kind: str, key: str) -> Document | None:
        """The document, or None."""
        found = self._rows("document", kind=kind, key=key)
        return _document(found[0]) if found else None

    def documents(self, query: Query) -> Iterable[Document]:
        """Documents in order of first insertion."""
        order = "newest_first" if query.newest_first else "oldest_first"
        page = {"limit": self._dialect.limit(query.limit), "offset": query.offset}
        sql, given = self._filtered("documents", query)
        found = self._work.rows(f"{sql} {self._dialect.sql[order]}", given | page)
        return [_document(row) for row in found]

    def count(self, query: Query) -> int:
        """How many documents match."""
        return int(self._work.rows(*self._filtered("count", query))[0][0])

    def agents(self, kinds: Iterable[str]) -> tuple[str, ...]:
        """Agents named by documents of these kinds, sorted."""
        return tuple(agent for (agent,) in self._rows("agents", kinds=self._dialect.texts(kinds)))

    def part(self, part_hash: str) -> bytes | None:
        """Stored content, not verified."""
        found = self._rows("part", hash=part_hash)
        if found and not isinstance(found[0][0], bytes):
            raise damaged(f"part {part_hash}")
        return found[0][0] if found else None

    def labelled(self, agent: str, label: str) -> str | None:
        """Snapshot id behind a version's label."""
        found = self._rows("labelled", agent=agent, label=label)
        return str(found[0][0]) if found else None

    def pointer(self, agent: str) -> Pointer | None:
        """What the agent serves."""
        found = self._rows("pointer", agent=agent)
        return _pointer(found[0]) if found else None

    def pointers(self) -> Iterable[Pointer]:
        """What every agent serves."""
        return [_pointer(row) for row in self._rows("pointers")]

    def events(self, after: int, limit: int | None) -> Iterable[tuple[int, Event]]:
        """Events with their sequence numbers, oldest first."""
        for row in self._rows("events", after=after, limit=self._dialect.limit(limit)):
            seq, _, _, body = checked(row, f"event {row[0]}")
            yield seq, decode(body, Event)

    def audit(self, after: int, limit: int | None) -> Iterable[AuditRow]:
        """Links of the chain by `seq`."""
        given = {"after": after, "limit": self._dialect.limit(limit)}
        yield from (_audit_row(row) for row in self._work.stream(self._dialect.sql["audit"], given))

    def audit_head(self) -> tuple[int, str] | None:
        """`seq` and `hash` of the newest link."""
        found = self._rows("audit_head")
        if not found:
            return None
        seq, link = found[0]
        if not isinstance(link, str):
            raise damaged(f"audit row {seq}")
        return seq, link

    def _filtered(self, base: str, query: Query) -> tuple[str, dict[str, Any]]:
        states = None if query.states is None else self._dialect.texts(query.states)
        wanted = {
            "agent": query.agent,
            "layer": query.layer,
            "states": states,
            "since": query.since,
            "until": query.until,
        }
        given = {name: value for name, value in wanted.items() if value is not None}
        sql = self._dialect.sql
        return " ".join([sql[base], *(sql[f"with_{name}"] for name in given)]), {"kind": query.kind, **given}


class TableWrite(TableRead):
    """A `WriteStore` over one transaction."""

    def put(self, document: Document) -> None:
        """Insert, or replace in place."""
        body = document.body.decode()
        row = (document.kind, document.key, document.agent, document.layer, document.state, document.at, body)
        self._work.rows(self._dialect.sql["put"], with_checksum(row))

    def put_part(self, part_hash: str, body: bytes) -> None:
        """Keep content."""
        self._rows("put_part", hash=part_hash, body=body)

    def erase_part(self, part_hash: str) -> None:
        """Drop the content and keep the hash."""
        self._rows("erase_part", hash=part_hash)

    def name_version(self, agent: str, label: str, snapshot_id: str) -> None:
        """Take a label for ever."""
        self._rows("name_version", agent=agent, label=label, snapshot_id=snapshot_id)

    def point(self, pointer: Pointer) -> None:
        """Replace the agent's pointer."""
        row = (pointer.agent, pointer.label, pointer.revision, to_micros(pointer.since))
        self._work.rows(self._dialect.sql["point"], with_checksum(row))

    def append_event(self, event: Event) -> int:
        """Next sequence number."""
        seq = int(self._rows("next_event")[0][0])
        row = (seq, event.agent, to_micros(event.at), encode(event).decode())
        self._work.rows(self._dialect.sql["append_event"], with_checksum(row))
        return seq

    def replace_event(self, seq: int, event: Event) -> None:
        """Put an event without its texts in the place of one."""
        row = with_checksum((seq, event.agent, to_micros(event.at), encode(event).decode()))
        self._rows("replace_event", seq=seq, body=row[3], checksum=row[4])

    def append_audit(self, row: AuditRow) -> None:
        """Add a link. Raises: Conflict."""
        try:
            self._rows(
                "append_audit",
                seq=row.seq,
                prev=row.prev,
                hash=row.hash,
                at=to_micros(row.at),
                actor=row.actor,
                kind=row.kind,
                subject=row.subject,
                body_hash=row.body_hash,
            )
        except self._dialect.refused as error:
            raise Conflict(
                f"audit row {row.seq} was written by someone else first; run the transaction again"
            ) from error
        self._rows("append_audit_body", seq=row.seq, body=row.body)

    def erase_audit_body(self, seq: int) -> None:
        """Drop the text of one link and keep the link."""
        self._rows("erase_audit_body", seq=seq)


class TableStore:
    """A `Store` over a database with the ledger's tables."""

    def __init__(self, database: Tables, dialect: Dialect) -> None:
        self._database, self._dialect = database, dialect

    @contextmanager
    def reading(self) -> Iterator[TableRead]:
        """A snapshot that later commits do not change."""
        with self._database.reading() as work:
            yield TableRead(work, self._dialect)

    @contextmanager
    def writing(self) -> Iterator[TableWrite]:
        """The only writer of all processes."""
        with self._database.writing() as work:
            yield TableWrite(work, self._dialect)

    def data_version(self) -> int:
        """Changes with every commit, of whichever process."""
        return self._database.data_version()

    def scrub(self) -> str:
        """Overwrite what deleted rows left behind; why not, or empty when that was done."""
        return self._database.scrub()

    def close(self) -> None:
        """Release what is open."""
        self._database.close()


def _document(row: tuple[Any, ...]) -> Document:
    kind, key, agent, layer, state, at, body = checked(row, f"{row[0]} {row[1]!r}")
    return Document(kind=kind, key=key, agent=agent, layer=layer, state=state, at=at, body=body.encode())


def _pointer(row: tuple[Any, ...]) -> Pointer:
    agent, label, revision, since = checked(row, f"the pointer of agent {row[0]!r}")
    return Pointer(agent=agent, label=label, revision=revision, since=from_micros(since))


def _audit_row(row: tuple[Any, ...]) -> AuditRow:
    """The link as stored, true or not (`verify_chain` tells). Raises: StoreError when it cannot be read."""
    seq, prev, link, at, actor, kind, subject, body_hash, body = row
    kinds = {
        type(prev),
        type(link),
        type(actor),
        type(kind),
        type(subject),
        type(body_hash),
        type(body or ""),
    }
    if type(at) is not int or kinds != _TEXT:
        raise damaged(f"audit row {seq}")
    try:
        when = from_micros(at)
    except OverflowError as error:
        raise damaged(f"audit row {seq}") from error
    return AuditRow(
        seq=seq,
        prev=prev,
        hash=link,
        at=when,
        actor=actor,
        kind=kind,
        subject=subject,
        body_hash=body_hash,
        body=body,
    )
