"""The path of a proposal from filed to proven, one step per call, resumable at any point."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial

import msgspec

from prx.domain.answers import Answer, Broken, Failed, NotEnoughData, Passed
from prx.domain.changes import MemoryPatch, StrategyPatch
from prx.domain.decisions import Verdict
from prx.domain.errors import Conflict, InvalidInput
from prx.domain.layers import Layer
from prx.domain.proposals import ProofStep, Proposal, ProposalState
from prx.engine.admission import admit, kept_out
from prx.engine.approvals import approval_event, approval_fault, must_ask, policy_version
from prx.engine.attempt import attempt
from prx.engine.filing import open_proposals, rebase_proposal
from prx.engine.gating import gate_proposal, layer_taken
from prx.engine.holding import hold_back
from prx.engine.memorypath import prove_memory
from prx.engine.offline import judge_more, replay_more, shadow_more
from prx.engine.strategypath import PAIRED, prove_strategy
from prx.engine.trialstart import start_for_proposal
from prx.engine.turn import Turn
from prx.engine.watching import freeze_baseline
from prx.prove.gate import LAYER_CODES, WAITS
from prx.prove.gateinput import by_person
from prx.prove.steps import overall
from prx.release.decisions import amend
from prx.release.promote import promote

WAIT = timedelta(days=1)
SHADOW_LIMIT = timedelta(hours=72)


def advance_proposals(turn: Turn) -> None:
    """Take every open proposal as far as it can go now, those of people first."""
    for layer in Layer:
        with turn.view() as view:
            waiting = open_proposals(view, turn.agent, layer)
        for proposal in sorted(waiting, key=lambda one: not by_person(one)):
            attempt(turn, "proposal", proposal.proposal_id, partial(_advance, turn, proposal))


def _advance(turn: Turn, proposal: Proposal) -> None:
    for _ in range(len(ProposalState)):
        with turn.view() as view:
            fresh = view.get(Proposal, proposal.proposal_id)
        live = fresh.state in (ProposalState.EXPERIMENTING, ProposalState.WATCHING)
        if fresh.expires_at <= turn.now and not live:
            _settle(turn, fresh, ProposalState.EXPIRED, "its time ran out", Verdict.REJECTED)
            return
        step = _STEPS.get(fresh.state)
        if step is None or not step(turn, fresh):
            return


def _wake(turn: Turn, proposal: Proposal) -> bool:
    """Look again: when the layer is free for what waits for it, else on the date."""
    late = proposal.deferred_until is not None and proposal.deferred_until <= turn.now
    why = "its date to look again has come"
    if proposal.work.get(WAITS):
        if layer_taken(turn, proposal):
            if late:
                with turn.transaction() as tx:
                    tx.put(msgspec.structs.replace(proposal, deferred_until=turn.now + WAIT))
            return False
        why = "its layer is free"
    elif not late:
        return False
    with turn.transaction() as tx:
        tx.move(proposal, ProposalState.PROPOSED, why=why, work={})
    return True


def _gate(turn: Turn, proposal: Proposal) -> bool:
    try:
        proposal = rebase_proposal(turn.transaction, proposal)
    except InvalidInput as error:
        why = f"it was written against an earlier version and does not fit the current one: {error}"
        turn.report.add("gate", proposal.proposal_id, "fail", why)
        return _settle(turn, proposal, ProposalState.CANCELLED, why, Verdict.REJECTED)
    steps = gate_proposal(turn, proposal)
    answer = overall(steps)
    proven = _with_proofs(proposal, *steps)
    if any(step.code in LAYER_CODES for step in steps if step.answer == "fail"):
        proven = msgspec.structs.replace(proven, work={**proven.work, WAITS: True})
    turn.report.add("gate", proposal.proposal_id, _word(answer), answer.why)
    return _decide(turn, proven, answer, to=ProposalState.GATED)


def _replay(turn: Turn, proposal: Proposal) -> bool:
    if isinstance(proposal.change, MemoryPatch):
        return _prove_memory(turn, proposal)
    if isinstance(proposal.change, StrategyPatch):
        return _prove_strategy(turn, proposal)
    if turn.context.models.agent is None:
        return _waits(turn, proposal, "no agent model is configured ([self_evolution.models.agent])")
    if not any(step.name == "gate.replay" and step.answer == "pass" for step in proposal.proofs):
        proven, step = replay_more(turn, proposal)
        if step is None:
            return _waits(turn, proven, "no judge or checker is configured ([self_evolution.models.judge])")
        turn.report.add("replay", proposal.proposal_id, step.answer, step.why)
        answer = overall([step])
        if not isinstance(answer, Passed):
            return _decide(turn, _with_proofs(proven, step), answer, to=ProposalState.SHADOWING)
        proposal = _with_proofs(proven, step)
    work = {**proposal.work, "shadow": None, "judge": None, "shadow_since": turn.now.isoformat()}
    with turn.transaction() as tx:
        tx.put(msgspec.structs.replace(proposal, work=work))
        tx.move(
            proposal, ProposalState.SHADOWING, why="recent successes hold", proofs=proposal.proofs, work=work
        )
    return True


def _prove_memory(turn: Turn, proposal: Proposal) -> bool:
    if turn.context.memory is None:
        return _waits(turn, proposal, "no memory store is in use here, so no query can be replayed")
    steps = prove_memory(turn, proposal)
    for step in steps:
        turn.report.add(step.name, proposal.proposal_id, step.answer, step.why)
    return _decide(turn, _with_proofs(proposal, *steps), overall(steps), to=ProposalState.JUDGED)


def _prove_strategy(turn: Turn, proposal: Proposal) -> bool:
    worked, step = prove_strategy(turn, proposal)
    turn.report.add("screen", proposal.proposal_id, step.answer, f"{step.name}: {step.why}")
    if step.name == PAIRED and step.answer == "not_enough_data":
        # pairs are paid for: they are kept while more inputs come
        with turn.transaction() as tx:
            tx.put(worked)
        return False
    proven = _with_proofs(worked, step)
    with turn.transaction() as tx:
        amend(tx, proposal.decision_id, f"{step.name}: {step.why}", shadow=step.numbers)
    return _decide(turn, proven, overall([step]), to=ProposalState.JUDGED)


def _shadow(turn: Turn, proposal: Proposal) -> bool:
    late = turn.now - proposal.state_since >= SHADOW_LIMIT
    worked, step = shadow_more(turn, proposal, exhausted=late)
    if step.answer == "not_enough_data" and not late:
        with turn.transaction() as tx:
            tx.put(worked)
        turn.report.add("shadow", proposal.proposal_id, step.answer, step.why)
        return False
    turn.report.add("shadow", proposal.proposal_id, step.answer, step.why)
    proven = _with_proofs(worked, step)
    if step.answer != "pass":
        return _decide(turn, proven, overall([step]), to=ProposalState.JUDGED)
    judged, verdict = judge_more(turn, proven, exhausted=late)
    if verdict is None or (verdict.answer == "not_enough_data" and not late):
        with turn.transaction() as tx:
            tx.put(msgspec.structs.replace(judged, proofs=proposal.proofs))
        why = verdict.why if verdict else "no judge is configured ([self_evolution.models.judge])"
        turn.report.add("judge", proposal.proposal_id, "not_enough_data", why)
        return False
    turn.report.add("judge", proposal.proposal_id, verdict.answer, verdict.why)
    decided = _with_proofs(judged, verdict)
    _note_numbers(turn, decided, step, verdict)
    return _decide(turn, decided, overall([verdict]), to=ProposalState.JUDGED)


def _route(turn: Turn, proposal: Proposal) -> bool:
    settings = turn.settings
    if proposal.layer is Layer.MEMORY:
        if proposal.risk < settings.l1.risk_threshold:
            return _promote_memory(turn, proposal)
        return _ask(turn, proposal, f"its risk is {proposal.risk:.2f}")
    if must_ask(settings, proposal.layer):
        return _ask(turn, proposal, f"{proposal.layer.label} asks a person first")
    if not settings.experiments.enabled:
        return _ask(turn, proposal, "experiments are off; a person decides, not proven live")
    start_for_proposal(turn, proposal)
    return False


def _approved(turn: Turn, proposal: Proposal) -> bool:
    if proposal.approval is None:
        return False
    fault = approval_fault(proposal, turn.now, policy_version(turn.settings))
    if fault:
        with turn.transaction() as tx:
            tx.put(msgspec.structs.replace(proposal, approval=None))
            tx.emit(approval_event(tx, proposal, fault))
        turn.report.add("approval", proposal.proposal_id, "fail", fault)
        return False
    if proposal.layer is Layer.MEMORY:
        return _promote_memory(turn, proposal)
    start_for_proposal(turn, proposal)
    return False


def _promote_memory(turn: Turn, proposal: Proposal) -> bool:
    with turn.view() as view:
        outside = kept_out(view, turn.agent, proposal.layer, proposal.proposal_id, turn.now)
    if outside:
        return _waits(turn, proposal, outside)
    baseline = freeze_baseline(turn.context, turn.agent, turn.now)
    approval = proposal.approval
    risk = f"risk {proposal.risk:.2f} is below {turn.settings.l1.risk_threshold:g}"
    why = f"proven by replay, {f'approved by {approval.actor}' if approval else risk}"
    verdict = Verdict.APPROVED if approval else Verdict.AUTO_APPROVED
    try:
        with turn.transaction() as tx:
            admit(tx, proposal)
            held = hold_back(turn.context, tx, proposal, baseline, turn.now)
            promote(tx, proposal, why=why, evidence="paired_offline", baseline=held)
            amend(tx, proposal.decision_id, why, verdict=verdict, verdict_reason=why)
    except Conflict as error:
        return _settle(turn, proposal, ProposalState.REJECTED, str(error), Verdict.REJECTED)
    turn.report.add("promote", proposal.proposal_id, "pass", why)
    return True


def _ask(turn: Turn, proposal: Proposal, reason: str) -> bool:
    with turn.transaction() as tx:
        moved = tx.move(proposal, ProposalState.AWAITING_APPROVAL, why=reason)
        amend(tx, proposal.decision_id, f"waits for a person: {reason}")
        tx.emit(approval_event(tx, moved, reason))
    turn.report.add("approval", proposal.proposal_id, "not_enough_data", f"waits for a person: {reason}")
    return False


def _decide(turn: Turn, proposal: Proposal, answer: Answer, *, to: ProposalState) -> bool:
    """Move on, out, or wait, by one answer; every proof so far is kept."""
    if isinstance(answer, Passed):
        with turn.transaction() as tx:
            tx.move(proposal, to, why=answer.why, proofs=proposal.proofs, work=proposal.work)
        return True
    if isinstance(answer, Failed):
        return _settle(turn, proposal, ProposalState.REJECTED, answer.why, Verdict.REJECTED)
    wait = WAIT if isinstance(answer, NotEnoughData) else timedelta(hours=1)
    with turn.transaction() as tx:
        tx.move(
            proposal,
            ProposalState.DEFERRED,
            why=answer.why,
            proofs=proposal.proofs,
            work=proposal.work,
            deferred_until=turn.now + wait,
        )
        amend(tx, proposal.decision_id, answer.why, verdict=Verdict.DEFERRED, verdict_reason=answer.why)
    return False


def _settle(turn: Turn, proposal: Proposal, to: ProposalState, why: str, verdict: Verdict) -> bool:
    with turn.transaction() as tx:
        tx.move(proposal, to, why=why, proofs=proposal.proofs, work=proposal.work)
        amend(tx, proposal.decision_id, why, verdict=verdict, verdict_reason=why, ended_at=tx.now)
    return False


def _waits(turn: Turn, proposal: Proposal, why: str) -> bool:
    if proposal.why != why:
        with turn.transaction() as tx:
            tx.put(msgspec.structs.replace(proposal, why=why))
    turn.report.add("waits", proposal.proposal_id, "not_enough_data", why)
    return False


def _note_numbers(turn: Turn, proposal: Proposal, shadow: ProofStep, judged: ProofStep) -> None:
    score = judged.numbers.get("score")
    with turn.transaction() as tx:
        amend(
            tx,
            proposal.decision_id,
            f"shadow: {shadow.why}; judge: {judged.why}",
            shadow=shadow.numbers,
            judge_score=score.get("mean") if isinstance(score, dict) else None,
        )


def _with_proofs(proposal: Proposal, *steps: ProofStep) -> Proposal:
    return msgspec.structs.replace(proposal, proofs=(*proposal.proofs, *steps))


def _word(answer: Answer) -> str:
    return {Passed: "pass", Failed: "fail", NotEnoughData: "not_enough_data", Broken: "error"}[type(answer)]


_STEPS: dict[ProposalState, Callable[[Turn, Proposal], bool]] = {
    ProposalState.DEFERRED: _wake,
    ProposalState.PROPOSED: _gate,
    ProposalState.GATED: _replay,
    ProposalState.SHADOWING: _shadow,
    ProposalState.JUDGED: _route,
    ProposalState.AWAITING_APPROVAL: _approved,
}
