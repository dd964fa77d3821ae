"""Decisions: what was decided about a proposal and why."""

from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec

from prx.domain.layers import Layer


class Verdict(StrEnum):
    """What was decided."""

    AUTO_APPROVED = "auto_approved"
    APPROVED = "approved"
    REJECTED = "rejected"
    DEFERRED = "deferred"


class DecisionOutcome(StrEnum):
    """What became of it."""

    IMPROVED = "improved"
    NEUTRAL = "neutral"
    REGRESSED = "regressed"
    ROLLED_BACK = "rolled_back"


class Amendment(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A later fact about a decision; the record is amended by appending."""

    at: datetime
    actor: str
    what: str
    fields: dict[str, Any] = {}


class Decision(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One record per proposal. `verdict` None while nothing is decided yet."""

    decision_id: str
    cycle_id: str
    layer: Layer
    timestamp: datetime
    proposal: dict[str, Any]
    rationale: str
    data_points: int
    agent: str = "default"
    proposal_id: str | None = None
    fitness_before: float | None = None
    fitness_after: float | None = None
    verdict: Verdict | None = None
    verdict_reason: str = ""
    executed: bool = False
    rollback_id: str | None = None
    outcome: DecisionOutcome | None = None
    evidence: str | None = None
    shadow: dict[str, Any] = {}
    judge_score: float | None = None
    promoted_at: datetime | None = None
    ended_at: datetime | None = None
    amendments: tuple[Amendment, ...] = ()
