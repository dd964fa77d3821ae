"""What may start to serve users now: nothing while an outside cause lasts, one trial after a cooldown."""

from datetime import datetime, timedelta

import msgspec

from prx.domain.errors import Conflict
from prx.domain.events import Breaker
from prx.domain.layers import Layer
from prx.domain.proposals import TERMINAL_STATES, Proposal, ProposalState
from prx.engine.alerts import raise_alert, resolve_alert
from prx.engine.context import control_of
from prx.engine.turn import Turn
from prx.ledger.port import Transaction, View

COMMON_CAUSE = "common_cause"
PERMIT = timedelta(hours=48)
_LIVE = (ProposalState.EXPERIMENTING, ProposalState.WATCHING)


def kept_out(view: View, agent: str, layer: Layer, proposal_id: str, now: datetime) -> str:
    """Why a change of the layer may not start to serve now; empty when it may.

    After a trip the layer is closed to changes for its cooldown, then open to one at a time until one of
    them has been confirmed.
    """
    frozen = frozen_since(view, agent)
    if frozen:
        return frozen
    breaker = view.maybe(Breaker, f"{agent}/{layer}")
    if breaker is None or breaker.state == "closed":
        return ""
    if breaker.state == "open" and breaker.until and now < breaker.until:
        return f"the {layer.label} cools down until {breaker.until:%Y-%m-%d %H:%M} UTC after a trip"
    if breaker.permit in (None, proposal_id):
        return ""
    holder = view.maybe(Proposal, breaker.permit or "")
    served = holder is not None and holder.state in _LIVE
    leased = (
        holder is not None
        and holder.state not in TERMINAL_STATES
        and breaker.permit_until
        and now < breaker.permit_until
    )
    if not served and not leased:
        return ""
    return (
        f"proposal {breaker.permit} is the one trial of the {layer.label} after a trip; "
        "another may start once it is confirmed or over"
    )


def admit(tx: Transaction, proposal: Proposal) -> None:
    """Take the permit of a layer that is half open, in the transaction in which the change starts to serve.

    Raises: Conflict when it may not start now; nothing is written then.
    """
    why = kept_out(tx, proposal.agent, proposal.layer, proposal.proposal_id, tx.now)
    if why:
        raise Conflict(f"{why}; proposal {proposal.proposal_id} waits, nothing was changed")
    breaker = tx.maybe(Breaker, f"{proposal.agent}/{proposal.layer}")
    if breaker is None or breaker.state == "closed":
        return
    leased = msgspec.structs.replace(
        breaker, state="half_open", until=None, permit=proposal.proposal_id, permit_until=tx.now + PERMIT
    )
    tx.put(leased)
    tx.audit("breaker.half_open", breaker.breaker_id, {"permit": proposal.proposal_id})


def frozen_since(view: View, agent: str) -> str:
    """Why nothing is promoted while control and treatment fail alike; empty when nothing is frozen."""
    since = control_of(view, agent).alerts.get(COMMON_CAUSE)
    if since is None:
        return ""
    return (
        f"promotions are frozen since {since[:16].replace('T', ' ')} UTC: sessions without the change fail "
        "more than twice as often as before too; look for a cause outside, such as the provider"
    )


def note_common_cause(turn: Turn, causes: dict[str, str]) -> None:
    """Freeze promotions while any reading says that the cause is outside, and lift that when none does."""
    if causes:
        subject, why = next(iter(causes.items()))
        told = f"{why}; promotions are frozen, no change is blamed"
        if raise_alert(turn, COMMON_CAUSE, told, {"subject": subject}):
            turn.report.add("breaker", subject, "error", told)
        return
    if resolve_alert(turn, COMMON_CAUSE, "the outside cause is over; promotions go on"):
        turn.report.add("breaker", turn.agent, "pass", "the outside cause is over; promotions go on")
