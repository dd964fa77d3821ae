"""What people ask of the engine: approve, reject, confirm, propose, roll back, pause."""

from datetime import datetime, timedelta

import msgspec

from prx.domain.answers import NotEnoughData
from prx.domain.changes import PromptPatch, ReplaceAll
from prx.domain.decisions import Verdict
from prx.domain.errors import Conflict, InvalidInput
from prx.domain.events import Breaker, Control, Event, EventName, Incident
from prx.domain.experiments import Experiment, ExperimentStatus
from prx.domain.layers import Layer
from prx.domain.operations import Operation
from prx.domain.proposals import Approval, Proposal, ProposalState
from prx.domain.versions import PromptSet
from prx.engine.admission import admit
from prx.engine.approvals import covered, policy_version, refuse_approver
from prx.engine.context import control_of
from prx.engine.filing import Filing, file_proposal
from prx.engine.holding import hold_back
from prx.engine.trialend import converge
from prx.engine.trials import conclude_by_hand
from prx.engine.trialstart import create_experiment, plan_for, room_for
from prx.engine.turn import Turn
from prx.engine.watching import confirm, freeze_baseline
from prx.ledger.port import Transaction
from prx.propose.fingerprint import fingerprint
from prx.propose.risk import risk_of
from prx.release.applied import current
from prx.release.decisions import amend
from prx.release.promote import promote
from prx.release.rollback import RollbackResult, execute_rollback, plan_rollback
from prx.release.stop import cancel_experiment

APPROVAL_LIFETIME = timedelta(days=45)


def approve(turn: Turn, proposal_id: str, actor: str, *, simulated: bool = False) -> Proposal:
    """Say yes to exactly what is shown now; bound to content, base, policy and a date."""
    with turn.view() as view:
        proposal = view.get(Proposal, proposal_id)
    if proposal.state is not ProposalState.AWAITING_APPROVAL:
        raise InvalidInput(
            f"proposal {proposal_id} is {proposal.state}; only one that waits for approval can be approved "
            "(`prx evolution proposals --state awaiting_approval`)"
        )
    refuse_approver(proposal, actor, turn.settings)
    approval = Approval(
        actor=actor,
        at=turn.now,
        content_hash=covered(proposal),
        base=proposal.base,
        policy_version=policy_version(turn.settings),
        expires_at=turn.now + APPROVAL_LIFETIME,
        simulated=simulated,
    )
    approved = msgspec.structs.replace(proposal, approval=approval)
    live = any(step.name == "experiment" and step.answer == "pass" for step in proposal.proofs)
    baseline = freeze_baseline(turn.context, turn.agent, turn.now)
    why = f"approved by {actor}"
    with turn.transaction(actor) as tx:
        if tx.get(Proposal, proposal_id) != proposal:
            raise Conflict(f"proposal {proposal_id} changed while it was being approved; look at it again")
        tx.put(approved)
        told = {"covers": approval.content_hash, "content": proposal.treated, "base": proposal.base}
        tx.audit("proposal.approved", proposal_id, {**told, "policy": approval.policy_version})
        amend(tx, proposal.decision_id, why, verdict=Verdict.APPROVED, verdict_reason=why)
        if live or proposal.layer is Layer.MEMORY:
            evidence = "live" if live else "paired_offline"
            admit(tx, approved)
            held = hold_back(turn.context, tx, approved, baseline, turn.now)
            promoted, _ = promote(tx, approved, why=why, evidence=evidence, baseline=held)
            return promoted
    return approved


def reject(turn: Turn, proposal_id: str, actor: str, why: str) -> Proposal:
    """Say no. A rejected change is not proposed again unmodified."""
    with turn.transaction(actor) as tx:
        proposal = tx.get(Proposal, proposal_id)
        if proposal.state is ProposalState.EXPERIMENTING and proposal.experiment_id:
            cancel_experiment(
                tx, tx.get(Experiment, proposal.experiment_id), reason="rejected", why=f"rejected by {actor}"
            )
            return tx.get(Proposal, proposal_id)
        moved = tx.move(proposal, ProposalState.REJECTED, why=f"rejected by {actor}: {why}")
        amend(
            tx,
            proposal.decision_id,
            f"rejected by {actor}: {why}",
            verdict=Verdict.REJECTED,
            verdict_reason=why,
            evidence="human",
            ended_at=tx.now,
        )
        return moved


def confirm_change(turn: Turn, proposal_id: str, actor: str) -> Proposal:
    """End a watch early: a person is satisfied."""
    with turn.view() as view:
        proposal = view.get(Proposal, proposal_id)
    return confirm(turn, proposal, f"confirmed by {actor}", actor)


def propose_prompt(turn: Turn, name: str, text: str, actor: str) -> Proposal:
    """File a whole new text of a prompt."""
    if not text.strip():
        raise InvalidInput("the proposed prompt is empty; nothing was filed")
    with turn.transaction(actor) as tx:
        if tx.pointer(turn.agent) is None:
            raise InvalidInput(
                f"agent {turn.agent!r} has no prompt yet; call `session.prompt({name!r}, default=...)` "
                "in the app first"
            )
        part = tx.part(current(tx, turn.agent).manifest.prompt)
        assert isinstance(part, PromptSet)
        if name not in part.texts:
            known = ", ".join(sorted(part.texts)) or "none"
            raise InvalidInput(f"agent {turn.agent!r} has no prompt {name!r}; it has: {known}")
        if part.texts[name] == text:
            raise InvalidInput(f"this is the text of {name!r} that serves already; nothing was filed")
        change = PromptPatch(prompt=name, ops=(ReplaceAll(text=text),))
        return file_proposal(
            tx,
            Filing(
                agent=turn.agent,
                change=change,
                description=f"new text for prompt {name!r} by {actor}",
                rationale=f"proposed by {actor}",
                trigger="person",
                author=actor,
                fingerprint=fingerprint(change),
                risk=risk_of(change, before=part.texts[name]),
                data_points=turn.context.records.counts().get("sessions", 0),
            ),
        )


def rollback(
    turn: Turn,
    actor: str,
    *,
    target: str | None = None,
    layer: Layer | None = None,
    snapshot: str | None = None,
    operation: str | None = None,
) -> RollbackResult:
    """Undo the last change, or restore a version, a snapshot or one layer of it.

    `operation`: an id of the caller's; the same one again gives the first answer and does nothing.
    Raises: Conflict for an id that was used for something else.
    """
    asked = {"target": target, "layer": layer and layer.value, "snapshot": snapshot}
    with turn.transaction(actor) as tx:
        known = tx.maybe(Operation, operation) if operation else None
        if known is not None:
            return _answered(tx, known, turn.agent, asked)
        plan = plan_rollback(tx, turn.agent, target=target, layer=layer, snapshot=snapshot)
        done = execute_rollback(tx, plan, why=f"rolled back by {actor}")
        if operation:
            tx.put(
                Operation(
                    operation_id=operation,
                    agent=turn.agent,
                    asked=asked,
                    at=turn.now,
                    restored=done.restored,
                    left=done.left,
                    layers=done.layers,
                    cancelled_experiments=done.cancelled_experiments,
                )
            )
        return done


def _answered(tx: Transaction, known: Operation, agent: str, asked: dict[str, str | None]) -> RollbackResult:
    if (known.agent, known.asked) != (agent, asked):
        raise Conflict(
            f"operation {known.operation_id!r} was something else ({known.asked} of agent {known.agent!r}); "
            "nothing was done; give every operation an id of its own"
        )
    return RollbackResult(
        known.restored,
        known.left,
        known.layers,
        tx.version(agent, known.restored),
        known.cancelled_experiments,
        repeated=True,
    )


def cancel(turn: Turn, experiment_id: str, actor: str) -> Experiment:
    """Stop an experiment; control serves at once."""
    with turn.transaction(actor) as tx:
        experiment = tx.get(Experiment, experiment_id)
        return cancel_experiment(tx, experiment, reason="cancelled", why=f"cancelled by {actor}")


def converge_by_hand(turn: Turn, experiment_id: str, actor: str) -> Experiment:
    """End an experiment by what its data conclude now (for `auto_converge.enabled = false`)."""
    with turn.view() as view:
        experiment = view.get(Experiment, experiment_id)
    if experiment.status is not ExperimentStatus.RUNNING:
        raise InvalidInput(f"experiment {experiment_id} is {experiment.status} already")
    looked = conclude_by_hand(turn.context, experiment, turn.now)
    stored = msgspec.structs.replace(experiment, looks=(*experiment.looks, looked.look))
    baseline = freeze_baseline(turn.context, turn.agent, turn.now)
    with turn.transaction(actor) as tx:
        return converge(tx, turn.context, stored, looked.conclusion, baseline=baseline)


def create_aa(turn: Turn, layer: Layer, actor: str) -> Experiment:
    """Start an A/A test: the same version in both arms."""
    with turn.view() as view:
        blocked = room_for(view, turn.context, turn.agent, layer)
        plan = plan_for(turn.context, view, turn.agent, layer, now=turn.now, automatic=False, aa=True)
        part = current(view, turn.agent).manifest.part(layer)
    if blocked:
        raise InvalidInput(f"no A/A test now: {blocked}")
    if isinstance(plan, NotEnoughData):
        raise InvalidInput(f"no A/A test now: not enough data ({plan.why})")
    with turn.transaction(actor) as tx:
        return create_experiment(tx, turn.agent, layer, plan=plan, treated=part, proposal=None)


def pause(turn: Turn, actor: str, why: str) -> Control:
    """No new proposal or experiment step; breakers and watches go on."""
    return switch(turn, actor, why, paused=True, event="paused")


def resume(turn: Turn, actor: str, why: str) -> Control:
    """Go on after a pause or a kill; what failed before is acknowledged."""
    return switch(turn, actor, why, paused=False, event="resumed")


def kill(turn: Turn, actor: str, why: str) -> Control:
    """Everything to the champion now: experiments are cancelled, nothing runs until resumed."""
    with turn.transaction(actor) as tx:
        for experiment in tx.find(Experiment, agent=turn.agent, state=ExperimentStatus.RUNNING):
            cancel_experiment(tx, experiment, reason="kill_switch", why=f"kill switch by {actor}: {why}")
    return switch(turn, actor, why, paused=True, event="killed")


def acknowledge(turn: Turn, incident_id: str, actor: str) -> Incident:
    """A person has read the incident; its breaker may close at the end of its cooldown."""
    with turn.transaction(actor) as tx:
        incident = tx.get(Incident, incident_id)
        read = msgspec.structs.replace(incident, acknowledged_at=turn.now)
        tx.put(read)
        tx.audit("incident.acknowledged", incident_id, {})
        return read


def open_incidents(turn: Turn, layer: Layer) -> tuple[Incident, ...]:
    """Incidents of the layer that nobody has acknowledged."""
    with turn.view() as view:
        found = view.find(Incident, agent=turn.agent, layer=layer)
    return tuple(incident for incident in found if incident.acknowledged_at is None)


def breaker_until(turn: Turn, layer: Layer) -> datetime | None:
    """When the open breaker of the layer lets changes through again; None when it is closed."""
    with turn.view() as view:
        found = view.maybe(Breaker, f"{turn.agent}/{layer}")
    return found.until if found and found.state == "open" and found.until else None


def switch(turn: Turn, actor: str, why: str, *, paused: bool, event: str) -> Control:
    """Set the agent's control record; `event` is paused, resumed or killed."""
    with turn.transaction(actor) as tx:
        before = control_of(tx, turn.agent)
        changed = msgspec.structs.replace(
            before,
            paused=paused,
            killed=event == "killed",
            why=why,
            actor=actor,
            since=turn.now,
            failed_cycles=before.failed_cycles if paused else 0,
            failed_at=before.failed_at if paused else None,
        )
        tx.put(changed)
        tx.audit(f"engine.{event}", turn.agent, {"why": why})
        if paused:
            tx.emit(
                Event(
                    event_id=tx.ids.new(tx.now),
                    at=tx.now,
                    agent=turn.agent,
                    name=EventName.PAUSED,
                    summary=f"{event} by {actor}: {why}",
                    details={"killed": changed.killed},
                )
            )
        return changed
