"""One turn of the engine on one agent, under its lease."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime

from prx.domain.records import PRODUCTION
from prx.domain.scores import SessionScore
from prx.engine.context import ENGINE, Context
from prx.engine.lease import Lease
from prx.engine.report import Report
from prx.ledger.port import Transaction, View
from prx.settings import Settings


@dataclass(frozen=True, slots=True)
class Turn:
    """What a step needs: the agent, the time, the right to write, and where to tell what it did."""

    context: Context
    lease: Lease
    agent: str
    now: datetime
    report: Report

    @property
    def settings(self) -> Settings:
        """The operator's settings."""
        return self.context.settings

    def view(self) -> AbstractContextManager[View]:
        """A consistent read of the ledger."""
        return self.context.ledger.view()

    def transaction(self, actor: str = ENGINE) -> AbstractContextManager[Transaction]:
        """A write under the lease. Raises: Busy when the lease was lost."""
        return self.lease.transaction(self.now, actor)

    def scores(
        self, since: datetime, *, experiment_id: str | None = None, closed_only: bool = False
    ) -> Iterator[SessionScore]:
        """Production scores of the agent's sessions that began from `since` to now."""
        return self.context.records.scores(
            agent=self.agent,
            env=PRODUCTION,
            since=since,
            until=self.now,
            experiment_id=experiment_id,
            closed_only=closed_only,
        )
