"""The audit chain as seen from outside: is it whole, and its rows for keeping elsewhere."""

from collections.abc import Iterator
from dataclasses import dataclass

from prx.domain.answers import Failed, Passed
from prx.domain.events import AuditRow
from prx.ledger.audit import EMPTY, Head, verify_chain
from prx.ledger.binding import Told
from prx.ledger.heads import Noted, check_heads, missing_head
from prx.ledger.port import View

PAGE = 1000


@dataclass(frozen=True, slots=True)
class AuditCheck:
    """Whether the chain is whole; `head` is the link to note outside, so that a cut end is seen next time.

    `signed_heads`: how many heads of the second place were compared; None where there is none.
    """

    whole: bool
    why: str
    code: str | None
    rows: int
    head: str
    signed_heads: int | None = None


def rows(view: View) -> Iterator[AuditRow]:
    """All links, oldest first, read in pages."""
    after = 0
    while page := view.audit_rows(after=after, limit=PAGE):
        yield from page
        after += len(page)


def verify(
    view: View, *, noted: Head | None = None, signed: Noted | None = None, key: bytes = b""
) -> AuditCheck:
    """Recompute every link, and compare what is stored with what the chain says was written.

    Args: `noted`: the head as written down outside the store before. `signed`, `key`: the signed heads of the
        second place; then a full rewrite and a cut end are seen up to the newest of them.
    """
    last = EMPTY

    def read() -> Iterator[AuditRow]:
        nonlocal last
        for row in rows(view):
            last = Head(row.seq, row.hash)
            yield row

    told = Told()
    answer = verify_chain(told.follow(read()), head=noted)
    if signed is not None and not isinstance(answer, Failed):
        forged = check_heads(signed, key)
        answer = forged if isinstance(forged, Failed) else missing_head(rows(view), signed) or answer
    if not isinstance(answer, Failed):
        answer = view.differing(told) or Passed(f"{answer.why}, {len(told.records)} records as it says")
    failed = isinstance(answer, Failed)
    code = answer.code if isinstance(answer, Failed) else None
    compared = None if signed is None else len(signed.heads)
    return AuditCheck(not failed, answer.why, code, last.seq, f"{last.seq}:{last.hash}", compared)
