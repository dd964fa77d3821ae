"""The breaker's tick on everything that is served: experiment arms, watched and confirmed changes."""

from datetime import datetime, timedelta
from functools import partial
from typing import Any

import msgspec

from prx.domain.events import Breaker
from prx.domain.experiments import CONTROL, TREATMENT, Experiment, ExperimentStatus
from prx.domain.proposals import Proposal
from prx.domain.scores import SessionScore
from prx.domain.versions import Version
from prx.engine.admission import note_common_cause
from prx.engine.attempt import attempt
from prx.engine.blame import Blame, blame, suspects
from prx.engine.holding import HELD, sides, still_held
from prx.engine.preperiod import failure_rate
from prx.engine.turn import Turn
from prx.engine.undo import Alarm, open_breaker, reading_numbers, record_incident, take_back
from prx.engine.undone import of_what_serves, served_since
from prx.ledger.port import View
from prx.release.breaker import (
    LAST_CALLS,
    BreakerRules,
    CommonCause,
    Hold,
    Rate,
    Trip,
    frozen_rate,
    predictive_tail,
    tick,
)
from prx.release.control import beside_rate
from prx.release.stop import cancel_experiment
from prx.settings import Settings

LONGEST = timedelta(days=7)
APART = 0.01


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
    """One tick for every running experiment and for every change that serves."""
    with turn.view() as view:
        running = view.find(Experiment, agent=turn.agent, state=ExperimentStatus.RUNNING)
        served = _in_force(view, turn.agent, turn.now)
    causes: dict[str, str] = {}
    for experiment in running:
        work = partial(_tick_experiment, turn, experiment, causes)
        attempt(turn, "breaker", experiment.experiment_id, work)
    for version in served:
        attempt(turn, "breaker", version.label, partial(_tick_version, turn, version, causes))
    note_common_cause(turn, causes)


def _in_force(view: View, agent: str, now: datetime) -> tuple[Version, ...]:
    """The changes that serve and are not old, newest first; none before the first version."""
    return suspects(view, agent, now) if view.pointer(agent) else ()


def _tick_experiment(turn: Turn, experiment: Experiment, causes: dict[str, str]) -> None:
    rules = breaker_rules(turn.settings)
    scores = list(turn.scores(experiment.created_at, experiment_id=experiment.experiment_id))
    treated = [s for s in scores if _assigned(s, experiment) == TREATMENT]
    control = [s for s in scores if _assigned(s, experiment) == CONTROL]
    since = turn.now - timedelta(hours=rules.window_hours)
    frozen = _frozen(experiment.state.get("baseline", {}), turn.now, rules)
    hour = failure_rate(s for s in control if s.started_at >= since)
    found = tick(
        failure_rate(s for s in treated if s.started_at >= since),
        failure_rate(treated[-LAST_CALLS:]),
        beside_rate(failure_rate(control), hour, frozen, rules),
        age=turn.now - experiment.created_at,
        slow_since=_slow_since(experiment.state),
        now=turn.now,
        rules=rules,
        control=hour,
        control_baseline=frozen,
    )
    if isinstance(found, CommonCause):
        causes[experiment.experiment_id] = found.why
    if not isinstance(found, Trip):
        slow = found.reading.slow_since if isinstance(found, Hold) else None
        if slow != _slow_since(experiment.state):
            state = {**experiment.state, "slow_since": slow.isoformat() if slow else None}
            with turn.transaction() as tx:
                tx.put(msgspec.structs.replace(tx.get(Experiment, experiment.experiment_id), state=state))
        return
    window = [s for s in treated if s.started_at >= since]
    alarm = Alarm("breaker", found.why, reading_numbers(found.reading), window or treated)
    with turn.transaction() as tx:
        proposal = tx.get(Proposal, experiment.proposal_id) if experiment.proposal_id else None
        version = experiment.control.version
        incident = record_incident(
            tx, turn.agent, experiment.layer, alarm, version=None, proposal=proposal, restored=version
        )
        cancel_experiment(tx, tx.get(Experiment, experiment.experiment_id), reason="breaker", why=found.why)
        open_breaker(tx, turn.agent, experiment.layer, hours=turn.settings.breaker.cooldown_hours)
    turn.report.add(
        "breaker", experiment.experiment_id, "fail", f"{found.why}; incident {incident.incident_id}"
    )


def _tick_version(turn: Turn, version: Version, causes: dict[str, str]) -> None:
    rules, began = breaker_rules(turn.settings), served_since(version)
    since = turn.now - timedelta(hours=rules.window_hours)
    with turn.view() as view:
        breaker = view.maybe(Breaker, f"{turn.agent}/{version.layer}")
        serving = {one.label for one in _in_force(view, turn.agent, turn.now)}
        held = still_held(view, version, turn.now)
    if version.label not in serving:
        return
    recent = list(of_what_serves(turn, max(began, since)))
    week = max(began, turn.now - LONGEST)
    enough = len(recent) >= rules.min_sessions
    last = recent if enough else list(of_what_serves(turn, week))
    frozen = _frozen(version.baseline, turn.now, rules)
    beside = sides(turn, version, began).control if held else []
    window = recent if enough else last[-LAST_CALLS:]
    same_time = [score for score in beside if window and score.started_at >= window[0].started_at]
    control = [score for score in beside if score.started_at >= since]
    beside = beside if same_time else []
    baseline = beside_rate(failure_rate(beside), failure_rate(control), frozen, rules)
    slow_since = breaker.slow_since if breaker and breaker.slow_version == version.label else None
    found = tick(
        failure_rate(recent),
        failure_rate(last[-LAST_CALLS:]),
        baseline,
        age=turn.now - version.created_at,
        slow_since=slow_since,
        now=turn.now,
        rules=rules,
        control=failure_rate(control),
        control_baseline=frozen,
    )
    if isinstance(found, Trip):
        alarm = Alarm("breaker", found.why, reading_numbers(found.reading), recent or last)
        apart = predictive_tail(failure_rate(window), failure_rate(same_time)) < APART
        blamed = Blame((version,), HELD) if apart else blame(turn, version, _failure, failures=True)
        take_back(turn, version, alarm, blamed)
        return
    slow = found.reading.slow_since if isinstance(found, Hold) else None
    claimed = breaker is not None and breaker.slow_since is not None and breaker.slow_version in serving
    if slow != slow_since and (slow_since is not None or not claimed):
        _keep_slow(turn, version, slow)
    if isinstance(found, CommonCause):
        causes[version.label] = found.why


def _failure(score: SessionScore) -> float | None:
    return None if score.failed is None else float(score.failed)


def _keep_slow(turn: Turn, version: Version, slow: datetime | None) -> None:
    """Remember since when this version fails too often; of several in a layer, the first to do so."""
    key, layer = f"{turn.agent}/{version.layer}", version.layer
    assert layer is not None
    with turn.transaction() as tx:
        breaker = tx.maybe(Breaker, key) or Breaker(breaker_id=key, agent=turn.agent, layer=layer)
        tx.put(msgspec.structs.replace(breaker, slow_since=slow, slow_version=version.label))


def _assigned(score: SessionScore, experiment: Experiment) -> str | None:
    arm = score.arm(experiment.experiment_id)
    return arm.assigned if arm else None


def _frozen(baseline: dict[str, Any], now: datetime, rules: BreakerRules) -> Rate:
    failures, sessions = baseline.get("failures", [0, 0])
    hours = {int(hour): Rate(int(told[0]), int(told[1])) for hour, told in baseline.get("hours", {}).items()}
    return frozen_rate(Rate(int(failures), int(sessions)), hours, now, rules)


def _slow_since(kept: dict[str, Any]) -> datetime | None:
    text = kept.get("slow_since")
    return datetime.fromisoformat(text) if text else None
