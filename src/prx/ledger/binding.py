"""What the audit chain says of the stored records, and whether the store still holds just that.

A chain alone shows that its own rows are whole. The digest of every record in it shows that the records are.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec

from prx.domain.answers import Failed
from prx.domain.codec import decode, encode
from prx.domain.errors import StoreError
from prx.domain.events import AuditRow
from prx.domain.layers import Layer
from prx.domain.versions import Version
from prx.ledger.audit import digest
from prx.ledger.store import Document, Query, ReadStore

BOUND = "records.bound"
POINTER_MOVED = "pointer.moved"
PART_ERASED = "part.erased"
BODY_ERASED = "audit.body_erased"
LASTING = frozenset({BOUND, POINTER_MOVED, PART_ERASED, BODY_ERASED})
"""Kinds of rows whose text proves something and names no user: it is never erased."""
_VERSION = "version"
# rewritten with every run of the engine, and no user is served by what they say
_NOT_BOUND = frozenset({"due", "spending"})


def is_bound(kind: str) -> bool:
    """Whether the chain holds a digest of every record of this kind."""
    return kind not in _NOT_BOUND


def name_of(document: Document) -> str:
    """How a record is called in the chain."""
    return f"{document.kind}/{document.key}"


def fingerprint(document: Document) -> str:
    """SHA-256 over everything that is stored of a record, in hex."""
    fields = (document.kind, document.key, document.agent, document.layer, document.state, document.at)
    return digest(encode([*fields, document.body.decode()]).decode())


class _Bound(msgspec.Struct, frozen=True):
    records: dict[str, str]


class _Moved(msgspec.Struct, frozen=True):
    agent: str
    to: str
    revision: int


@dataclass(slots=True)
class Told:
    """What the rows read so far say is stored: digests by name of record, label and revision by agent."""

    records: dict[str, str] = field(default_factory=dict)
    pointers: dict[str, tuple[str, int]] = field(default_factory=dict)
    erased_parts: set[str] = field(default_factory=set)
    bodiless: dict[int, str] = field(default_factory=dict)
    erased_bodies: set[int] = field(default_factory=set)

    def follow(self, rows: Iterable[AuditRow]) -> Iterator[AuditRow]:
        """The same rows, each noted as it passes."""
        for row in rows:
            # a row that was tampered with may say anything; `verify_chain` names it
            with suppress(StoreError, ValueError):
                self._note(row)
            yield row

    def _note(self, row: AuditRow) -> None:
        if row.body is None:
            self.bodiless[row.seq] = row.kind
        elif row.kind == BOUND:
            self.records |= decode(row.body, _Bound).records
        elif row.kind == POINTER_MOVED:
            moved = decode(row.body, _Moved)
            self.pointers[moved.agent] = (moved.to, moved.revision)
        elif row.kind == PART_ERASED:
            self.erased_parts.add(row.subject)
        elif row.kind == BODY_ERASED:
            self.erased_bodies.add(int(row.subject))


def differing(store: ReadStore, told: Told, kinds: Iterable[str]) -> Failed | None:
    """The first thing in the store that is not as the chain says, or None. Reads all of it.

    Codes: audit_body_missing, record_changed, record_inserted, record_deleted, pointer_changed,
    label_changed, part_changed.
    """
    return (
        _bodies(told)
        or _records(store, told.records, kinds)
        or _pointers(store, told.pointers)
        or _versions(store, told)
    )


def _bodies(told: Told) -> Failed | None:
    for seq, kind in told.bodiless.items():
        if seq not in told.erased_bodies or kind in LASTING:
            why = f"audit row {seq} ({kind}) has no text, and no row says that it was erased"
            return Failed(why, "audit_body_missing")
    return None


def _records(store: ReadStore, told: Mapping[str, str], kinds: Iterable[str]) -> Failed | None:
    seen = set[str]()
    for kind in filter(is_bound, kinds):
        for document in store.documents(Query(kind=kind)):
            name = name_of(document)
            seen.add(name)
            if name not in told:
                why = f"{name} is stored, and no row of the audit log made it: it was inserted"
                return Failed(why, "record_inserted")
            if fingerprint(document) != told[name]:
                why = f"{name} is not what the audit log says was written: it was changed"
                return Failed(why, "record_changed")
    if missing := told.keys() - seen:
        return Failed(f"{min(missing)} is in the audit log and not stored: it was deleted", "record_deleted")
    return None


def _pointers(store: ReadStore, told: Mapping[str, tuple[str, int]]) -> Failed | None:
    found = {pointer.agent: (pointer.label, pointer.revision) for pointer in store.pointers()}
    for agent in sorted(found.keys() | told.keys()):
        if found.get(agent) != told.get(agent):
            serves, meant = found.get(agent, ("nothing", 0))[0], told.get(agent, ("nothing", 0))[0]
            why = f"agent {agent!r} serves {serves} and the audit log says {meant}: the pointer was changed"
            return Failed(why, "pointer_changed")
    return None


def _versions(store: ReadStore, told: Told) -> Failed | None:
    sound = set[str]()
    for document in store.documents(Query(kind=_VERSION)):
        version = decode(document.body, Version)
        if store.labelled(version.agent, version.label) != version.snapshot_id:
            why = f"label {version.label} of agent {version.agent!r} does not name {version.snapshot_id}"
            return Failed(f"{why} any more: it was changed", "label_changed")
        for layer in Layer:
            part = version.manifest.part(layer)
            if part not in sound and (failed := _part(store, part, told.erased_parts)):
                return failed
            sound.add(part)
    return None


def _part(store: ReadStore, part: str, erased: set[str]) -> Failed | None:
    body = store.part(part)
    if not body:
        if part in erased:
            return None
        return Failed(f"part {part} is gone, and no row says that it was erased", "part_changed")
    if f"sha256:{digest(body.decode(errors='replace'))}" != part:
        return Failed(f"part {part} is not what its hash says: it was changed", "part_changed")
    return None
