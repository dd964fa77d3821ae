"""What a yes covers, and when it no longer does."""

from datetime import datetime

from prx.domain.codec import content_hash
from prx.domain.errors import InvalidInput
from prx.domain.events import Event, EventName
from prx.domain.layers import Layer
from prx.domain.proposals import Proposal
from prx.ledger.port import Transaction
from prx.settings import Settings

PERSON = "person:"


def policy_version(settings: Settings) -> str:
    """Version of the rules under which approvals were asked for."""
    own = "" if settings.author_may_approve else ";author=false"
    return f"auto_apply={settings.auto_apply};require={settings.l3.require_approval}{own}"


def must_ask(settings: Settings, layer: Layer) -> bool:
    """Whether a prompt or strategy change needs a person before users see it."""
    if layer is Layer.STRATEGY and settings.l3.require_approval:
        return True
    return not settings.auto_apply


def covered(proposal: Proposal) -> str:
    """Hash of what a yes is about: everything that decides what users would see, and nothing beside it."""
    shown = (proposal.proposal_id, proposal.agent, proposal.layer, proposal.change)
    return content_hash([*shown, proposal.base, proposal.treated])


def refuse_approver(proposal: Proposal, actor: str, settings: Settings) -> None:
    """Silent for somebody who may say yes. Raises: InvalidInput for the engine itself, and for the author
    where `author_may_approve` is false."""
    if not actor.startswith(PERSON):
        raise InvalidInput(f"{actor} is no person, and only a person approves; nothing was approved")
    if proposal.author == actor and not settings.author_may_approve:
        raise InvalidInput(
            f"{actor} proposed {proposal.proposal_id}, and author_may_approve is false; "
            "somebody else has to approve it"
        )


def approval_fault(proposal: Proposal, now: datetime, policy: str) -> str:
    """Why an approval no longer covers the proposal; empty when it does."""
    approval = proposal.approval
    if approval is None:
        return "no approval was given"
    if approval.content_hash != covered(proposal) or approval.base != proposal.base:
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
