"""The breaker's tick on everything that is served: experiment arms, watched and confirmed changes."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from prx.domain.errors import InvalidInput
from prx.domain.experiments import CONTROL, TREATMENT, Experiment, ExperimentStatus
from prx.domain.proposals import Proposal, ProposalState
from prx.domain.scores import SessionScore
from prx.engine.preperiod import failure_rate
from prx.engine.turn import Turn
from prx.engine.undo import Alarm, open_breaker, reading_numbers, record_incident, undo
from prx.ledger.port import View
from prx.release.applied import current
from prx.release.breaker import LAST_CALLS, BreakerRules, CommonCause, Hold, Rate, Tick, Trip, tick
from prx.release.stop import cancel_experiment
from prx.settings import Settings


def breaker_rules(settings: Settings) -> BreakerRules:
    """Breaker rules from the operator's settings."""
    given, safety = settings.breaker, settings.safety
    return BreakerRules(
        ratio=given.failure_ratio,
        min_sessions=given.min_sessions,
        min_failures=given.min_failures,
        window_hours=given.window_minutes / 60,
        watch_hours=safety.regression_monitoring_hours,
        window_end_hours=safety.rollback_window_hours,
        strict_ratio=given.strict_ratio,
    )


def tick_breakers(turn: Turn) -> None:
    """One tick for every running experiment and for the newest change of each layer that serves."""
    with turn.view() as view:
        running = view.find(Experiment, agent=turn.agent, state=ExperimentStatus.RUNNING)
        served = _in_force(view, turn.agent)
    for experiment in running:
        _tick_experiment(turn, experiment)
    for proposal in served:
        _tick_change(turn, proposal)


def promoted_at(proposal: Proposal) -> datetime:
    """When the change began to serve everyone."""
    told = proposal.work.get("promoted_at")
    return datetime.fromisoformat(told) if told else proposal.state_since


def _in_force(view: View, agent: str) -> list[Proposal]:
    watching = list(view.find(Proposal, agent=agent, state=ProposalState.WATCHING))
    try:
        version = current(view, agent)
    except InvalidInput:
        return watching
    newest = view.maybe(Proposal, version.proposal_id) if version.proposal_id else None
    if newest and newest.state is ProposalState.CONFIRMED:
        watching.append(newest)
    return watching


def _tick_experiment(turn: Turn, experiment: Experiment) -> None:
    rules = breaker_rules(turn.settings)
    scores = list(turn.scores(experiment.created_at, experiment_id=experiment.experiment_id))
    treated = [s for s in scores if s.assigned == TREATMENT]
    control = [s for s in scores if s.assigned == CONTROL]
    since = turn.now - timedelta(hours=rules.window_hours)
    frozen, concurrent = _frozen(experiment.state), failure_rate(control)
    found = tick(
        failure_rate(s for s in treated if s.started_at >= since),
        failure_rate(treated[-LAST_CALLS:]),
        concurrent if concurrent.sessions >= rules.min_sessions else frozen,
        age=turn.now - experiment.created_at,
        slow_since=_slow_since(experiment.state),
        now=turn.now,
        rules=rules,
        control=failure_rate(s for s in control if s.started_at >= since),
        control_baseline=frozen,
    )
    if not isinstance(found, Trip):
        _keep_slow(turn, experiment, found)
        return
    window = [s for s in treated if s.started_at >= since]
    alarm = Alarm("breaker", found.why, reading_numbers(found.reading), window or treated)
    with turn.transaction() as tx:
        proposal = tx.get(Proposal, experiment.proposal_id) if experiment.proposal_id else None
        version = experiment.control.version
        incident = record_incident(
            tx, turn.agent, experiment.layer, alarm, proposal=proposal, restored=version
        )
        cancel_experiment(tx, tx.get(Experiment, experiment.experiment_id), reason="breaker", why=found.why)
        open_breaker(tx, turn.agent, experiment.layer, hours=turn.settings.breaker.cooldown_hours)
    turn.report.add(
        "breaker", experiment.experiment_id, "fail", f"{found.why}; incident {incident.incident_id}"
    )


def _tick_change(turn: Turn, proposal: Proposal) -> None:
    rules = breaker_rules(turn.settings)
    promoted = promoted_at(proposal)
    since = turn.now - timedelta(hours=rules.window_hours)
    recent = list(turn.scores(max(promoted, since)))
    last = recent if len(recent) >= rules.min_sessions else _last_sessions(turn, promoted)
    found = tick(
        failure_rate(recent),
        failure_rate(last[-LAST_CALLS:]),
        _frozen(proposal.work),
        age=turn.now - promoted,
        slow_since=_slow_since(proposal.work),
        now=turn.now,
        rules=rules,
    )
    if isinstance(found, Trip):
        undo(turn, proposal, Alarm("breaker", found.why, reading_numbers(found.reading), recent or last))
        return
    _keep_slow(turn, proposal, found)
    if isinstance(found, CommonCause):
        turn.report.add("breaker", proposal.proposal_id, "error", found.why)


def _last_sessions(turn: Turn, promoted: datetime) -> Sequence[SessionScore]:
    return list(turn.scores(max(promoted, turn.now - timedelta(days=7))))


def _keep_slow(turn: Turn, subject: Experiment | Proposal, found: Tick) -> None:
    slow = found.reading.slow_since if isinstance(found, Hold) else None
    known = subject.state if isinstance(subject, Experiment) else subject.work
    if slow == _slow_since(known):
        return
    changed = {**known, "slow_since": slow.isoformat() if slow else None}
    with turn.transaction() as tx:
        if isinstance(subject, Experiment):
            tx.put(msgspec.structs.replace(tx.get(Experiment, subject.experiment_id), state=changed))
        else:
            tx.put(msgspec.structs.replace(tx.get(Proposal, subject.proposal_id), work=changed))


def _frozen(kept: dict[str, Any]) -> Rate:
    failures, sessions = kept.get("baseline", {}).get("failures", [0, 0])
    return Rate(int(failures), int(sessions))


def _slow_since(kept: dict[str, Any]) -> datetime | None:
    text = kept.get("slow_since")
    return datetime.fromisoformat(text) if text else None
