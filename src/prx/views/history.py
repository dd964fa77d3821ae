"""Every attempt to change the agent, and what became of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from prx.domain.decisions import Decision, DecisionOutcome, Verdict
from prx.domain.findings import Finding
from prx.domain.layers import Layer
from prx.domain.proposals import Proposal, ProposalState
from prx.ledger.port import View

_PROMOTED = frozenset({ProposalState.WATCHING, ProposalState.CONFIRMED})
_OUTCOMES = {
    ProposalState.ROLLED_BACK: "rolled_back",
    ProposalState.REJECTED: "rejected",
    ProposalState.CANCELLED: "cancelled",
    ProposalState.EXPIRED: "expired",
    ProposalState.DEFERRED: "deferred",
}


@dataclass(frozen=True, slots=True)
class Delta:
    """A difference candidate minus production, in the unit that its name says, with its interval."""

    mean: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Attempt:
    """One candidate. `outcome`: promoted, rejected, rolled_back, or where it stands now.

    `trigger`: the finding (by its kind) or person behind it, `trigger_id` as stored; `active_seconds`:
    how long it served users, None when it never did.
    """

    candidate_id: str
    time: datetime
    layer: Layer
    description: str
    trigger: str
    trigger_id: str
    shadow: Mapping[str, Delta]
    judge_score: float | None
    outcome: str
    why: str
    version: str | None
    active_seconds: float | None
    active_until: datetime | None


def history(
    view: View, agent: str, now: datetime, *, layer: Layer | None = None, limit: int | None = 20
) -> tuple[Attempt, ...]:
    """The newest attempts first."""
    proposals = view.find(Proposal, agent=agent, layer=layer, newest_first=True, limit=limit)
    return tuple(attempt(view, proposal, now) for proposal in proposals)


def attempt(view: View, proposal: Proposal, now: datetime) -> Attempt:
    """One proposal and its decision as a row of the history."""
    decision = view.maybe(Decision, proposal.decision_id)
    outcome = outcome_of(proposal, decision)
    since = decision.promoted_at if decision else None
    ended = decision.ended_at if decision and outcome == "rolled_back" else None
    active: timedelta | None = (ended or now) - since if since else None
    return Attempt(
        candidate_id=proposal.proposal_id,
        time=proposal.created_at,
        layer=proposal.layer,
        description=proposal.description,
        trigger=_trigger(view, proposal),
        trigger_id=proposal.trigger,
        shadow=deltas(decision.shadow) if decision else {},
        judge_score=decision.judge_score if decision else None,
        outcome=outcome,
        why=proposal.why,
        version=proposal.version,
        active_seconds=None if active is None else max(0.0, active.total_seconds()),
        active_until=ended,
    )


def outcome_of(proposal: Proposal, decision: Decision | None) -> str:
    """promoted, rejected or rolled_back once decided; else the proposal's own state."""
    if decision and decision.outcome is DecisionOutcome.ROLLED_BACK:
        return "rolled_back"
    if proposal.state in _PROMOTED:
        return "promoted"
    if proposal.state is ProposalState.CANCELLED and decision and decision.verdict is Verdict.REJECTED:
        return "rejected"
    return _OUTCOMES.get(proposal.state, proposal.state.value)


def deltas(shadow: Mapping[str, Any]) -> dict[str, Delta]:
    """The measured differences (quality, latency, cost ...) out of a shadow run's summary."""
    return {
        name: Delta(float(value["mean"]), value.get("low"), value.get("high"))
        for name, value in shadow.items()
        if isinstance(value, Mapping) and isinstance(value.get("mean"), int | float)
    }


def _trigger(view: View, proposal: Proposal) -> str:
    found = view.maybe(Finding, proposal.trigger)
    if found is None:
        return proposal.trigger
    scope = found.intent or found.model or found.prompt
    return f"{found.kind} ({scope})" if scope else found.kind.value
