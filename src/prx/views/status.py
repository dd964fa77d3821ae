"""How the engine of one agent stands."""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime

from prx.domain.decisions import Decision
from prx.domain.events import Breaker, Control, Due, Incident
from prx.domain.experiments import Experiment, ExperimentStatus
from prx.domain.findings import Finding
from prx.domain.layers import Layer
from prx.domain.proposals import TERMINAL_STATES, Proposal, ProposalState
from prx.ledger.port import View
from prx.settings import MemoryLayer, ModelRole, PromptLayer, Settings, StrategyLayer

CYCLE_JOB = "evolve"


@dataclass(frozen=True, slots=True)
class LayerStatus:
    """One layer: what it may do (off, asks you, applies by itself), when it ran, what is in work."""

    layer: Layer
    enabled: bool
    mode: str
    schedule: str
    last_run: datetime | None
    next_run: datetime | None
    breaker: str
    in_work: int
    experiment_id: str | None


@dataclass(frozen=True, slots=True)
class JobStatus:
    """One recurring job, its times and how its last run went."""

    job: str
    last_run: datetime | None
    next_run: datetime
    failures: int
    note: str


@dataclass(frozen=True, slots=True)
class Status:
    """The engine of one agent. `engine` is off, running, paused or killed, with the reason in `why`."""

    agent: str
    engine: str
    why: str
    version: str | None
    version_since: datetime | None
    layers: tuple[LayerStatus, ...]
    jobs: tuple[JobStatus, ...]
    total_cycles: int
    rollbacks: int
    findings: int
    awaiting_approval: tuple[str, ...]
    experiments_running: int
    open_incidents: int
    no_experiment_because: tuple[str, ...]
    hints: tuple[str, ...]


def status(view: View, settings: Settings, agent: str) -> Status:
    """Everything that `prx evolution status` says."""
    control = view.maybe(Control, agent) or Control(agent=agent)
    pointer = view.pointer(agent)
    jobs = view.find(Due, agent=agent)
    running = view.find(Experiment, agent=agent, state=ExperimentStatus.RUNNING)
    proposals = view.find(Proposal, agent=agent)
    waiting = tuple(p.proposal_id for p in proposals if p.state is ProposalState.AWAITING_APPROVAL)
    engine, why = _engine(settings, control)
    return Status(
        agent=agent,
        engine=engine,
        why=why,
        version=pointer.label if pointer else None,
        version_since=pointer.since if pointer else None,
        layers=tuple(_layer(view, settings, agent, layer) for layer in Layer),
        jobs=tuple(JobStatus(d.job, d.last_run, d.at, d.failures, d.note) for d in jobs if _is_work(d)),
        total_cycles=sum(due.runs for due in jobs if due.job == CYCLE_JOB),
        rollbacks=sum(one.proposal.get("type") == "rollback" for one in view.find(Decision, agent=agent)),
        findings=sum(one.resolved_at is None for one in view.find(Finding, agent=agent)),
        awaiting_approval=waiting,
        experiments_running=len(running),
        open_incidents=sum(one.acknowledged_at is None for one in view.find(Incident, agent=agent)),
        no_experiment_because=_blocked(proposals),
        hints=(
            *_alerts(control),
            *_hints(settings, agent, pointer is not None, waiting),
            *_others(view, agent),
        ),
    )


def mode_of(settings: Settings, layer: Layer) -> str:
    """What the layer does with a change that it proved: off, asks you, applies by itself."""
    section = section_of(settings, layer)
    if not settings.enabled or not section.enabled:
        return "off"
    if layer is Layer.MEMORY:
        return f"by itself below risk {settings.l1.risk_threshold:g}"
    asks = settings.l3.require_approval if layer is Layer.STRATEGY else False
    return "applies by itself" if settings.auto_apply and not asks else "asks you"


def section_of(settings: Settings, layer: Layer) -> MemoryLayer | PromptLayer | StrategyLayer:
    """The configuration section of a layer."""
    if layer is Layer.MEMORY:
        return settings.l1
    return settings.l2 if layer is Layer.PROMPT else settings.l3


def _engine(settings: Settings, control: Control) -> tuple[str, str]:
    if control.killed:
        return "killed", control.why or "the kill switch is on; every request gets the current version"
    if control.paused:
        return "paused", control.why
    if not settings.enabled:
        return "off", "recording and analysis go on, nothing is proposed"
    return "running", ""


def _layer(view: View, settings: Settings, agent: str, layer: Layer) -> LayerStatus:
    section = section_of(settings, layer)
    jobs = view.find(Due, agent=agent)
    running = view.find(Experiment, agent=agent, layer=layer, state=ExperimentStatus.RUNNING)
    proposals = view.find(Proposal, agent=agent, layer=layer)
    own = next((due for due in jobs if due.job == f"layer.{layer}"), None)
    breaker = next(iter(view.find(Breaker, agent=agent, layer=layer)), None)
    return LayerStatus(
        layer=layer,
        enabled=settings.enabled and section.enabled,
        mode=mode_of(settings, layer),
        schedule=section.schedule,
        last_run=own.last_run if own else None,
        next_run=own.at if own else None,
        breaker=breaker.state if breaker else "closed",
        in_work=sum(one.state not in TERMINAL_STATES for one in proposals),
        experiment_id=next((one.experiment_id for one in running), None),
    )


def _is_work(due: Due) -> bool:
    return due.last_run is not None and due.job != "lease"


def _blocked(proposals: tuple[Proposal, ...]) -> tuple[str, ...]:
    found = [one for one in proposals if one.state is ProposalState.DEFERRED and one.why]
    reasons = Counter((one.layer, one.why) for one in found)
    return tuple(f"{layer.label}, {number} deferred: {why}" for (layer, why), number in reasons.items())


def _hints(settings: Settings, agent: str, served: bool, waiting: tuple[str, ...]) -> tuple[str, ...]:
    hints = []
    if not served:
        hints.append(f"agent {agent} has no version yet: record a session with a named prompt, or import one")
    if not settings.enabled:
        hints.append("to let the engine propose changes: prx evolution config --set enabled=true")
    roles = settings.models
    missing = [r for r in ("agent", "judge", "proposer") if not _usable(getattr(roles, r))]
    if settings.enabled and missing:
        hints.append(
            f"no model is configured as {', '.join(missing)} ([self_evolution.models]): "
            "the steps that need one wait"
        )
    if waiting:
        hints.append("waiting for you: prx evolution proposals --state awaiting_approval")
    return (*hints, *settings.notes)


def _alerts(control: Control) -> tuple[str, ...]:
    return tuple(f"open alert since {since[:16]}: {key}" for key, since in sorted(control.alerts.items()))


def _others(view: View, agent: str) -> tuple[str, ...]:
    others = [name for name in view.agents() if name != agent]
    return (f"other agents: {', '.join(others)} (--agent NAME)",) if others else ()


def _usable(role: ModelRole) -> bool:
    return bool(role.configured or role.checker)
