"""From records to what the engine reasons about: scored sessions."""

from dataclasses import replace
from datetime import datetime

import msgspec

from prx.domain.answers import NotEnoughData
from prx.domain.codec import content_hash
from prx.domain.events import Control
from prx.domain.experiments import Experiment, ExperimentStatus
from prx.domain.scores import SessionScore
from prx.engine.attempt import told
from prx.engine.context import Context, control_of
from prx.engine.report import Report
from prx.fitness.curves import AUTO_TARGET_SESSIONS, auto_token_targets
from prx.fitness.rules import FitnessRules
from prx.fitness.session import score_session

_BATCH = 1000


def score_sessions(context: Context, now: datetime, report: Report) -> int:
    """Bring the derived scores up to date; returns how many sessions were scored.

    A session that cannot be scored is reported and left out; it must not hold up all others.
    """
    _rescore_when_metrics_changed(context)
    scored = 0
    after = context.records.cursor("scores")
    while True:
        cursor, sessions = context.records.changed_sessions(after=after, limit=_BATCH)
        if not sessions:
            break
        scored += _score(context, sessions, now, report)
        context.records.set_cursor("scores", cursor)
        after = cursor
    while sessions := context.records.unclosed_sessions(closing_before=now, limit=_BATCH):
        closed = _score(context, sessions, now, report)
        if not closed:
            break
        scored += closed
    return scored


def _rescore_when_metrics_changed(context: Context) -> None:
    """Go through all records again once an own metric is new or means something else."""
    with context.ledger.view() as view:
        running = view.find(Experiment, state=ExperimentStatus.RUNNING)
    given = context.fitness.metrics
    frozen = [(e.agent, m) for e in running if e.plan for m in e.plan.metrics if m not in given]
    digest = content_hash([given, sorted(frozen, key=lambda pair: (pair[0], pair[1].name))])
    position = int(digest.removeprefix("sha256:")[:12], 16) if given or frozen else 0
    if context.records.cursor("metrics") != position:
        context.records.set_cursor("scores", 0)
        context.records.set_cursor("metrics", position)


def freeze_token_targets(context: Context, agent: str, now: datetime, report: Report) -> None:
    """Fix the ends of the token curve once the agent's first sessions are in (SPEC section 5)."""
    if context.fitness.target_tokens is not None or context.fitness.ceiling_tokens is not None:
        return
    with context.ledger.view() as view:
        if control_of(view, agent).token_targets is not None:
            return
    first: list[int] = []
    for score in context.records.scores(agent=agent, closed_only=True):
        if score.tokens:
            first.append(score.tokens)
        if len(first) == AUTO_TARGET_SESSIONS:
            break
    found = auto_token_targets(first)
    if isinstance(found, NotEnoughData):
        return
    with context.ledger.transaction(now=now, actor="engine") as tx:
        targets = (found.target, found.ceiling)
        tx.put(msgspec.structs.replace(control_of(tx, agent), token_targets=targets))
        tx.audit("fitness.token_targets", agent, {"p5": str(found.target), "p99": str(found.ceiling)})
    every = tuple(score.session_id for score in context.records.scores(agent=agent))
    _score(context, every, now, report)
    report.add(
        "token_targets",
        agent,
        "done",
        f"full marks at {found.target:.0f} tokens, none at {found.ceiling:.0f}",
    )


def rules_for(context: Context, agent: str) -> FitnessRules:
    """Fitness rules with the agent's frozen token targets filled in.

    While an experiment runs, its own metrics keep the meaning that its plan froze.
    """
    with context.ledger.view() as view:
        control: Control = control_of(view, agent)
        running = view.find(Experiment, agent=agent, state=ExperimentStatus.RUNNING)
    metrics = {metric.name: metric for metric in context.fitness.metrics}
    for experiment in running:
        metrics |= {metric.name: metric for metric in (experiment.plan.metrics if experiment.plan else ())}
    rules = replace(context.fitness, metrics=tuple(metrics.values()))
    return with_targets(rules, control.token_targets)


def with_targets(rules: FitnessRules, targets: tuple[float, float] | None) -> FitnessRules:
    """The rules with these ends of the token curve, unless the operator fixed them."""
    if targets is None or rules.target_tokens is not None or rules.ceiling_tokens is not None:
        return rules
    return replace(rules, target_tokens=targets[0], ceiling_tokens=targets[1])


def _score(context: Context, sessions: tuple[str, ...], now: datetime, report: Report) -> int:
    rules: dict[str, FitnessRules] = {}
    scores: list[SessionScore] = []
    for session_id in sessions:
        trace = context.records.trace(session_id)
        if trace is None:
            continue
        agent = trace.start.agent
        if agent not in rules:
            rules[agent] = rules_for(context, agent)
        try:
            scores.append(score_session(trace, rules=rules[agent], now=now))
        except Exception as error:  # noqa: BLE001 - a bug in one step must not stop the rest
            report.add("scoring", session_id, "error", told(error, f"scoring of session {session_id}"))
    context.records.put_scores(scores)
    return len(scores)
