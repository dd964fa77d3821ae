"""Ending an experiment without a winner: control serves at once."""

import msgspec

from prx.domain.decisions import Verdict
from prx.domain.errors import InvalidInput
from prx.domain.events import Event, EventName
from prx.domain.experiments import Experiment, ExperimentStatus
from prx.domain.proposals import Proposal, ProposalState
from prx.ledger.port import Transaction
from prx.release.decisions import amend


def cancel_experiment(tx: Transaction, experiment: Experiment, *, reason: str, why: str) -> Experiment:
    """Stop a running experiment; its proposal is cancelled with it. Raises: InvalidInput when it is over."""
    if experiment.status not in (ExperimentStatus.RUNNING, ExperimentStatus.EVALUATING):
        raise InvalidInput(
            f"experiment {experiment.experiment_id} is {experiment.status} already; nothing to cancel"
        )
    ended = msgspec.structs.replace(
        experiment, status=ExperimentStatus.CANCELLED, converged_at=tx.now, winner=None, reason=reason
    )
    tx.put(ended)
    tx.audit("experiment.cancelled", experiment.experiment_id, {"reason": reason, "why": why})
    tx.emit(
        Event(
            event_id=tx.ids.new(tx.now),
            at=tx.now,
            agent=experiment.agent,
            name=EventName.EXPERIMENT_ENDED,
            summary=f"experiment cancelled ({reason}): control serves everyone",
            subject=experiment.experiment_id,
            layer=experiment.layer,
            details={"status": "cancelled", "reason": reason},
        )
    )
    if experiment.proposal_id:
        proposal = tx.get(Proposal, experiment.proposal_id)
        if proposal.state is ProposalState.EXPERIMENTING:
            tx.move(proposal, ProposalState.CANCELLED, why=why)
            amend(
                tx,
                proposal.decision_id,
                f"experiment cancelled ({reason}): {why}",
                verdict=Verdict.REJECTED,
                verdict_reason=f"experiment cancelled: {reason}",
                ended_at=tx.now,
            )
    return ended
