"""From promotion to confirmation: is fitness still what it was, or better?"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import msgspec

from prx.domain.answers import NotEnoughData
from prx.domain.decisions import DecisionOutcome
from prx.domain.holdback import holdback_of
from prx.domain.layers import Layer
from prx.domain.proposals import Proposal, ProposalState
from prx.domain.records import PRODUCTION
from prx.domain.scores import DIMENSIONS, OwnMetric, SessionScore
from prx.engine.attempt import attempt
from prx.engine.blame import Blame, blame
from prx.engine.context import ENGINE, Context
from prx.engine.filing import NEUTRAL
from prx.engine.holding import HELD, PER_DAY, sides
from prx.engine.preperiod import (
    FAILURE_BASELINE,
    PRE_PERIOD,
    composite_of,
    failure_rates,
    levels,
    sessions_per_day,
)
from prx.engine.turn import Turn
from prx.engine.undo import Alarm, close_breaker, roll_back, take_back
from prx.engine.undone import of_what_serves, untried
from prx.release.applied import changes_in_force, current
from prx.release.decisions import amend
from prx.release.watch import COMPOSITE, Holding, Level, Regressed, WatchRules, watch

FAMILY_ALPHA = 0.01


def deciding(context: Context) -> tuple[OwnMetric, ...]:
    """The own metrics that a change may not hurt: guardrails, and the primary one."""
    return tuple(metric for metric in context.fitness.metrics if metric.decides)


def freeze_baseline(context: Context, agent: str, now: datetime) -> dict[str, Any]:
    """Failure rates of 7 days and fitness levels of 14 days before a change, as plain values."""

    def scores(span: timedelta) -> Iterator[SessionScore]:
        found = context.records.scores(agent=agent, env=PRODUCTION, since=now - span, until=now)
        with context.ledger.view() as view:
            return untried(view, agent, found)

    failures, hours = failure_rates(scores(FAILURE_BASELINE))
    traffic = sessions_per_day(scores(FAILURE_BASELINE), now)
    weights = context.settings.fitness.weights.as_dict()
    found = levels(scores(PRE_PERIOD), weights, deciding(context))
    return {
        "failures": [failures.failures, failures.sessions],
        "hours": {str(hour): [rate.failures, rate.sessions] for hour, rate in hours.items()},
        PER_DAY: traffic,
        "levels": {
            name: [level.mean, level.variance, level.sessions, level.day_variance, level.days, level.design]
            for name, level in found.items()
        },
    }


def tick_watches(turn: Turn) -> None:
    """One look at every change that is being watched."""
    with turn.view() as view:
        watching = view.find(Proposal, agent=turn.agent, state=ProposalState.WATCHING)
    for proposal in watching:
        attempt(turn, "watch", proposal.proposal_id, partial(_tick, turn, proposal))


def _tick(turn: Turn, proposal: Proposal) -> None:
    promoted, before = proposal.state_since, _before(turn, proposal)
    scores = list(of_what_serves(turn, promoted))
    window = timedelta(hours=turn.settings.safety.rollback_window_hours)
    found = _beside(turn, proposal)
    concurrent = found is not None
    if found is None:
        found = watch(before, _levels(turn, scores), _rules(turn))
    if isinstance(found, Regressed):
        _alarm(turn, proposal, found, scores, concurrent=concurrent)
    elif turn.now - promoted >= window:
        _end_window(turn, proposal, scores)


def _beside(turn: Turn, proposal: Proposal) -> Regressed | Holding | NotEnoughData | None:
    """The change against the units held back from it; None where nobody is, or too few after a first day, and
    when the holdback is over without a drop.

    For that day nothing is held against the past, which may have been another kind of day.
    """
    if proposal.version is None:
        return None
    with turn.view() as view:
        version = view.version(proposal.agent, proposal.version)
    held = holdback_of(version)
    if held is None:
        return None
    both = sides(turn, version, proposal.state_since)
    found = watch(_levels(turn, both.control), _levels(turn, both.treated), _rules(turn), concurrent=True)
    first_day = timedelta(hours=turn.settings.safety.regression_monitoring_hours)
    late = turn.now - proposal.state_since >= first_day
    over = held.share(turn.now) is None and not isinstance(found, Regressed)
    return None if over or (late and isinstance(found, NotEnoughData)) else found


def _alarm(
    turn: Turn, proposal: Proposal, found: Regressed, scores: Sequence[SessionScore], *, concurrent: bool
) -> None:
    """Take back what the surest of the drops began with, unless this change serves no more by itself.

    Where it fell against units held back from this change alone, it is the change.
    """
    with turn.view() as view:
        version = view.version(proposal.agent, proposal.version or "")
        serves = changes_in_force(view, current(view, turn.agent))
    if version.label not in {one.label for one in serves}:
        return
    alarm = Alarm("watch", found.why, _numbers(found), scores)
    if concurrent:
        told = replace(alarm, why=f"{found.why}, against the units held back from it")
        take_back(turn, version, told, Blame((version,), HELD))
        return
    surest = max(found.drops, key=lambda drop: drop.lower)
    value = _value_of(turn, surest.metric)
    take_back(turn, version, alarm, blame(turn, version, value, failures=False))


def _value_of(turn: Turn, metric: str) -> Callable[[SessionScore], float | None]:
    """A session's value of a watched metric, turned so that more is better."""
    if metric == COMPOSITE:
        return partial(composite_of, weights=turn.settings.fitness.weights.as_dict())
    own = {one.name: -1.0 if one.better == "lower" else 1.0 for one in deciding(turn.context)}
    if metric not in own:
        return lambda score: score.dimensions.get(metric)

    def told(score: SessionScore) -> float | None:
        return own[metric] * score.metrics[metric] if score.closed and metric in score.metrics else None

    return told


def confirm(turn: Turn, proposal: Proposal, why: str, actor: str = ENGINE) -> Proposal:
    """End the watch: the change stays. Fills fitness_after and the outcome of its decision."""
    before = _before(turn, proposal).get(COMPOSITE)
    after = _levels(turn, list(turn.scores(proposal.state_since))).get(COMPOSITE)
    with turn.transaction(actor) as tx:
        moved = tx.move(proposal, ProposalState.CONFIRMED, why=why)
        amend(
            tx,
            proposal.decision_id,
            f"confirmed: {why}",
            outcome=DecisionOutcome.IMPROVED if _won_live(proposal) else DecisionOutcome.NEUTRAL,
            fitness_before=before.mean if before else None,
            fitness_after=after.mean if after else None,
        )
        close_breaker(tx, proposal.agent, proposal.layer)
    turn.report.add("confirm", proposal.proposal_id, "pass", f"{proposal.version} is confirmed: {why}")
    return moved


def _end_window(turn: Turn, proposal: Proposal, scores: Sequence[SessionScore]) -> None:
    enough = len(scores) >= _rules(turn).min_sessions
    keeps = proposal.layer is not Layer.MEMORY or turn.settings.watch.on_unconfirmed == "keep"
    if enough or _won_live(proposal) or keeps:
        confirm(turn, proposal, f"{len(scores)} sessions since its promotion show no regression")
        return
    why = f"only {len(scores)} sessions in its window: an unconfirmed memory change is reverted"
    with turn.transaction() as tx:
        version = tx.version(proposal.agent, proposal.version or "")
        roll_back(tx, version, why, "timed_revert", sessions=len(scores))
        amend(tx, proposal.decision_id, why, outcome=DecisionOutcome.NEUTRAL)
        reverted = tx.get(Proposal, proposal.proposal_id)
        tx.put(msgspec.structs.replace(reverted, work={**reverted.work, NEUTRAL: True}))
    turn.report.add("confirm", proposal.proposal_id, "not_enough_data", why)


def _won_live(proposal: Proposal) -> bool:
    return any(step.name == "experiment" and step.answer == "pass" for step in proposal.proofs)


def _rules(turn: Turn) -> WatchRules:
    own = deciding(turn.context)
    return WatchRules(
        regression_delta=turn.settings.fitness.thresholds.regression_delta,
        max_regression=turn.settings.safety.max_regression_threshold,
        alpha=FAMILY_ALPHA / (len(DIMENSIONS) + 1 + len(own)),
        limits={metric.name: metric.margin for metric in own},
    )


def _levels(turn: Turn, scores: Sequence[SessionScore]) -> dict[str, Level]:
    return levels(scores, turn.settings.fitness.weights.as_dict(), deciding(turn.context))


def _before(turn: Turn, proposal: Proposal) -> dict[str, Level]:
    if proposal.version is None:
        return {}
    with turn.view() as view:
        told = view.version(proposal.agent, proposal.version).baseline.get("levels", {})
    return {name: Level(v[0], v[1], int(v[2]), *v[3:]) for name, v in told.items()}


def _numbers(found: Regressed) -> dict[str, float]:
    drops = {f"{d.metric}_drop": d.estimate for d in found.drops}
    return drops | {f"{d.metric}_lower": d.lower for d in found.drops}
