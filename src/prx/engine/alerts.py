"""Alerts that are told once when they open and once when they are over."""

from collections.abc import Mapping
from typing import Any

import msgspec

from prx.domain.events import Event, EventName
from prx.engine.context import control_of
from prx.engine.turn import Turn


def raise_alert(
    turn: Turn, key: str, summary: str, details: Mapping[str, Any], *, name: EventName = EventName.ALERT
) -> bool:
    """Open the alert `key` and tell of it; False, and nothing written, while it is open already."""
    with turn.view() as view:
        if key in control_of(view, turn.agent).alerts:
            return False
    with turn.transaction() as tx:
        control = control_of(tx, turn.agent)
        opened = {**control.alerts, key: turn.now.isoformat()}
        tx.put(msgspec.structs.replace(control, alerts=opened))
        tx.emit(
            Event(
                event_id=tx.ids.new(tx.now),
                at=tx.now,
                agent=turn.agent,
                name=name,
                summary=summary,
                subject=key,
                details={**details, "status": "open"},
            )
        )
    return True


def resolve_alert(turn: Turn, key: str, summary: str, *, name: EventName = EventName.ALERT) -> bool:
    """Close the alert `key` and tell of it; False, and nothing written, when it is not open."""
    with turn.view() as view:
        since = control_of(view, turn.agent).alerts.get(key)
    if since is None:
        return False
    with turn.transaction() as tx:
        control = control_of(tx, turn.agent)
        left = {one: at for one, at in control.alerts.items() if one != key}
        tx.put(msgspec.structs.replace(control, alerts=left))
        tx.emit(
            Event(
                event_id=tx.ids.new(tx.now),
                at=tx.now,
                agent=turn.agent,
                name=name,
                summary=summary,
                subject=key,
                details={"status": "resolved", "since": since},
            )
        )
    return True
