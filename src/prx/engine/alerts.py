"""Alerts that are told once when they open and once when they are over."""

from collections.abc import Mapping
from typing import Any

import msgspec

from prx.domain.events import Event, EventName
from prx.engine.context import control_of
from prx.engine.turn import Turn
from prx.ledger.port import Transaction


def raise_alert(
    turn: Turn, key: str, summary: str, details: Mapping[str, Any], *, name: EventName = EventName.ALERT
) -> bool:
    """Open the alert `key` and tell of it; False, and nothing written, while it is open already."""
    with turn.view() as view:
        if key in control_of(view, turn.agent).alerts:
            return False
    with turn.transaction() as tx:
        return open_alert(tx, turn.agent, key, summary, details, name=name)


def resolve_alert(turn: Turn, key: str, summary: str, *, name: EventName = EventName.ALERT) -> bool:
    """Close the alert `key` and tell of it; False, and nothing written, when it is not open."""
    with turn.view() as view:
        if key not in control_of(view, turn.agent).alerts:
            return False
    with turn.transaction() as tx:
        return close_alert(tx, turn.agent, key, summary, name=name)


def open_alert(
    tx: Transaction,
    agent: str,
    key: str,
    summary: str,
    details: Mapping[str, Any],
    *,
    name: EventName = EventName.ALERT,
) -> bool:
    """As `raise_alert`, in a transaction of the caller's."""
    control = control_of(tx, agent)
    if key in control.alerts:
        return False
    tx.put(msgspec.structs.replace(control, alerts={**control.alerts, key: tx.now.isoformat()}))
    _tell(tx, agent, key, summary, {**details, "status": "open"}, name=name)
    return True


def close_alert(
    tx: Transaction, agent: str, key: str, summary: str, *, name: EventName = EventName.ALERT
) -> bool:
    """As `resolve_alert`, in a transaction of the caller's."""
    control = control_of(tx, agent)
    since = control.alerts.get(key)
    if since is None:
        return False
    left = {one: at for one, at in control.alerts.items() if one != key}
    tx.put(msgspec.structs.replace(control, alerts=left))
    _tell(tx, agent, key, summary, {"status": "resolved", "since": since}, name=name)
    return True


def _tell(
    tx: Transaction, agent: str, key: str, summary: str, details: Mapping[str, Any], *, name: EventName
) -> None:
    tx.emit(
        Event(
            event_id=tx.ids.new(tx.now),
            at=tx.now,
            agent=agent,
            name=name,
            summary=summary,
            subject=key,
            details=dict(details),
        )
    )
