"""The end of an experiment: its record, its proposal, and who serves."""

from datetime import timedelta
from typing import Any

import msgspec

from prx.domain.decisions import DecisionOutcome, Verdict
from prx.domain.errors import Conflict
from prx.domain.events import Event, EventName
from prx.domain.experiments import Experiment, ExperimentStatus
from prx.domain.proposals import ProofStep, Proposal, ProposalState
from prx.engine.approvals import approval_event, approval_fault, must_ask, policy_version
from prx.engine.context import Context
from prx.engine.holding import hold_back
from prx.engine.trialrecord import conclusion_reason, conclusion_word, plan_of
from prx.ledger.port import Transaction
from prx.release.decisions import amend
from prx.release.promote import promote
from prx.stats.conclusions import Conclusion, Harmful, Inconclusive, Invalid, Promote

DEFER_DAYS = 30


def converge(
    tx: Transaction,
    context: Context,
    experiment: Experiment,
    conclusion: Conclusion,
    *,
    baseline: dict[str, Any] | None,
) -> Experiment:
    """End an experiment as its conclusion says, and move its proposal with it, in this transaction.

    `baseline`: what the watch of a promoted change will compare with.
    """
    invalid = isinstance(conclusion, Invalid)
    ended = msgspec.structs.replace(
        experiment,
        status=ExperimentStatus.CANCELLED if invalid else ExperimentStatus.CONVERGED,
        converged_at=tx.now,
        winner=conclusion.winner,
        next_look_at=None,
    )
    tx.put(ended)
    word, reason = conclusion_word(conclusion), conclusion_reason(conclusion)
    tx.emit(
        Event(
            event_id=tx.ids.new(tx.now),
            at=tx.now,
            agent=experiment.agent,
            name=EventName.EXPERIMENT_ENDED,
            summary=f"experiment on the {experiment.layer.label}: {word} {reason}".strip(),
            subject=experiment.experiment_id,
            layer=experiment.layer,
            details={"winner": conclusion.winner, "conclusion": word, "p_value": ended.p_value},
        )
    )
    if experiment.proposal_id is None:
        return ended
    proposal = tx.get(Proposal, experiment.proposal_id)
    if proposal.state is not ProposalState.EXPERIMENTING:
        return ended
    step = ProofStep(
        name="experiment",
        answer={"treatment": "pass", "control": "fail"}.get(conclusion.winner or "", "not_enough_data"),
        why=f"{word} {reason}".strip(),
        at=tx.now,
        numbers=_proof_numbers(ended),
        evidence="live",
    )
    proven = msgspec.structs.replace(proposal, proofs=(*proposal.proofs, step))
    tx.put(proven)
    _move_proposal(tx, context, proven, experiment=ended, conclusion=conclusion, baseline=baseline or {})
    return ended


def _move_proposal(
    tx: Transaction,
    context: Context,
    proposal: Proposal,
    *,
    experiment: Experiment,
    conclusion: Conclusion,
    baseline: dict[str, Any],
) -> None:
    if isinstance(conclusion, Promote):
        _won(tx, context, proposal, experiment=experiment, conclusion=conclusion, baseline=baseline)
    elif isinstance(conclusion, Inconclusive):
        why = f"experiment {experiment.experiment_id} ended undecided ({conclusion.reason}); control serves"
        until = tx.now + timedelta(days=DEFER_DAYS)
        tx.move(proposal, ProposalState.DEFERRED, why=why, deferred_until=until)
        amend(tx, proposal.decision_id, why, verdict=Verdict.DEFERRED, verdict_reason=why, ended_at=tx.now)
    elif isinstance(conclusion, Invalid):
        why = f"experiment {experiment.experiment_id} is void: {conclusion.why}"
        tx.move(proposal, ProposalState.CANCELLED, why=why)
        amend(tx, proposal.decision_id, why, verdict=Verdict.DEFERRED, verdict_reason=why, ended_at=tx.now)
    else:
        harmful = isinstance(conclusion, Harmful)
        word = conclusion_word(conclusion).replace("_", " ")
        why = f"experiment {experiment.experiment_id}: {word} {conclusion_reason(conclusion)}".strip()
        tx.move(proposal, ProposalState.REJECTED, why=why)
        outcome = DecisionOutcome.REGRESSED if harmful else DecisionOutcome.NEUTRAL
        amend(
            tx,
            proposal.decision_id,
            why,
            verdict=Verdict.REJECTED,
            verdict_reason=why,
            outcome=outcome,
            evidence="live",
            ended_at=tx.now,
        )


def _won(
    tx: Transaction,
    context: Context,
    proposal: Proposal,
    *,
    experiment: Experiment,
    conclusion: Promote,
    baseline: dict[str, Any],
) -> None:
    plan = plan_of(experiment)
    lift = f"+{conclusion.estimate:.3f} [{conclusion.lift.low:.3f}, {conclusion.lift.high:.3f}]"
    unit = f"in {plan.primary.name}" if plan.primary else "fitness points"
    why = f"won its experiment: {lift} {unit}, p {experiment.p_value:.3g}"
    p_upper = experiment.state.get("p_upper")
    allowed = plan.fdr_alpha is not None and p_upper is not None and p_upper <= plan.fdr_alpha
    verdict = Verdict.APPROVED if proposal.approval else Verdict.AUTO_APPROVED
    reason = ""
    if proposal.approval is not None:
        reason = approval_fault(proposal, tx.now, policy_version(context.settings))
    elif must_ask(context.settings, proposal.layer):
        reason = f"{proposal.layer.label} asks a person by now"
    elif not allowed:
        reason = (
            f"fdr_budget: p {p_upper:.2g} is above the level {plan.fdr_alpha:.2g} for unattended promotion"
        )
    if reason:
        tx.move(proposal, ProposalState.AWAITING_APPROVAL, why=f"{why}; a person decides ({reason})")
        amend(tx, proposal.decision_id, f"{why}; waits for a person: {reason}", evidence="live")
        tx.emit(approval_event(tx, proposal, reason))
        return
    try:
        held = hold_back(context, tx, proposal, baseline, tx.now)
        promote(tx, proposal, why=why, evidence="live", baseline=held)
    except Conflict as error:
        tx.move(proposal, ProposalState.CANCELLED, why=str(error))
        verdict, why = Verdict.REJECTED, str(error)
    amend(tx, proposal.decision_id, why, verdict=verdict, verdict_reason=why)


def _proof_numbers(experiment: Experiment) -> dict[str, Any]:
    last = experiment.looks[-1] if experiment.looks else None
    return {
        "experiment_id": experiment.experiment_id,
        "control_fitness": experiment.control_fitness.value,
        "treatment_fitness": experiment.treatment_fitness.value,
        "p_value": experiment.p_value,
        "difference": last.difference if last else None,
        "median_unbiased": last.median_unbiased if last else None,
        "looks": len(experiment.looks),
    }
