"""Taking back a served change by itself: incident, rollback, open breaker."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

import msgspec

from prx.domain.events import Breaker, Event, EventName, Incident
from prx.domain.layers import Layer
from prx.domain.proposals import Proposal
from prx.domain.scores import SessionScore
from prx.domain.versions import Version, VersionSource
from prx.engine.blame import Blame
from prx.engine.filing import NEUTRAL
from prx.engine.turn import Turn
from prx.ledger.port import Transaction, View
from prx.release.applied import current, restorable
from prx.release.breaker import Reading
from prx.release.rollback import execute_rollback, plan_rollback

_MAX_COOLDOWN = timedelta(days=7)
_EVIDENCE = 20


@dataclass(frozen=True, slots=True)
class Alarm:
    """What a detector found: its name, the sentence, the numbers, and the sessions it looked at."""

    detector: str
    why: str
    numbers: Mapping[str, float]
    sessions: Sequence[SessionScore]

    @property
    def evidence(self) -> tuple[str, ...]:
        """Ids of the failed sessions, or of the newest when none failed."""
        failed = [s.session_id for s in self.sessions if s.failed]
        return tuple((failed or [s.session_id for s in self.sessions])[-_EVIDENCE:])


def take_back(turn: Turn, tripped: Version, alarm: Alarm, blamed: Blame) -> None:
    """Undo the changes that a drop began with; an incident alone when it began before all of them.

    Of several that cannot be told apart all go, and none counts as failed.
    """
    if not blamed.changes:
        _unexplained(turn, tripped, alarm, blamed)
        return
    cleared = "" if tripped in blamed.changes else f", and not with {tripped.label}"
    told = f"{alarm.why}; {blamed.why}{cleared}" if cleared or not blamed.alone else alarm.why
    for version in blamed.changes:
        undo(turn, version, replace(alarm, why=told), failed=blamed.alone)


def undo(turn: Turn, version: Version, alarm: Alarm, *, failed: bool = True) -> None:
    """Roll back the change that `version` made, and open the breaker of its layer.

    `failed`: its proposal is never filed again as it is. What a developer shipped is taken back by the
    breaker alone; a mere drop of fitness under it is told and left to its author.
    """
    layer = version.layer
    if layer is None:
        return
    theirs = version.source in (VersionSource.OPERATOR, VersionSource.CLIENT)
    with turn.transaction() as tx:
        proposal = tx.maybe(Proposal, version.proposal_id) if version.proposal_id else None
        restored = None
        if turn.settings.safety.rollback_enabled and (alarm.detector == "breaker" or not theirs):
            restored = roll_back(tx, version, alarm.why, alarm.detector, sessions=len(alarm.sessions))
        elif _told_already(tx, turn.agent, version.label):
            return
        incident = record_incident(
            tx, turn.agent, layer, alarm, version=version.label, proposal=proposal, restored=restored
        )
        if proposal and not failed:
            undone = tx.get(Proposal, proposal.proposal_id)
            tx.put(msgspec.structs.replace(undone, work={**undone.work, NEUTRAL: True}))
        open_breaker(tx, turn.agent, layer, hours=turn.settings.breaker.cooldown_hours)
    told = f"{alarm.why}; {version.label} was left for {restored}" if restored else alarm.why
    turn.report.add(alarm.detector, version.label, "fail", f"{told}; incident {incident.incident_id}")


def _told_already(view: View, agent: str, label: str | None) -> bool:
    """An incident that nobody has read yet says the same of what still serves."""
    return any(
        one.version == label and one.restored is None and one.proposal_id is None
        for one in view.find(Incident, agent=agent)
        if one.acknowledged_at is None
    )


def _unexplained(turn: Turn, tripped: Version, alarm: Alarm, blamed: Blame) -> None:
    """No change did it: nothing is undone, and no new one starts until a person has read the incident."""
    assert tripped.layer is not None
    why = f"{alarm.why}; {blamed.why}: {tripped.label} is not undone, look for a cause outside"
    with turn.transaction() as tx:
        if _told_already(tx, turn.agent, None):
            return
        incident = record_incident(
            tx, turn.agent, tripped.layer, replace(alarm, why=why), version=None, proposal=None, restored=None
        )
    turn.report.add(alarm.detector, tripped.label, "error", f"{why}; incident {incident.incident_id}")


def roll_back(tx: Transaction, version: Version, why: str, detector: str, *, sessions: int) -> str:
    """Restore what was served before `version` made its change; returns the label that serves now.

    A version whose text was erased is passed over. Raises: InvalidInput when all before it are so.
    """
    before = tx.version(version.agent, version.parents[0])
    target = (restorable(tx, before) or before).label
    whole = version.label == current(tx, version.agent).label
    plan = plan_rollback(tx, version.agent, target=target, layer=None if whole else version.layer)
    return execute_rollback(tx, plan, why=why, detector=detector, sessions=sessions).restored


def record_incident(
    tx: Transaction,
    agent: str,
    layer: Layer,
    alarm: Alarm,
    *,
    version: str | None,
    proposal: Proposal | None,
    restored: str | None,
) -> Incident:
    """Store an incident and tell the outside."""
    incident_id = tx.ids.new(tx.now)
    incident = Incident(
        incident_id=incident_id,
        agent=agent,
        layer=layer,
        at=tx.now,
        detector=alarm.detector,
        summary=alarm.why,
        proposal_id=proposal.proposal_id if proposal else None,
        version=version,
        restored=restored,
        numbers=dict(alarm.numbers),
        evidence=alarm.evidence,
        next_step=_next_step(incident_id, restored),
    )
    tx.put(incident)
    tx.audit("incident", incident.incident_id, {"detector": alarm.detector, "why": alarm.why})
    tx.emit(
        Event(
            event_id=tx.ids.new(tx.now),
            at=tx.now,
            agent=agent,
            name=EventName.INCIDENT,
            summary=f"{alarm.detector}: {alarm.why}",
            subject=incident.incident_id,
            layer=layer,
            details=dict(alarm.numbers),
        )
    )
    return incident


def _next_step(incident_id: str, restored: str | None) -> str:
    serves = f"{restored} serves already; " if restored else "nothing was undone; "
    return (
        f"{serves}read the sessions in evidence, then `prx evolution incidents ack {incident_id}`; "
        "until then no new change of this layer passes the gate"
    )


def open_breaker(tx: Transaction, agent: str, layer: Layer, *, hours: float) -> Breaker:
    """Refuse changes of the layer for a time that doubles with each trip, up to 7 days."""
    key = f"{agent}/{layer}"
    found = tx.maybe(Breaker, key) or Breaker(breaker_id=key, agent=agent, layer=layer)
    until = tx.now + min(_MAX_COOLDOWN, timedelta(hours=hours) * 2**found.trips)
    opened = msgspec.structs.replace(
        found, state="open", until=until, trips=found.trips + 1, permit=None, permit_until=None
    )
    tx.put(opened)
    tx.audit("breaker.opened", key, {"until": until.isoformat()})
    return opened


def close_breaker(tx: Transaction, agent: str, layer: Layer) -> None:
    """A clean watch closes the breaker and forgets its trips."""
    found = tx.maybe(Breaker, f"{agent}/{layer}")
    if found and found.state != "closed":
        tx.put(
            msgspec.structs.replace(
                found, state="closed", until=None, trips=0, permit=None, permit_until=None
            )
        )
        tx.audit("breaker.closed", found.breaker_id, {})


def reading_numbers(reading: Reading) -> dict[str, float]:
    """The numbers from which a trip can be recomputed."""
    return {
        "failures": reading.window.failures,
        "sessions": reading.window.sessions,
        "baseline_failures": reading.baseline.failures,
        "baseline_sessions": reading.baseline.sessions,
        "tail": reading.tail,
    }
