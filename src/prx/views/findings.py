"""Findings and incidents as lists."""

from prx.domain.events import Incident
from prx.domain.findings import Finding, FindingKind
from prx.domain.layers import Layer
from prx.ledger.port import View


def findings(
    view: View,
    *,
    agent: str | None = None,
    layer: Layer | None = None,
    kind: FindingKind | None = None,
    resolved: bool = False,
) -> tuple[Finding, ...]:
    """Findings, the most severe first and of those the newest; resolved ones only when asked for."""
    found = view.find(Finding, agent=agent, layer=layer, state=kind)
    wanted = [one for one in found if resolved or one.resolved_at is None]
    return tuple(sorted(wanted, key=lambda one: (-one.severity, -one.last_seen.timestamp())))


def incidents(view: View, *, agent: str | None = None, open_only: bool = False) -> tuple[Incident, ...]:
    """Incidents, newest first."""
    found = view.find(Incident, agent=agent, newest_first=True)
    return tuple(one for one in found if not open_only or one.acknowledged_at is None)
