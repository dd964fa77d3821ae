"""A draft becomes a proposal with its decision record."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import msgspec

from prx.domain.changes import Change, PromptPatch, ReplaceAll, layer_of
from prx.domain.decisions import Decision
from prx.domain.errors import InvalidInput
from prx.domain.events import Event, EventName
from prx.domain.ids import cycle_id
from prx.domain.layers import Layer
from prx.domain.merging import merged
from prx.domain.proposals import ExpectedEffect, Proposal, ProposalState
from prx.domain.versions import Part, PromptSet, part_hash
from prx.ledger.port import Transaction, View
from prx.propose.draft import PastChange
from prx.prove.applying import treated_part
from prx.release.applied import current

LIFETIME = timedelta(days=60)
NEUTRAL = "neutral"
FAILED_STATES = (ProposalState.REJECTED, ProposalState.ROLLED_BACK)
OPEN_STATES = tuple(
    state
    for state in ProposalState
    if state
    not in (
        ProposalState.CONFIRMED,
        ProposalState.ROLLED_BACK,
        ProposalState.REJECTED,
        ProposalState.CANCELLED,
        ProposalState.EXPIRED,
    )
)


@dataclass(frozen=True, slots=True)
class Filing:
    """Everything that a new proposal says of itself; `data_points` counts the sessions behind it."""

    agent: str
    change: Change
    description: str
    rationale: str
    trigger: str
    author: str
    fingerprint: str
    risk: float
    data_points: int
    evidence: tuple[str, ...] = ()
    expected: ExpectedEffect | None = None
    fitness_before: float | None = None
    cost_usd: float | None = 0.0


def file_proposal(tx: Transaction, filing: Filing) -> Proposal:
    """Write the proposal on the current version. Raises: InvalidInput when the change does not fit it."""
    layer = layer_of(filing.change)
    base = current(tx, filing.agent)
    treated = treated_part(tx.part(base.manifest.part(layer)), filing.change)
    decision_id, cycle = tx.ids.new(tx.now), cycle_id(tx.now)
    proposal = Proposal(
        proposal_id=tx.ids.new(tx.now),
        agent=filing.agent,
        layer=layer,
        change=filing.change,
        description=filing.description,
        rationale=filing.rationale,
        trigger=filing.trigger,
        author=filing.author,
        base=base.manifest.part(layer),
        treated=tx.put_part(treated),
        fingerprint=filing.fingerprint,
        risk=filing.risk,
        created_at=tx.now,
        state_since=tx.now,
        expires_at=tx.now + LIFETIME,
        decision_id=decision_id,
        cycle_id=cycle,
        evidence=filing.evidence,
        data_points=filing.data_points,
        expected=filing.expected,
        cost_usd=filing.cost_usd,
    )
    assert proposal.treated == part_hash(treated)
    tx.put(proposal)
    tx.put(_decision(filing, proposal, layer))
    tx.audit("proposal.created", proposal.proposal_id, {"layer": layer, "author": filing.author})
    tx.emit(
        Event(
            event_id=tx.ids.new(tx.now),
            at=tx.now,
            agent=filing.agent,
            name=EventName.PROPOSED,
            summary=filing.description,
            subject=proposal.proposal_id,
            layer=layer,
            details={"author": filing.author, "risk": filing.risk},
        )
    )
    return proposal


def rebase_proposal(
    transaction: Callable[[], AbstractContextManager[Transaction]], proposal: Proposal
) -> Proposal:
    """The proposal on the current part of its layer; unchanged when it stands on it already.

    Only a proposal that nothing was proven of yet moves so. Raises: InvalidInput when it no longer fits.
    """
    with transaction() as tx:
        base = current(tx, proposal.agent).manifest.part(proposal.layer)
        if base == proposal.base:
            return proposal
        change = _carried(proposal.change, tx.part(proposal.base), tx.part(base))
        treated = tx.put_part(treated_part(tx.part(base), change))
        moved = msgspec.structs.replace(proposal, base=base, treated=treated, change=change)
        tx.put(moved)
        tx.audit("proposal.rebased", proposal.proposal_id, {"base": base})
        return moved


def _carried(change: Change, before: Part, now: Part) -> Change:
    """A whole new text keeps what others changed since it was written; any other change stays as it is."""
    if not isinstance(change, PromptPatch) or not isinstance(change.ops[0], ReplaceAll):
        return change
    assert isinstance(before, PromptSet)
    assert isinstance(now, PromptSet)
    old, present = before.texts.get(change.prompt, ""), now.texts.get(change.prompt, "")
    text = merged(old, change.ops[0].text, present)
    if text is None or text == present:
        raise InvalidInput("its lines were changed by another version meanwhile")
    return msgspec.structs.replace(change, ops=(ReplaceAll(text=text),))


def past_changes(view: View, agent: str, layer: Layer) -> tuple[PastChange, ...]:
    """Changes of the layer that failed: they are never proposed again unmodified."""
    return tuple(
        PastChange(past.fingerprint, past.change, past.why)
        for past in view.find(Proposal, agent=agent, layer=layer, state=FAILED_STATES)
        if not past.work.get(NEUTRAL)
    )


def known_changes(view: View, agent: str, layer: Layer) -> tuple[PastChange, ...]:
    """Changes that are not to be proposed now: those that failed, and those that are under way already."""
    under_way = tuple(
        PastChange(
            one.fingerprint, one.change, f"proposal {one.proposal_id} says the same and is {one.state}"
        )
        for one in open_proposals(view, agent, layer)
    )
    return (*past_changes(view, agent, layer), *under_way)


def open_proposals(view: View, agent: str, layer: Layer) -> tuple[Proposal, ...]:
    """Proposals of the layer that are not settled yet."""
    return view.find(Proposal, agent=agent, layer=layer, state=OPEN_STATES)


def _decision(filing: Filing, proposal: Proposal, layer: Layer) -> Decision:
    return Decision(
        decision_id=proposal.decision_id,
        cycle_id=proposal.cycle_id,
        layer=layer,
        timestamp=proposal.created_at,
        proposal=_described(filing),
        rationale=filing.rationale,
        data_points=filing.data_points,
        agent=filing.agent,
        proposal_id=proposal.proposal_id,
        fitness_before=filing.fitness_before,
    )


def _described(filing: Filing) -> dict[str, Any]:
    kind = "prompt_edit" if isinstance(filing.change, PromptPatch) else f"{layer_of(filing.change)}_change"
    return {
        "type": kind,
        "description": filing.description,
        "parameters": msgspec.to_builtins(filing.change),
    }
