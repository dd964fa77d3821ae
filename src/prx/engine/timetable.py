"""Due times that persist: work missed during downtime runs once, then the clock goes on."""

from datetime import datetime, timedelta

import msgspec

from prx.domain.events import Due
from prx.ledger.port import Transaction, View


def due(view: View, agent: str, job: str, now: datetime) -> bool:
    """Whether the job was never run or its time has come."""
    found = view.maybe(Due, f"{agent}/{job}")
    return found is None or found.at <= now


def ran(tx: Transaction, agent: str, job: str, *, every: timedelta, note: str = "") -> Due:
    """Set the next time: the first multiple of `every` after now, counted from the time it was due."""
    key = f"{agent}/{job}"
    found = tx.maybe(Due, key) or Due(due_id=key, agent=agent, job=job, at=tx.now)
    missed = max(0, (tx.now - found.at) // every)
    return _store(tx, found, found.at + every * (missed + 1), note)


def ran_until(tx: Transaction, agent: str, job: str, *, at: datetime, note: str = "") -> Due:
    """Set the next time to `at`."""
    key = f"{agent}/{job}"
    found = tx.maybe(Due, key) or Due(due_id=key, agent=agent, job=job, at=tx.now)
    return _store(tx, found, at, note)


def _store(tx: Transaction, found: Due, at: datetime, note: str) -> Due:
    done = msgspec.structs.replace(found, at=at, last_run=tx.now, runs=found.runs + 1, note=note)
    tx.put(done)
    return done
