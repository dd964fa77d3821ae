"""The call meter's totals, kept in the ledger so that every process sees the same budget."""

from collections.abc import Callable
from datetime import datetime

import msgspec

from prx.domain.spending import Spending, spending_id
from prx.ledger.port import Ledger, Transaction
from prx.models.meter import Usage

_NOTICES = "notices"


class LedgerUsage:
    """UsageStore over the ledger."""

    def __init__(self, ledger: Ledger, now: Callable[[], datetime]) -> None:
        self._ledger, self._now = ledger, now

    def add(self, usage: Usage) -> None:
        """Add to the row of (agent, month, role)."""
        with self._ledger.transaction(now=self._now(), actor="engine") as tx:
            row = _row(tx, usage.agent, usage.month, usage.role)
            tx.put(
                msgspec.structs.replace(
                    row,
                    calls=row.calls + usage.calls,
                    failed=row.failed + usage.failed,
                    input_tokens=row.input_tokens + usage.input_tokens,
                    output_tokens=row.output_tokens + usage.output_tokens,
                    usd=row.usd + usage.usd,
                )
            )

    def rows(self, agent: str, month: str) -> tuple[Usage, ...]:
        """The month's rows, one per role."""
        with self._ledger.view() as view:
            found = view.find(Spending, agent=agent, state=month)
        return tuple(
            Usage(
                agent=row.agent,
                month=row.month,
                role=row.role,
                calls=row.calls,
                failed=row.failed,
                input_tokens=row.input_tokens,
                output_tokens=row.output_tokens,
                usd=row.usd,
            )
            for row in found
            if row.role != _NOTICES
        )

    def first_notice(self, agent: str, month: str, level: str) -> bool:
        """True for the first caller with these three, False ever after."""
        with self._ledger.transaction(now=self._now(), actor="engine") as tx:
            row = _row(tx, agent, month, _NOTICES)
            if level in row.noticed:
                return False
            tx.put(msgspec.structs.replace(row, noticed=(*row.noticed, level)))
            return True


def _row(tx: Transaction, agent: str, month: str, role: str) -> Spending:
    key = spending_id(agent, month, role)
    return tx.maybe(Spending, key) or Spending(spending_id=key, agent=agent, month=month, role=role)
