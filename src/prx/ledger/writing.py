"""The writing side of the ledger: every rule about what may change, the same over every store."""

from datetime import datetime
from typing import Any

import msgspec

from prx.domain.codec import encode
from prx.domain.errors import Conflict, IllegalTransition, InvalidInput, NotFound
from prx.domain.events import AuditRow, Breaker, Control, Event
from prx.domain.ids import Ids
from prx.domain.layers import Layer
from prx.domain.proposals import Proposal, ProposalState, check_transition
from prx.domain.versions import Part, Pointer, Version, VersionStatus, part_hash
from prx.ledger.audit import EMPTY, Head, next_link
from prx.ledger.binding import (
    BODY_ERASED,
    BOUND,
    LASTING,
    PART_ERASED,
    POINTER_MOVED,
    fingerprint,
    is_bound,
    name_of,
)
from prx.ledger.kinds import document
from prx.ledger.reading import StoredView
from prx.ledger.store import Document, WriteStore

ERASED_TEXT = "[erased]"
_FIXED = frozenset({"proposal_id", "agent", "layer", "created_at", "decision_id", "state_since"})


class StoredTransaction(StoredView):
    """A `Transaction` over one write of a store."""

    def __init__(self, store: WriteStore, *, now: datetime, actor: str, ids: Ids) -> None:
        super().__init__(store)
        self._writes: WriteStore | None = store
        self._now, self._actor, self._ids = now, actor, ids
        self._before: dict[str, Document | None] = {}
        self._after: dict[str, Document] = {}

    @property
    def _write(self) -> WriteStore:
        _ = self._read  # refuses after the end
        assert self._writes is not None
        return self._writes

    def bind(self) -> None:
        """Note the digest of every record that this transaction changed in the chain; its last step."""
        changed = {
            name: fingerprint(document)
            for name, document in sorted(self._after.items())
            if document != self._before[name]
        }
        self._before, self._after = {}, {}
        if changed:
            self.audit(BOUND, next(iter(changed)), {"records": changed})

    def end(self) -> None:
        """Refuse everything from now on."""
        super().end()
        self._writes = None

    @property
    def now(self) -> datetime:
        """The time given when the transaction was opened."""
        return self._now

    @property
    def actor(self) -> str:
        """Who acts."""
        return self._actor

    @property
    def ids(self) -> Ids:
        """Where new ids come from."""
        return self._ids

    def put(self, record: Any) -> None:
        """Insert or replace a record. Raises: IllegalTransition, Conflict, InvalidInput."""
        if isinstance(record, Version):
            self._put_version(record)
            return
        if isinstance(record, Proposal):
            self._refuse_another_state(record)
        if isinstance(record, Control | Breaker):
            self._audit_if_changed(record)
        self._keep(document(record, now=self._now))

    def put_part(self, part: Part) -> str:
        """Store content once; returns its hash."""
        name = part_hash(part)
        self._write.put_part(name, encode(part))
        return name

    def erase_part(self, part_hash: str) -> None:
        """Drop a part's content for good; its hash stays, and the erasure is a row of the audit chain."""
        self._write.erase_part(part_hash)
        self.audit(PART_ERASED, part_hash, {})

    def erase_event(self, seq: int) -> None:
        """Drop the texts of one event and keep that it happened. Raises: NotFound."""
        found = next(iter(self._read.events(seq - 1, 1)), None)
        if found is None or found[0] != seq:
            raise NotFound(f"there is no event {seq}")
        self._write.replace_event(seq, msgspec.structs.replace(found[1], summary=ERASED_TEXT, details={}))

    def erase_audit_body(self, seq: int) -> None:
        """Drop the text of one audit row; the chain still verifies, and the erasure is a row of it.

        Raises: InvalidInput for a row that proves what is stored, or that is not there.
        """
        row = next(iter(self._read.audit(seq - 1, 1)), None)
        if row is None or row.seq != seq or row.kind in LASTING:
            what = f"proves what is stored ({row.kind})" if row and row.seq == seq else "is not there"
            raise InvalidInput(f"audit row {seq} {what}; its text cannot be erased")
        self._write.erase_audit_body(seq)
        self.audit(BODY_ERASED, str(seq), {})

    def move(self, proposal: Proposal, to: ProposalState, *, why: str, **changes: Any) -> Proposal:
        """Take one legal step. Raises: IllegalTransition, Conflict, InvalidInput."""
        check_transition(proposal.state, to)
        if fixed := _FIXED & changes.keys():
            raise InvalidInput(
                f"a step cannot change {', '.join(sorted(fixed))} of proposal {proposal.proposal_id}"
            )
        stored = self.get(Proposal, proposal.proposal_id)
        if stored.state != proposal.state:
            raise Conflict(
                f"proposal {proposal.proposal_id} is {stored.state} by now, not {proposal.state}; "
                "read it again and decide again"
            )
        moved = msgspec.structs.replace(proposal, state=to, why=why, state_since=self._now, **changes)
        self._keep(document(moved, now=self._now))
        step = {"agent": moved.agent, "layer": moved.layer, "from": stored.state, "to": to, "why": why}
        self.audit("proposal.moved", moved.proposal_id, step)
        return moved

    def add_version(self, version: Version) -> None:
        """Append a version. Raises: Conflict, InvalidInput."""
        if self.maybe(Version, version.snapshot_id) is not None:
            raise Conflict(f"snapshot {version.snapshot_id} exists already; take a new id from `tx.ids`")
        if self._read.labelled(version.agent, version.label) is not None:
            raise Conflict(
                f"agent {version.agent!r} has a version {version.label} already; numbers are never reused, "
                "read the versions again and take the next label"
            )
        for layer in Layer:
            if not self._read.part(version.manifest.part(layer)):
                raise InvalidInput(
                    f"version {version.label} names a {layer.label} part that is not stored "
                    f"({version.manifest.part(layer)!r}); call `put_part` first"
                )
        self._keep(document(version, now=self._now))
        self._write.name_version(version.agent, version.label, version.snapshot_id)
        body = {
            "agent": version.agent,
            "label": version.label,
            "manifest": version.manifest,
            "source": version.source,
        }
        self.audit("version.added", version.snapshot_id, body)

    def point(self, agent: str, label: str, *, expected: int | None) -> Pointer:
        """Move what the agent serves. Raises: Conflict, NotFound."""
        version, current = self.version(agent, label), self.pointer(agent)
        if version.status == VersionStatus.SEALED:
            raise Conflict(
                f"version {label} of agent {agent!r} is sealed: it holds erased text; choose another"
            )
        found = None if current is None else current.revision
        if found != expected:
            raise Conflict(
                f"what agent {agent!r} serves was moved meanwhile (revision {found}, expected {expected}); "
                "read the pointer again and decide again"
            )
        pointer = Pointer(agent=agent, label=label, revision=(found or 0) + 1, since=self._now)
        self._write.point(pointer)
        self.audit(
            POINTER_MOVED,
            version.snapshot_id,
            {"agent": agent, "from": current and current.label, "to": label, "revision": pointer.revision},
        )
        return pointer

    def emit(self, event: Event) -> int:
        """Append an event; returns its sequence number."""
        return self._write.append_event(event)

    def audit(self, kind: str, subject: str, body: dict[str, Any]) -> AuditRow:
        """Append a link to the hash chain."""
        newest = self._read.audit_head()
        head = EMPTY if newest is None else Head(*newest)
        row = next_link(head, at=self._now, actor=self._actor, kind=kind, subject=subject, body=body)
        self._write.append_audit(row)
        return row

    def _keep(self, document: Document) -> None:
        if is_bound(document.kind):
            name = name_of(document)
            if name not in self._before:
                self._before[name] = self._read.document(document.kind, document.key)
            self._after[name] = document
        self._write.put(document)

    def _refuse_another_state(self, proposal: Proposal) -> None:
        stored = self.maybe(Proposal, proposal.proposal_id)
        before = ProposalState.PROPOSED if stored is None else stored.state
        if proposal.state != before:
            starts = f"is {before}" if stored else "starts as proposed"
            raise IllegalTransition(
                f"proposal {proposal.proposal_id} {starts}, `put` cannot make it {proposal.state}; use `move`"
            )

    def _put_version(self, version: Version) -> None:
        stored = self.maybe(Version, version.snapshot_id)
        if stored is None:
            self.add_version(version)
            return
        if msgspec.structs.replace(version, status=stored.status, note=stored.note) != stored:
            raise Conflict(
                f"version {stored.label} of agent {stored.agent!r} is history: only its status and note may "
                "change; add a new version instead"
            )
        if stored.status is VersionStatus.SEALED and version.status is not VersionStatus.SEALED:
            raise Conflict(f"version {stored.label} of agent {stored.agent!r} is sealed, and stays so")
        self._keep(document(version, now=self._now))
        if version.status != stored.status:
            change = {
                "agent": version.agent,
                "label": version.label,
                "from": stored.status,
                "to": version.status,
            }
            self.audit("version.status", version.snapshot_id, change)

    def _audit_if_changed(self, record: Control | Breaker) -> None:
        kind, key = (
            ("control", record.agent) if isinstance(record, Control) else ("breaker", record.breaker_id)
        )
        if self.maybe(type(record), key) != record:
            self.audit(f"{kind}.set", key, msgspec.to_builtins(record))
