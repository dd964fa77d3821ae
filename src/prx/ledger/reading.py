"""The reading side of the ledger, the same over every store."""

import hashlib
from collections.abc import Iterable
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from prx.domain.answers import Failed
from prx.domain.codec import decode
from prx.domain.errors import NotFound, StoreError, StoreTooNew
from prx.domain.events import AuditRow, Control, Event
from prx.domain.findings import Finding
from prx.domain.layers import Layer
from prx.domain.times import to_micros
from prx.domain.versions import SNAPSHOT_SCHEMA, Part, Pointer, Version
from prx.ledger.binding import Told, differing
from prx.ledger.checksum import damaged
from prx.ledger.kinds import KINDS, filing
from prx.ledger.store import Query, ReadStore

T = TypeVar("T")
_PARTS = msgspec.json.Decoder(Part)


class StoredView:
    """A `View` over one read of a store; refuses to answer once its block has ended."""

    def __init__(self, store: ReadStore) -> None:
        self._reads: ReadStore | None = store

    @property
    def _read(self) -> ReadStore:
        if self._reads is None:
            raise StoreError(
                "this view or transaction has ended; open another with `ledger.view()` and read there"
            )
        return self._reads

    def end(self) -> None:
        """Refuse everything from now on."""
        self._reads = None

    def get(self, kind: type[T], key: str) -> T:
        """The record. Raises: NotFound."""
        found = self.maybe(kind, key)
        if found is None:
            how = filing(kind)
            raise NotFound(f"no {how.name} is called {key!r}; `{how.listing}` lists what there is")
        return found

    def maybe(self, kind: type[T], key: str) -> T | None:
        """The record, or None."""
        found = self._read.document(filing(kind).name, key)
        return None if found is None else decode(found.body, kind)

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
        """Records in order of first insertion."""
        query = Query(
            kind=filing(kind).name,
            agent=agent,
            layer=None if layer is None else str(layer),
            states=_states(state),
            since=None if since is None else to_micros(since),
            until=None if until is None else to_micros(until),
            newest_first=newest_first,
            limit=limit,
            offset=offset,
        )
        return tuple(decode(found.body, kind) for found in self._read.documents(query))

    def count(self, kind: type[Any], *, agent: str | None = None, layer: Layer | None = None) -> int:
        """How many records of the kind there are."""
        wanted = Query(kind=filing(kind).name, agent=agent, layer=None if layer is None else str(layer))
        return self._read.count(wanted)

    def part(self, part_hash: str) -> Part:
        """Content by hash, verified. Raises: NotFound, StoreError."""
        body = self._read.part(part_hash)
        if not body:
            gone = "was erased" if body is not None else "is not stored"
            raise NotFound(
                f"part {part_hash} {gone}; `prx evolution versions list` shows what can be restored"
            )
        if f"sha256:{hashlib.sha256(body).hexdigest()}" != part_hash:
            raise damaged(f"part {part_hash}")
        try:
            return _PARTS.decode(body)
        except msgspec.DecodeError as error:
            raise _too_new(f"part {part_hash} is whole, and of a kind not known here ({error})") from error

    def version(self, agent: str, label: str) -> Version:
        """Version by label. Raises: NotFound."""
        snapshot_id = self._read.labelled(agent, label)
        if snapshot_id is None:
            raise NotFound(
                f"agent {agent!r} has no version {label!r}; `prx evolution versions list` lists what there is"
            )
        found = self.maybe(Version, snapshot_id)
        if found is None or (found.agent, found.label) != (agent, label):
            raise damaged(f"the label {label} of agent {agent!r}")
        if found.schema > SNAPSHOT_SCHEMA:
            raise _too_new(f"version {label} of agent {agent!r} is a snapshot of schema {found.schema}")
        return found

    def pointer(self, agent: str) -> Pointer | None:
        """What the agent serves, or None."""
        return self._read.pointer(agent)

    def agents(self) -> tuple[str, ...]:
        """Every agent that has a version, a finding or a control record, sorted."""
        return self._read.agents(filing(kind).name for kind in (Version, Finding, Control))

    def events(self, *, after: int = 0, limit: int | None = None) -> tuple[tuple[int, Event], ...]:
        """Events with their sequence numbers, oldest first."""
        return tuple(self._read.events(after, limit))

    def audit_rows(self, *, after: int = 0, limit: int | None = None) -> tuple[AuditRow, ...]:
        """Links of the audit chain, oldest first."""
        return tuple(self._read.audit(after, limit))

    def differing(self, told: Told) -> Failed | None:
        """The first record, pointer or part that is not as the audit chain says, or None."""
        return differing(self._read, told, (filing(kind).name for kind in KINDS))


def _too_new(what: str) -> StoreTooNew:
    return StoreTooNew(
        f"{what}; this PRX Evolution reads snapshots up to schema {SNAPSHOT_SCHEMA}; nothing was changed; "
        "use the newer release: pip install --upgrade prx-evolution"
    )


def _states(state: str | Iterable[str] | None) -> tuple[str, ...] | None:
    if state is None:
        return None
    return (str(state),) if isinstance(state, str) else tuple(str(one) for one in state)
