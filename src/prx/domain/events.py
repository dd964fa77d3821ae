"""Incidents, events, audit rows and due work."""

from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec

from prx.domain.layers import Layer


class EventName(StrEnum):
    """Names under which the outside hears of changes."""

    PROPOSED = "prx.evolution.proposed"
    APPLIED = "prx.evolution.applied"
    ROLLED_BACK = "prx.evolution.rolled_back"
    APPROVAL_NEEDED = "prx.evolution.approval_needed"
    INCIDENT = "prx.evolution.incident"
    EXPERIMENT_ENDED = "prx.evolution.experiment_ended"
    PAUSED = "prx.evolution.paused"
    BUDGET = "prx.evolution.budget"
    NO_DATA = "prx.evolution.no_data"
    ALERT = "prx.evolution.alert"


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that happened to an agent's evolution."""

    event_id: str
    at: datetime
    agent: str
    name: EventName
    summary: str
    subject: str | None = None
    layer: Layer | None = None
    details: dict[str, Any] = {}


class Incident(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A trip of a breaker or watch, with the numbers from which it can be recomputed."""

    incident_id: str
    agent: str
    layer: Layer
    at: datetime
    detector: str
    summary: str
    proposal_id: str | None
    version: str | None
    restored: str | None
    numbers: dict[str, float]
    evidence: tuple[str, ...] = ()
    next_step: str = ""
    acknowledged_at: datetime | None = None


class AuditRow(msgspec.Struct, frozen=True, kw_only=True):
    """One link of the audit chain; `seq` has no gaps, `hash` covers every field and `prev`."""

    seq: int
    prev: str
    hash: str
    at: datetime
    actor: str
    kind: str
    subject: str
    body_hash: str
    body: str | None = None


class Due(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """When a recurring job of an agent runs next; persists, so downtime is caught up."""

    due_id: str
    agent: str
    job: str
    at: datetime
    last_run: datetime | None = None
    runs: int = 0
    failures: int = 0
    note: str = ""
    lease_owner: str = ""
    lease_until: datetime | None = None


class Breaker(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Circuit breaker of one agent and layer: closed, open (with `until`) or half_open.

    `slow_since`: since when `slow_version` fails more than it should, without a break.
    """

    breaker_id: str
    agent: str
    layer: Layer
    state: str = "closed"
    until: datetime | None = None
    trips: int = 0
    permit: str | None = None
    permit_until: datetime | None = None
    slow_version: str | None = None
    slow_since: datetime | None = None


class Control(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The engine of one agent as a whole: what a person said of it, and its frozen token targets.

    `failed_cycles`: runs in a row in which a step raised an error, counted at most once an hour;
    `failed_at`: the newest of them. `alerts`: key of every open alert with the time since when.
    """

    agent: str
    paused: bool = False
    killed: bool = False
    why: str = ""
    actor: str = ""
    since: datetime | None = None
    failed_cycles: int = 0
    token_targets: tuple[float, float] | None = None
    failed_at: datetime | None = None
    alerts: dict[str, str] = {}
