"""No change reaches users without its proofs: which ones each layer needs, and which are missing."""

from prx.domain.errors import Conflict
from prx.domain.layers import Layer
from prx.domain.proposals import Proposal

_PASSED = "pass"
_GATE = "gate.scope"
_NEEDED: dict[Layer, tuple[tuple[str, ...], ...]] = {
    Layer.PROMPT: ((_GATE,), ("gate.replay",), ("shadow",), ("judge",)),
    Layer.MEMORY: ((_GATE,), ("memory.change",), ("memory.replay",)),
    Layer.STRATEGY: ((_GATE,), ("judge.offpolicy", "judge.paired_models", "judge.replay")),
}


def missing_proofs(proposal: Proposal) -> tuple[str, ...]:
    """Names of the proofs that the layer needs and whose newest step is not a pass (alternatives by `or`)."""
    newest = {step.name: step.answer for step in proposal.proofs}
    return tuple(
        " or ".join(names)
        for names in _NEEDED[proposal.layer]
        if not any(newest.get(name) == _PASSED for name in names)
    )


def require_proofs(proposal: Proposal) -> None:
    """Silent when every proof is there. Raises: Conflict naming what is missing; nothing may be served."""
    missing = missing_proofs(proposal)
    if missing:
        raise Conflict(
            f"proposal {proposal.proposal_id} is {proposal.state} without a passing {', '.join(missing)}; "
            "nothing of it is served, look at `prx evolution audit verify` and propose it again"
        )
