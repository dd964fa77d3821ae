"""The control plane: what may be read, and what one transaction may do."""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, Protocol, TypeVar

from prx.domain.answers import Failed
from prx.domain.events import AuditRow, Event
from prx.domain.ids import Ids
from prx.domain.layers import Layer
from prx.domain.proposals import Proposal, ProposalState
from prx.domain.versions import Part, Pointer, Version
from prx.ledger.binding import Told

T = TypeVar("T")


class View(Protocol):
    """Consistent read of the control plane.

    `kind` is one of Finding, Proposal, Experiment, Decision, Version, Incident, Due, Breaker, Control,
    Baseline (the `KINDS` of this package); the key is the record's own id field (Version: snapshot_id,
    Control: agent). Writing audits by itself: a step of a proposal, a new version, a version's status,
    a moved pointer, a changed Control or Breaker; and, at the end of a transaction, the digests of all
    records that it changed (bookkeeping of due times and spending excepted).
    """

    def get(self, kind: type[T], key: str) -> T:
        """The record. Raises: NotFound with the id and the command that lists what exists."""
        ...

    def maybe(self, kind: type[T], key: str) -> T | None:
        """The record, or None."""
        ...

    def find(
        self,
        kind: type[T],
        *,
        agent: str | None = None,
        layer: Layer | None = None,
        state: str | Iterable[str] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        newest_first: bool = False,
        limit: int | None = None,
        offset: int = 0,
    ) -> tuple[T, ...]:
        """Records in order of creation. `state` is Proposal.state, Experiment.status, Version.status,
        Decision.verdict, Breaker.state, Due.job, Finding.kind, Incident.detector; `since`/`until` bound the
        creation time (half-open); for a Due they bound the time at which it is due, so a bound just above
        now gives what is due."""
        ...

    def count(self, kind: type[T], *, agent: str | None = None, layer: Layer | None = None) -> int:
        """How many records of the kind there are."""
        ...

    def part(self, part_hash: str) -> Part:
        """Content by hash, verified. Raises: NotFound; StoreError when the stored bytes are damaged."""
        ...

    def version(self, agent: str, label: str) -> Version:
        """Version by label. Raises: NotFound."""
        ...

    def pointer(self, agent: str) -> Pointer | None:
        """What the agent serves, or None before its first version."""
        ...

    def agents(self) -> tuple[str, ...]:
        """Every agent that has a version, a finding or a control record."""
        ...

    def events(self, *, after: int = 0, limit: int | None = None) -> tuple[tuple[int, Event], ...]:
        """Events with their sequence numbers, oldest first."""
        ...

    def audit_rows(self, *, after: int = 0, limit: int | None = None) -> tuple[AuditRow, ...]:
        """Links of the audit chain, oldest first."""
        ...

    def differing(self, told: Told) -> Failed | None:
        """The first record, pointer or part that is not as the audit chain says, or None. `told`: what the
        whole chain says."""
        ...


class Transaction(View, Protocol):
    """All or nothing; sees its own writes. Every verb may raise StoreError; nothing is then written."""

    @property
    def now(self) -> datetime:
        """The time given when the transaction was opened."""
        ...

    @property
    def actor(self) -> str:
        """Who acts: `engine`, or `person:NAME`."""
        ...

    @property
    def ids(self) -> Ids:
        """Where new ids come from."""
        ...

    def put(self, record: Any) -> None:
        """Insert or replace a record of one of the kinds.

        A new Proposal starts as proposed, and a Proposal's state may not change here: IllegalTransition.
        A new Version is appended as by `add_version`; of a stored one only status and note may change:
        Conflict.
        """
        ...

    def put_part(self, part: Part) -> str:
        """Store content once; returns its hash."""
        ...

    def erase_part(self, part_hash: str) -> None:
        """Drop a part's content for good and keep its hash; audited. `part` then raises NotFound."""
        ...

    def erase_event(self, seq: int) -> None:
        """Drop the texts of one event and keep that it happened. Raises: NotFound."""
        ...

    def erase_audit_body(self, seq: int) -> None:
        """Drop the text of one audit row and keep the link; audited. Raises: InvalidInput for a row that
        proves what is stored."""
        ...

    def move(self, proposal: Proposal, to: ProposalState, *, why: str, **changes: Any) -> Proposal:
        """Take one legal step: stores the proposal with its new state and `changes`, and an audit row.

        Raises: IllegalTransition; Conflict when the stored proposal is no longer in `proposal.state`.
        """
        ...

    def add_version(self, version: Version) -> None:
        """Append a version. Raises: Conflict when the agent's label or the snapshot id exists; InvalidInput
        when a part that its manifest names is not stored."""
        ...

    def point(self, agent: str, label: str, *, expected: int | None) -> Pointer:
        """Move what the agent serves. `expected` is the pointer's revision as read (None: no pointer yet).

        Raises: Conflict when someone moved it first or the version is sealed; NotFound when there is
        no such version.
        """
        ...

    def emit(self, event: Event) -> int:
        """Append an event; returns its sequence number."""
        ...

    def audit(self, kind: str, subject: str, body: dict[str, Any]) -> AuditRow:
        """Append a link to the hash chain."""
        ...


class Ledger(Protocol):
    """The control plane of all agents in one store."""

    def view(self) -> AbstractContextManager[View]:
        """One consistent read."""
        ...

    def transaction(self, *, now: datetime, actor: str) -> AbstractContextManager[Transaction]:
        """One write; commits when the block ends, rolls back when it raises."""
        ...

    def data_version(self) -> int:
        """Differs from the answer before exactly when something was committed in between, by whichever
        process; takes microseconds, so it can be asked at every request."""
        ...

    def scrub(self) -> str:
        """Overwrite what deleted and replaced rows left in the files; why not, or empty when done."""
        ...

    def close(self) -> None:
        """Release files and locks."""
        ...
