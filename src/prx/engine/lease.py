"""One process at a time works on an agent; a dead one is replaced when its lease runs out."""

from collections.abc import Iterator
from contextlib import _GeneratorContextManager, contextmanager
from datetime import datetime, timedelta

import msgspec

from prx.domain.errors import Conflict
from prx.domain.events import Due
from prx.engine.context import Context
from prx.ledger.port import Transaction

LEASE = timedelta(minutes=15)
_JOB = "lease"


class Busy(Conflict):
    """Another process holds the lease of the agent."""


class Lease:
    """The right to change an agent; every transaction of the engine renews and checks it."""

    def __init__(self, context: Context, agent: str, token: str) -> None:
        self._context, self._agent, self._token = context, agent, token

    @contextmanager
    def transaction(self, now: datetime, actor: str = "engine") -> Iterator[Transaction]:
        """A ledger transaction that fails when the lease was lost. Raises: Busy."""
        with self._context.ledger.transaction(now=now, actor=actor) as tx:
            held = tx.maybe(Due, _key(self._agent))
            if held is None or held.lease_owner != self._token:
                raise Busy(f"another process took over agent {self._agent!r}; nothing was written here")
            tx.put(msgspec.structs.replace(held, lease_until=now + LEASE))
            yield tx


class NoLease(Lease):
    """Stands in for a lease in a dry run: nothing can be written under it."""

    def transaction(self, now: datetime, actor: str = "engine") -> "_GeneratorContextManager[Transaction]":
        """Raises: Conflict."""
        raise Conflict(f"a dry run writes nothing, so {actor} cannot at {now}; run it without --dry-run")


@contextmanager
def leased(context: Context, agent: str, now: datetime) -> Iterator[Lease]:
    """Hold the lease of `agent`. Raises: Busy when another live process holds it.

    One that ends later than any lease taken now is from before the clock was set back, and counts no more.
    """
    token = f"{context.owner}:{context.ids.new(now)}"
    with context.ledger.transaction(now=now, actor="engine") as tx:
        held = tx.maybe(Due, _key(agent))
        if held and held.lease_owner and held.lease_until and now < held.lease_until <= now + LEASE:
            raise Busy(
                f"agent {agent!r} is being worked on by {held.lease_owner.split(':')[0]} "
                f"until {held.lease_until:%H:%M:%S} UTC; try again then"
            )
        base = held or Due(due_id=_key(agent), agent=agent, job=_JOB, at=now)
        tx.put(msgspec.structs.replace(base, lease_owner=token, lease_until=now + LEASE))
    try:
        yield Lease(context, agent, token)
    finally:
        with context.ledger.transaction(now=now, actor="engine") as tx:
            held = tx.maybe(Due, _key(agent))
            if held and held.lease_owner == token:
                tx.put(msgspec.structs.replace(held, lease_owner="", lease_until=None))


def _key(agent: str) -> str:
    return f"{agent}/{_JOB}"
