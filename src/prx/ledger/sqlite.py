"""The ledger in one SQLite file, for any number of processes on one machine."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from prx.domain.codec import decode, encode
from prx.domain.errors import Conflict
from prx.domain.events import AuditRow, Event
from prx.domain.ids import Ids
from prx.domain.times import from_micros, to_micros
from prx.domain.versions import Pointer
from prx.ledger.checksum import checked, damaged, with_checksum
from prx.ledger.ledger import StoredLedger
from prx.ledger.store import Document, Query
from prx.sqlite import Database, Schema, Work, read_statements
from prx.sqlite.database import BUSY_SECONDS
from prx.sqlite.failures import StoreRefused

_SQL = read_statements("prx.ledger", "statements.sql")
SCHEMA = Schema(
    name="ledger",
    application_id=0x5052584C,  # "PRXL"
    migrations=(tuple(read_statements("prx.ledger", "schema_1.sql").values()),),
)
_EVERYTHING = -1  # SQLite's LIMIT for no limit


class _Read:
    def __init__(self, work: Work) -> None:
        self._work = work

    def _rows(self, name: str, /, **given: Any) -> list[tuple[Any, ...]]:
        return self._work.rows(_SQL[name], given)

    def document(self, kind: str, key: str) -> Document | None:
        found = self._rows("document", kind=kind, key=key)
        return _document(found[0]) if found else None

    def documents(self, query: Query) -> Iterable[Document]:
        order = "newest_first" if query.newest_first else "oldest_first"
        page = {"limit": _limit(query.limit), "offset": query.offset}
        sql, given = _filtered("documents", query)
        return [_document(row) for row in self._work.rows(f"{sql} {_SQL[order]}", given | page)]

    def count(self, query: Query) -> int:
        return int(self._work.rows(*_filtered("count", query))[0][0])

    def agents(self, kinds: Iterable[str]) -> tuple[str, ...]:
        return tuple(agent for (agent,) in self._rows("agents", kinds=encode(list(kinds)).decode()))

    def part(self, part_hash: str) -> bytes | None:
        found = self._rows("part", hash=part_hash)
        if found and not isinstance(found[0][0], bytes):
            raise damaged(f"part {part_hash}")
        return found[0][0] if found else None

    def labelled(self, agent: str, label: str) -> str | None:
        found = self._rows("labelled", agent=agent, label=label)
        return str(found[0][0]) if found else None

    def pointer(self, agent: str) -> Pointer | None:
        found = self._rows("pointer", agent=agent)
        if not found:
            return None
        named, label, revision, since = checked(found[0], f"the pointer of agent {agent!r}")
        return Pointer(agent=named, label=label, revision=revision, since=from_micros(since))

    def events(self, after: int, limit: int | None) -> Iterable[tuple[int, Event]]:
        found = self._rows("events", after=after, limit=_limit(limit))
        for row in found:
            seq, _, _, body = checked(row, f"event {row[0]}")
            yield seq, decode(body, Event)

    def audit(self, after: int, limit: int | None) -> Iterable[AuditRow]:
        given = {"after": after, "limit": _limit(limit)}
        yield from (_audit_row(row) for row in self._work.stream(_SQL["audit"], given))

    def audit_head(self) -> tuple[int, str] | None:
        found = self._rows("audit_head")
        if not found:
            return None
        seq, link = found[0]
        if not isinstance(link, str):
            raise damaged(f"audit row {seq}")
        return seq, link


class _Write(_Read):
    def put(self, document: Document) -> None:
        body = document.body.decode()
        row = (document.kind, document.key, document.agent, document.layer, document.state, document.at, body)
        self._work.rows(_SQL["put"], with_checksum(row))

    def put_part(self, part_hash: str, body: bytes) -> None:
        self._rows("put_part", hash=part_hash, body=body)

    def erase_part(self, part_hash: str) -> None:
        self._rows("erase_part", hash=part_hash)

    def name_version(self, agent: str, label: str, snapshot_id: str) -> None:
        self._rows("name_version", agent=agent, label=label, snapshot_id=snapshot_id)

    def point(self, pointer: Pointer) -> None:
        row = (pointer.agent, pointer.label, pointer.revision, to_micros(pointer.since))
        self._work.rows(_SQL["point"], with_checksum(row))

    def append_event(self, event: Event) -> int:
        seq = int(self._rows("next_event")[0][0])
        row = (seq, event.agent, to_micros(event.at), encode(event).decode())
        self._work.rows(_SQL["append_event"], with_checksum(row))
        return seq

    def append_audit(self, row: AuditRow) -> None:
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
        except StoreRefused as error:
            raise Conflict(
                f"audit row {row.seq} was written by someone else first; run the transaction again"
            ) from error
        self._rows("append_audit_body", seq=row.seq, body=row.body)

    def erase_audit_body(self, seq: int) -> None:
        self._rows("erase_audit_body", seq=seq)


class SqliteStore:
    """A `Store` in one SQLite file: write-ahead log, one writer at a time, synced at every commit."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @contextmanager
    def reading(self) -> Iterator[_Read]:
        """A snapshot that later commits do not change."""
        with self._database.reading() as work:
            yield _Read(work)

    @contextmanager
    def writing(self) -> Iterator[_Write]:
        """The only writer of all processes."""
        with self._database.writing() as work:
            yield _Write(work)

    def data_version(self) -> int:
        """Changes with every commit, of whichever process."""
        return self._database.data_version()

    def close(self) -> None:
        """Close the file."""
        self._database.close()


def open_sqlite(
    path: Path | str,
    ids: Ids,
    *,
    full_sync: bool = True,
    busy_seconds: float = BUSY_SECONDS,
    sqlite_version: str | None = None,
) -> StoredLedger:
    """The ledger in the file at `path`, created or migrated where needed.

    Args: `full_sync`: False gives up durability against power loss, for simulations only.
        `busy_seconds`: longest wait for another writer. `sqlite_version`: what the library says of
        itself, for tests. Raises: StoreError, StoreTooNew.
    """
    database = Database(
        path, SCHEMA, full_sync=full_sync, busy_seconds=busy_seconds, sqlite_version=sqlite_version
    )
    return StoredLedger(SqliteStore(database), ids)


def _filtered(base: str, query: Query) -> tuple[str, dict[str, Any]]:
    states = None if query.states is None else encode(query.states).decode()
    wanted = {
        "agent": query.agent,
        "layer": query.layer,
        "states": states,
        "since": query.since,
        "until": query.until,
    }
    given = {name: value for name, value in wanted.items() if value is not None}
    sql = " ".join([_SQL[base], *(_SQL[f"with_{name}"] for name in given)])
    return sql, {"kind": query.kind, **given}


def _document(row: tuple[Any, ...]) -> Document:
    kind, key, agent, layer, state, at, body = checked(row, f"{row[0]} {row[1]!r}")
    return Document(kind=kind, key=key, agent=agent, layer=layer, state=state, at=at, body=body.encode())


def _audit_row(row: tuple[Any, ...]) -> AuditRow:
    """The link as stored, true or not (`verify_chain` tells). Raises: StoreError when it cannot be read."""
    seq, prev, link, at, actor, kind, subject, body_hash, body = row
    if not isinstance(at, int) or not all(
        isinstance(text, str) for text in (prev, link, actor, kind, subject, body_hash, body or "")
    ):
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


def _limit(limit: int | None) -> int:
    return _EVERYTHING if limit is None else limit
