"""The call meter's totals, kept in the ledger so that every process sees the same budget."""

import math
from collections.abc import Callable
from datetime import datetime, timedelta

import msgspec

from prx.domain.records import PRODUCTION
from prx.domain.spending import NOTICES, Spending, spending_id
from prx.ledger.port import Ledger, Transaction
from prx.models.meter import Usage
from prx.records.port import RecordStore


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
            if row.role != NOTICES
        )

    def first_notice(self, agent: str, month: str, level: str) -> bool:
        """True for the first caller with these three, False ever after."""
        with self._ledger.transaction(now=self._now(), actor="engine") as tx:
            row = _row(tx, agent, month, NOTICES)
            if level in row.noticed:
                return False
            tx.put(msgspec.structs.replace(row, noticed=(*row.noticed, level)))
            return True


def _row(tx: Transaction, agent: str, month: str, role: str) -> Spending:
    key = spending_id(agent, month, role)
    return tx.maybe(Spending, key) or Spending(spending_id=key, agent=agent, month=month, role=role)


SERVING_DAYS = timedelta(days=30)
READ_AGAIN_AFTER = timedelta(hours=1)


class ServingCost:
    """What an agent's production traffic cost in the last 30 days; read from the records once an hour."""

    def __init__(self, records: RecordStore, now: Callable[[], datetime]) -> None:
        self._records, self._now = records, now
        self._known: dict[str, tuple[datetime, float | None]] = {}

    def usd(self, agent: str) -> float | None:
        """Dollars; None when no session has a known price."""
        now = self._now()
        known = self._known.get(agent)
        if known is None or not timedelta(0) <= now - known[0] < READ_AGAIN_AFTER:
            scores = self._records.scores(agent=agent, env=PRODUCTION, since=now - SERVING_DAYS, until=now)
            priced = [score.cost_usd for score in scores if score.cost_usd is not None]
            known = self._known[agent] = (now, math.fsum(priced) if priced else None)
        return known[1]
