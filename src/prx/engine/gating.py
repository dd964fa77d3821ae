"""What the deterministic gate is told of one proposal."""

import urllib.error
import urllib.request
from collections.abc import Callable
from datetime import timedelta

from prx.domain.answers import Answer, Failed, Passed
from prx.domain.changes import PromptPatch
from prx.domain.events import Breaker, Incident
from prx.domain.experiments import Experiment, ExperimentStatus
from prx.domain.proposals import ProofStep, Proposal, ProposalState
from prx.domain.versions import PromptSet, Version, VersionSource
from prx.engine.filing import OPEN_STATES, past_changes
from prx.engine.turn import Turn
from prx.ledger.port import View
from prx.propose.fingerprint import blocked_by
from prx.prove.gate import gate, layer_free
from prx.prove.gateinput import GateInput
from prx.prove.operator_checks import run_checks
from prx.prove.rules import GateRules, OperatorCheck
from prx.release.applied import current, lineage

RECENT = timedelta(days=14)
SAMPLE = 500


def gate_proposal(turn: Turn, proposal: Proposal) -> tuple[ProofStep, ...]:
    """Every deterministic check, and the operator's own checks when those pass."""
    with turn.view() as view:
        given = _gather(turn, view, proposal)
    rules = GateRules(min_data_points=turn.settings.pipeline.min_data_points)
    steps = gate(given, rules)
    if any(step.answer != "pass" for step in steps):
        return steps
    checks = tuple(
        OperatorCheck(check.name, check.command, check.timeout_s, check.required)
        for check in turn.settings.gate.checks
    )
    return (*steps, *run_checks(checks, proposal, _texts(turn, proposal), turn.now))


def _gather(turn: Turn, view: View, proposal: Proposal) -> GateInput:
    agent, layer = proposal.agent, proposal.layer
    served = current(view, agent)
    past = past_changes(view, agent, layer)

    def failed_before(candidate: Proposal) -> str | None:
        found = blocked_by(candidate.change, past)
        return (found.why or found.fingerprint) if found else None

    breaker = view.maybe(Breaker, f"{agent}/{layer}")
    versions = view.find(Version, agent=agent)
    day_ago = turn.now - timedelta(days=1)
    return GateInput(
        proposal=proposal,
        part=view.part(served.manifest.part(layer)),
        now=turn.now,
        data_points=turn.context.records.counts().get("interactions", 0),
        approved=view.part(_approved(view, served).manifest.part(layer)),
        known_tools=_tools(turn),
        known_models=frozenset(s.model for s in turn.scores(turn.now - RECENT) if s.model),
        known_intents=frozenset(s.intent for s in turn.scores(turn.now - RECENT) if s.intent),
        proposals=_beside(turn, view, proposal),
        experiments=_running(view, proposal),
        incidents=tuple(
            one for one in view.find(Incident, agent=agent) if one.layer is layer or _unexplained(one)
        ),
        recent=tuple(v.created_at for v in versions if v.created_at > day_ago and v.proposal_id),
        cooldown_until=breaker.until if breaker and breaker.state == "open" else None,
        failed_before=failed_before,
        health=_health(turn),
    )


def layer_taken(turn: Turn, proposal: Proposal) -> str:
    """What a proposal has to wait for in its layer; empty when it may be worked on."""
    with turn.view() as view:
        answer = layer_free(proposal, _beside(turn, view, proposal), _running(view, proposal))
    return "" if isinstance(answer, Passed) else answer.why


def _beside(turn: Turn, view: View, proposal: Proposal) -> tuple[Proposal, ...]:
    found = view.find(Proposal, agent=proposal.agent, layer=proposal.layer, state=OPEN_STATES)
    return tuple(other for other in found if not _past_watch(turn, other))


def _running(view: View, proposal: Proposal) -> tuple[Experiment, ...]:
    states = (ExperimentStatus.RUNNING, ExperimentStatus.EVALUATING)
    return view.find(Experiment, agent=proposal.agent, layer=proposal.layer, state=states)


def _unexplained(incident: Incident) -> bool:
    """No change began it, so that none of any layer may be added to it."""
    return incident.version is None and incident.proposal_id is None


def _tools(turn: Turn) -> frozenset[str]:
    """Names of the tools that the agent used lately; an edit may not bring other ones."""
    traces = turn.context.records.traces(
        agent=turn.agent, since=turn.now - RECENT, until=turn.now, newest_first=True, limit=SAMPLE
    )
    return frozenset(tool.name for trace in traces for call in trace.interactions for tool in call.tool_calls)


def _past_watch(turn: Turn, other: Proposal) -> bool:
    """A change past its close watch may be built upon; its window goes on beside."""
    hours = turn.settings.safety.regression_monitoring_hours
    return other.state is ProposalState.WATCHING and turn.now - other.state_since >= timedelta(hours=hours)


def _approved(view: View, served: Version) -> Version:
    """The newest version that a person had a hand in, from which drift is measured."""
    for version in lineage(view, served):
        if version.source is not VersionSource.ENGINE:
            return version
        proposal = view.maybe(Proposal, version.proposal_id) if version.proposal_id else None
        if proposal and proposal.approval is not None:
            return version
    return served


def _texts(turn: Turn, proposal: Proposal) -> dict[str, str]:
    if not isinstance(proposal.change, PromptPatch):
        return {}
    with turn.view() as view:
        part = view.part(proposal.treated)
    return dict(part.texts) if isinstance(part, PromptSet) else {}


def _health(turn: Turn) -> Callable[[], Answer] | None:
    url = turn.settings.pipeline.health_check_url
    if not url:
        return None

    def ask() -> Answer:
        timeout = turn.settings.safety.sanity_check_timeout_secs
        try:
            with urllib.request.urlopen(url, timeout=timeout) as answer:
                code = answer.status
        except urllib.error.HTTPError as error:
            code = error.code
        return Passed(f"{url} answers 200") if code == 200 else Failed(f"{url} answers {code}", "unhealthy")

    return ask
