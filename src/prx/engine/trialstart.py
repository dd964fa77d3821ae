"""Creating experiments: the pre-period, the frozen plan, room beside others."""

from datetime import datetime, timedelta
from typing import Any

import msgspec

from prx.domain.answers import NotEnoughData
from prx.domain.decisions import Verdict
from prx.domain.errors import Conflict
from prx.domain.experiments import CONTROL, TREATMENT, Experiment, ExperimentStatus, Plan, Variant
from prx.domain.layers import Layer
from prx.domain.proposals import Proposal, ProposalState
from prx.domain.records import PRODUCTION
from prx.domain.versions import Manifest
from prx.engine.admission import admit, kept_out
from prx.engine.context import Context, control_of
from prx.engine.preperiod import PRE_PERIOD, PrePeriod, measure
from prx.engine.trialplan import fdr_level, make_plan
from prx.engine.turn import Turn
from prx.engine.watching import freeze_baseline
from prx.ledger.port import Transaction, View
from prx.release.applied import current
from prx.release.decisions import amend
from prx.release.evidence import require_proofs

MAX_EXPERIMENTS_PER_AGENT = 2


def pre_period(context: Context, agent: str, now: datetime) -> PrePeriod | NotEnoughData:
    """Facts of the agent's closed production sessions of the last 14 days."""
    since = now - PRE_PERIOD
    scores = context.records.scores(agent=agent, env=PRODUCTION, since=since, until=now, closed_only=True)
    weights = context.settings.fitness.weights.as_dict()
    primary = next((metric.name for metric in context.fitness.metrics if metric.role == "primary"), None)
    return measure(scores, weights, since=since, until=now, primary=primary)


def plan_for(
    context: Context,
    view: View,
    agent: str,
    layer: Layer,
    now: datetime,
    *,
    automatic: bool,
    aa: bool = False,
) -> Plan | NotEnoughData:
    """The plan that an experiment created now would freeze."""
    before = pre_period(context, agent, now)
    if isinstance(before, NotEnoughData):
        return before
    given = context.settings.experiments
    confidence = given.confidence_level
    if layer is Layer.PROMPT:
        confidence = max(confidence, context.settings.l2.confidence_level)
    level = None
    if automatic:
        earlier = view.find(Experiment, agent=agent)
        level = fdr_level(earlier, alpha=1.0 - confidence, q=given.promotion_fdr)
    return make_plan(
        context.settings,
        before,
        confidence=confidence,
        token_targets=control_of(view, agent).token_targets,
        fdr_alpha=level,
        aa=aa,
        metrics=context.fitness.metrics,
        salts=(context.ids.secret(), context.ids.secret()),
    )


def room_for(view: View, context: Context, agent: str, layer: Layer) -> str:
    """Why no experiment can start on this layer now; empty when one can."""
    running = view.find(Experiment, agent=agent, state=ExperimentStatus.RUNNING)
    if any(experiment.layer is layer for experiment in running):
        return f"an experiment on the {layer.label} is running"
    limit = min(MAX_EXPERIMENTS_PER_AGENT, context.settings.l2.max_concurrent_experiments)
    return f"{len(running)} experiments are running, {limit} allowed" if len(running) >= limit else ""


def create_experiment(
    tx: Transaction, agent: str, layer: Layer, *, plan: Plan, treated: str, proposal: Proposal | None
) -> Experiment:
    """Start comparing the current version with it plus the treated part. Raises: Conflict."""
    base = current(tx, agent)
    if proposal and base.manifest.part(layer) != proposal.base:
        raise Conflict(
            f"the {layer.label} of agent {agent!r} changed since proposal {proposal.proposal_id} was made; "
            "propose it again on the current version"
        )
    experiment = Experiment(
        experiment_id=tx.ids.new(tx.now),
        decision_id=proposal.decision_id if proposal else "",
        layer=layer,
        status=ExperimentStatus.RUNNING,
        created_at=tx.now,
        control=Variant(
            name=CONTROL, description=f"{base.label} as it is", manifest=base.manifest, version=base.label
        ),
        treatment=Variant(
            name=TREATMENT,
            description=proposal.description if proposal else "the same version (A/A test)",
            manifest=base.manifest.with_part(layer, treated),
        ),
        agent=agent,
        proposal_id=proposal.proposal_id if proposal else None,
        plan=plan,
        next_look_at=tx.now + timedelta(hours=plan.check_interval_hours),
        state={"base": base.manifest.part(layer), "others": other_parts(base.manifest, layer), "strata": []},
    )
    tx.put(experiment)
    tx.audit(
        "experiment.created", experiment.experiment_id, {"layer": layer, "plan": msgspec.to_builtins(plan)}
    )
    return experiment


def start_for_proposal(turn: Turn, proposal: Proposal) -> None:
    """Take a proposal that may run live into its experiment, or say why it has to wait."""
    with turn.view() as view:
        outside = kept_out(view, proposal.agent, proposal.layer, proposal.proposal_id, turn.now)
        blocked = outside or room_for(view, turn.context, proposal.agent, proposal.layer)
        automatic = proposal.approval is None
        plan = plan_for(turn.context, view, proposal.agent, proposal.layer, now=turn.now, automatic=automatic)
    name, report = proposal.proposal_id, turn.report
    if blocked:
        report.add("experiment", name, "not_enough_data", f"waits: {blocked}")
        return
    if isinstance(plan, NotEnoughData) or not _worth(plan):
        why = plan.why if isinstance(plan, NotEnoughData) else _unreachable(plan)
        _defer(turn, proposal, f"no experiment: {why}", days=7)
        report.add("experiment", name, "not_enough_data", why)
        return
    baseline = freeze_baseline(turn.context, turn.agent, turn.now)
    try:
        experiment = _begin(turn, proposal, plan, baseline)
    except Conflict as error:
        with turn.transaction() as tx:
            tx.move(proposal, ProposalState.CANCELLED, why=str(error))
            amend(tx, proposal.decision_id, str(error), verdict=Verdict.REJECTED, verdict_reason=str(error))
        report.add("experiment", name, "fail", str(error))
        return
    report.add("experiment", experiment.experiment_id, "done", f"started on the {proposal.layer.label}")


def _begin(turn: Turn, proposal: Proposal, plan: Plan, baseline: dict[str, Any]) -> Experiment:
    """Raises: Conflict when a proof is missing or the layer moved on; nothing is written then."""
    require_proofs(proposal)
    with turn.transaction() as tx:
        admit(tx, proposal)
        experiment = create_experiment(
            tx, proposal.agent, proposal.layer, plan=plan, treated=proposal.treated, proposal=proposal
        )
        tx.put(msgspec.structs.replace(experiment, state={**experiment.state, "baseline": baseline}))
        tx.move(
            proposal,
            ProposalState.EXPERIMENTING,
            why=f"experiment {experiment.experiment_id} runs",
            experiment_id=experiment.experiment_id,
        )
    return experiment


def other_parts(manifest: Manifest, layer: Layer) -> list[str]:
    """Hashes of the parts of all other layers."""
    return [manifest.part(other) for other in Layer if other is not layer]


def _worth(plan: Plan) -> bool:
    return bool(plan.forecast.get("worth_starting", True))


def _unreachable(plan: Plan) -> str:
    reached = plan.forecast.get("fraction_at_maximum", 0.0)
    return (
        f"only {reached:.0%} of the information can be reached in {plan.max_duration_hours:g} h, "
        "30 % needed; a person may still promote it, not proven live"
    )


def _defer(turn: Turn, proposal: Proposal, why: str, *, days: int) -> None:
    with turn.transaction() as tx:
        tx.move(proposal, ProposalState.DEFERRED, why=why, deferred_until=turn.now + timedelta(days=days))
        amend(tx, proposal.decision_id, why, verdict=Verdict.DEFERRED, verdict_reason=why)
