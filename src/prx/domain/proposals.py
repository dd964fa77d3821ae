"""Proposals and the legal steps of their life (SPEC section 3)."""

from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec

from prx.domain.changes import Change
from prx.domain.errors import IllegalTransition
from prx.domain.layers import Layer


class ProposalState(StrEnum):
    """Where a proposal stands."""

    PROPOSED = "proposed"
    GATED = "gated"
    SHADOWING = "shadowing"
    JUDGED = "judged"
    AWAITING_APPROVAL = "awaiting_approval"
    EXPERIMENTING = "experimenting"
    WATCHING = "watching"
    CONFIRMED = "confirmed"
    ROLLED_BACK = "rolled_back"
    REJECTED = "rejected"
    DEFERRED = "deferred"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


_S = ProposalState
TERMINAL_STATES = frozenset({_S.CONFIRMED, _S.ROLLED_BACK, _S.REJECTED, _S.CANCELLED, _S.EXPIRED})
_OUT = frozenset({_S.REJECTED, _S.DEFERRED, _S.CANCELLED, _S.EXPIRED})
TRANSITIONS: dict[ProposalState, frozenset[ProposalState]] = {
    _S.PROPOSED: frozenset({_S.GATED}) | _OUT,
    _S.GATED: frozenset({_S.SHADOWING, _S.JUDGED}) | _OUT,
    _S.SHADOWING: frozenset({_S.JUDGED}) | _OUT,
    _S.JUDGED: frozenset({_S.AWAITING_APPROVAL, _S.EXPERIMENTING, _S.WATCHING}) | _OUT,
    _S.AWAITING_APPROVAL: frozenset({_S.EXPERIMENTING, _S.WATCHING}) | _OUT,
    _S.EXPERIMENTING: frozenset({_S.WATCHING, _S.AWAITING_APPROVAL}) | _OUT,
    _S.WATCHING: frozenset({_S.CONFIRMED, _S.ROLLED_BACK}),
    _S.DEFERRED: frozenset({_S.PROPOSED, _S.REJECTED, _S.CANCELLED, _S.EXPIRED}),
    # a person may undo a confirmed change long after its watch
    _S.CONFIRMED: frozenset({_S.ROLLED_BACK}),
    _S.ROLLED_BACK: frozenset(),
    _S.REJECTED: frozenset(),
    _S.CANCELLED: frozenset(),
    _S.EXPIRED: frozenset(),
}


class ProofStep(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One check that a proposal went through, with every number it used.

    `answer` is pass, fail, not_enough_data or error; `evidence` is live, paired_offline or human.
    """

    name: str
    answer: str
    why: str
    at: datetime
    numbers: dict[str, Any] = {}
    code: str | None = None
    evidence: str | None = None


class ExpectedEffect(msgspec.Struct, frozen=True, kw_only=True):
    """What the proposer expects, in fitness points, and where the figure comes from."""

    estimate: float
    low: float
    high: float
    source: str


class Approval(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A person's yes, bound to exactly what was shown."""

    actor: str
    at: datetime
    content_hash: str
    base: str
    policy_version: str
    expires_at: datetime
    simulated: bool = False


class Proposal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One candidate change to one layer.

    `base` is the hash of the layer's part that the change was written against; `treated` the hash of
    the part after the change. `risk` in 0..1.
    """

    proposal_id: str
    agent: str
    layer: Layer
    change: Change
    description: str
    rationale: str
    trigger: str
    author: str
    base: str
    treated: str
    fingerprint: str
    risk: float
    created_at: datetime
    state_since: datetime
    expires_at: datetime
    decision_id: str
    cycle_id: str
    state: ProposalState = ProposalState.PROPOSED
    why: str = ""
    evidence: tuple[str, ...] = ()
    data_points: int = 0
    expected: ExpectedEffect | None = None
    proofs: tuple[ProofStep, ...] = ()
    approval: Approval | None = None
    experiment_id: str | None = None
    version: str | None = None
    deferred_until: datetime | None = None
    cost_usd: float | None = 0.0
    work: dict[str, Any] = {}


def check_transition(current: ProposalState, wanted: ProposalState) -> None:
    """Silent when the life of a change has the step. Raises: IllegalTransition."""
    if wanted not in TRANSITIONS[current]:
        allowed = ", ".join(sorted(TRANSITIONS[current])) or "nothing, it is final"
        raise IllegalTransition(
            f"a proposal that is {current} cannot become {wanted}; from here it can become: {allowed}"
        )
