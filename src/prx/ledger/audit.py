"""The audit chain: how a link is hashed, and how tampering is found."""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from prx.domain.answers import Failed, Passed
from prx.domain.codec import encode
from prx.domain.events import AuditRow
from prx.domain.times import to_micros

GENESIS = "0" * 64
_TAG = b"prx.audit.v1"
_TAG_WITH_LENGTH = len(_TAG).to_bytes(8) + _TAG
_SHORT = 256
_LENGTHS = tuple(size.to_bytes(8) for size in range(_SHORT))


@dataclass(frozen=True, slots=True)
class Head:
    """Newest link of a chain as known from outside it; the empty chain has `Head(0, GENESIS)`."""

    seq: int
    hash: str


EMPTY = Head(0, GENESIS)


def digest(text: str) -> str:
    """SHA-256 of a body's exact text, in hex."""
    return hashlib.sha256(text.encode()).hexdigest()


def link_hash(*, prev: str, seq: int, kind: str, actor: str, at_us: int, subject: str, body_hash: str) -> str:
    """SHA-256 in hex over the domain tag and every field, each preceded by its length in 8 bytes.

    Lengths make the encoding injective: no two different links share one input.
    """
    pieces = [_TAG_WITH_LENGTH]
    for field in (prev, str(seq), kind, actor, str(at_us), subject, body_hash):
        raw = field.encode()
        size = len(raw)
        pieces.append(_LENGTHS[size] if size < _SHORT else size.to_bytes(8))
        pieces.append(raw)
    return hashlib.sha256(b"".join(pieces)).hexdigest()


def next_link(
    head: Head, *, at: datetime, actor: str, kind: str, subject: str, body: dict[str, Any]
) -> AuditRow:
    """The row that follows `head`."""
    text = encode(body).decode()
    seq, body_hash = head.seq + 1, digest(text)
    return AuditRow(
        seq=seq,
        prev=head.hash,
        hash=link_hash(
            prev=head.hash,
            seq=seq,
            kind=kind,
            actor=actor,
            at_us=to_micros(at),
            subject=subject,
            body_hash=body_hash,
        ),
        at=at,
        actor=actor,
        kind=kind,
        subject=subject,
        body_hash=body_hash,
        body=text,
    )


def verify_chain(
    rows: Iterable[AuditRow], *, head: Head | None = None, after: Head = EMPTY
) -> Passed | Failed:
    """Whether the rows are the whole, unchanged chain that follows `after` and ends in `head`.

    Args: `rows`: in stored order. `head`: the newest link as noted outside the store; without it a cut
        or rewritten end cannot be seen. `after`: the link before the first row.
    Returns: Failed names the first bad row; codes: audit_edited, audit_deleted, audit_inserted,
        audit_reordered, audit_forked, audit_truncated, audit_rewritten.
    """
    last, used, stream = after, {after.hash: after.seq}, iter(rows)
    for row in stream:
        if row.seq != last.seq + 1 or row.prev != last.hash:
            return _broken_link(row, last, used, stream)
        if not _recomputes(row):
            return Failed(_named(row, "does not match its hash: it was edited"), "audit_edited")
        if head is not None and row.seq == head.seq and row.hash != head.hash:
            return Failed(
                _named(row, f"is not the one noted outside ({head.hash[:12]}): the chain was rewritten"),
                "audit_rewritten",
            )
        last = Head(row.seq, row.hash)
        used[row.hash] = row.seq
    if head is not None and last.seq < head.seq:
        why = (
            f"the chain ends at row {last.seq}, the head noted outside is row {head.seq}: the end was cut off"
        )
        return Failed(why, "audit_truncated")
    return Passed(f"{last.seq - after.seq} rows, head {last.seq} {last.hash[:12]}")


def _recomputes(row: AuditRow) -> bool:
    if row.body is not None and digest(row.body) != row.body_hash:
        return False
    return row.hash == link_hash(
        prev=row.prev,
        seq=row.seq,
        kind=row.kind,
        actor=row.actor,
        at_us=to_micros(row.at),
        subject=row.subject,
        body_hash=row.body_hash,
    )


def _broken_link(row: AuditRow, last: Head, used: dict[str, int], rest: Iterator[AuditRow]) -> Failed:
    """Names what happened where the chain first breaks, from what follows the break."""
    following = list(rest)
    if row.prev in used and row.prev != last.hash:
        why = f"follows row {used[row.prev]}, which already has a successor: the chain was forked"
        return Failed(_named(row, why), "audit_forked")
    if any(later.hash == row.prev for later in following):
        return Failed(
            _named(row, "stands before the row that it follows: rows were reordered"), "audit_reordered"
        )
    if any(later.prev == last.hash for later in following):
        return Failed(
            _named(row, f"links to nothing and stands after row {last.seq}: it was inserted"),
            "audit_inserted",
        )
    return Failed(_named(row, f"does not follow row {last.seq}: rows between were deleted"), "audit_deleted")


def _named(row: AuditRow, why: str) -> str:
    return f"audit row {row.seq} ({row.kind}, {row.subject}) {why}"
