"""What a yes covers, and when it no longer does."""

from datetime import datetime

from prx.domain.events import Event, EventName
from prx.domain.proposals import Proposal
from prx.ledger.port import Transaction
from prx.settings import Settings


def policy_version(settings: Settings) -> str:
    """Version of the rules under which approvals were asked for."""
    return f"auto_apply={settings.auto_apply};require={settings.l3.require_approval}"


def approval_fault(proposal: Proposal, now: datetime, policy: str) -> str:
    """Why an approval no longer covers the proposal; empty when it does."""
    approval = proposal.approval
    if approval is None:
        return "no approval was given"
    if approval.content_hash != proposal.treated or approval.base != proposal.base:
        return "the proposal changed after it was approved"
    if approval.policy_version != policy:
        return "the approval policy changed since"
    return "the approval expired" if approval.expires_at <= now else ""


def approval_event(tx: Transaction, proposal: Proposal, reason: str) -> Event:
    """The event that asks for a person."""
    return Event(
        event_id=tx.ids.new(tx.now),
        at=tx.now,
        agent=proposal.agent,
        name=EventName.APPROVAL_NEEDED,
        summary=f"{proposal.description} (`prx evolution approve {proposal.proposal_id}`)",
        subject=proposal.proposal_id,
        layer=proposal.layer,
        details={"reason": reason},
    )
