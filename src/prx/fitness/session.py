"""One session's scores, from everything recorded of it."""

import math
from collections import Counter
from collections.abc import Iterable
from datetime import datetime

from prx.domain.records import FeedbackName, Interaction, Terminal, ToolStatus, Trace
from prx.domain.scores import Arm, SessionScore
from prx.fitness.curves import log_linear
from prx.fitness.metrics import closes_no_earlier, metric_values
from prx.fitness.rules import FitnessRules
from prx.fitness.signals import Signals, read_signals
from prx.fitness.tools import agent_failed, externally_failed

SUCCESS_FROM = 0.5


def score_session(trace: Trace, *, rules: FitnessRules, now: datetime) -> SessionScore:
    """Scores in 0..1 per dimension of one session; a dimension without data is left out, never 0.

    `closed` when `now` has passed `closes_at` = the told end or the last activity, plus the outcome
    window, or the end of the window of an own metric that decides experiments, where that is later.
    `arms` holds one entry per experiment; `served` differs from `assigned` when any exposure did.
    `failed`: a tool or model call failed by the agent's fault, or the task was told to have failed; None
    when the session holds no call and no outcome.
    """
    calls = trace.interactions
    signals = read_signals(trace)
    outcome = signals.session_value(FeedbackName.TASK_OUTCOME)
    completion = outcome if outcome is not None else _tool_completion(calls)
    success = None if completion is None else completion >= SUCCESS_FROM
    tokens = _total_tokens(calls)
    waits, flagged = _waits(calls)
    found = {
        "response_relevance": signals.session_value(FeedbackName.RELEVANCE),
        "task_completion": completion,
        "response_latency": _latency(waits, rules),
        "token_efficiency": _token_efficiency(tokens, success, rules),
        "memory_precision": _memory_precision(calls, signals),
        "user_satisfaction": _satisfaction(calls, signals),
    }
    closes_at = max(last_activity(trace) + rules.outcome_window, closes_no_earlier(trace, rules.metrics))
    closed = now >= closes_at
    return SessionScore(
        session_id=trace.start.session_id,
        agent=trace.start.agent,
        env=trace.start.env,
        started_at=trace.start.at,
        closes_at=closes_at,
        closed=closed,
        dimensions={name: value for name, value in found.items() if value is not None},
        unit=trace.start.unit,
        unit_source=trace.start.unit_source.value,
        tenant=trace.start.tenant,
        user=trace.start.user,
        channel=trace.start.channel,
        intent=next((c.intent for c in calls if c.intent), None),
        model=_most_used(c.model for c in calls if c.model),
        version=next((c.version for c in calls if c.version), None),
        arms=_arms(trace),
        calls=len(calls),
        failed=_failed(calls, outcome),
        external_failures=sum(map(_external_failures, calls)),
        success=success,
        tokens=tokens,
        cost_usd=_cost(calls),
        ttft_ms=waits,
        ttft_flagged=flagged,
        source=trace.start.source,
        metrics=metric_values(trace, rules.metrics, closed=closed),
    )


def last_activity(trace: Trace) -> datetime:
    """Time of the told end, or of the newest call where that is later or no end was told."""
    return trace.last_at if trace.ended_at is None else max(trace.ended_at, trace.last_at)


def session_end(trace: Trace, *, rules: FitnessRules, now: datetime) -> datetime | None:
    """When the session ended: the told end, else the end of the idle time; None while it goes on."""
    if trace.ended_at is not None:
        return trace.ended_at
    idle_until = trace.last_at + rules.idle
    return idle_until if now >= idle_until else None


def _tool_completion(calls: Iterable[Interaction]) -> float | None:
    statuses = Counter(tool.status for call in calls for tool in call.tool_calls if not tool.external)
    known = statuses[ToolStatus.OK] + statuses[ToolStatus.FAILED]
    return statuses[ToolStatus.OK] / known if known else None


def _waits(calls: Iterable[Interaction]) -> tuple[tuple[float, ...], bool]:
    """Milliseconds to the first token per call that has them, and whether a total stood in for any.

    A total counts only for a completed call that was not streamed: a call cut short would look fast.
    """
    waits: list[float] = []
    flagged = False
    for call in calls:
        if call.ttft_ms is not None and _usable(call.ttft_ms):
            waits.append(call.ttft_ms)
        elif call.latency_ms is not None and _usable(call.latency_ms) and _whole(call):
            waits.append(call.latency_ms)
            flagged = True
    return tuple(waits), flagged


def _whole(call: Interaction) -> bool:
    return call.terminal is Terminal.COMPLETED and not call.streamed


def _usable(milliseconds: float) -> bool:
    return math.isfinite(milliseconds) and milliseconds >= 0


def _latency(waits: tuple[float, ...], rules: FitnessRules) -> float | None:
    if not waits:
        return None
    scores = [log_linear(w, target=rules.target_ms, ceiling=rules.ceiling_ms) for w in waits]
    return math.fsum(scores) / len(scores)


def _total_tokens(calls: tuple[Interaction, ...]) -> int | None:
    """Tokens of the session; None where a completed call did not tell, since a part is no total."""
    totals = [c.tokens.total for c in calls if c.terminal is Terminal.COMPLETED or c.tokens.total is not None]
    known = [t for t in totals if t is not None]
    return sum(known) if known and len(known) == len(totals) else None


def _token_efficiency(tokens: int | None, success: bool | None, rules: FitnessRules) -> float | None:
    """Needs counted tokens even for a failure: else agents that count none would only ever score 0."""
    if success is None or tokens is None or rules.target_tokens is None or rules.ceiling_tokens is None:
        return None
    if not success:
        return 0.0
    return log_linear(float(max(tokens, 0)), target=rules.target_tokens, ceiling=rules.ceiling_tokens)


def _memory_precision(calls: Iterable[Interaction], signals: Signals) -> float | None:
    """Relevant over judged recalls; told shares count for all recalls of their call."""
    told = signals.by_call(FeedbackName.MEMORY_RELEVANT)
    relevant = judged = 0.0
    for call in calls:
        if call.record_id in told:
            weight = max(1, len(call.recalls))
            relevant, judged = relevant + told[call.record_id] * weight, judged + weight
        else:
            marks = [r.relevant for r in call.recalls if r.relevant is not None]
            relevant, judged = relevant + sum(marks), judged + len(marks)
    if judged:
        return relevant / judged
    return signals.of_session(FeedbackName.MEMORY_RELEVANT)


def _satisfaction(calls: tuple[Interaction, ...], signals: Signals) -> float | None:
    """Mean thumb; else 1 or 0 by correction where detection ran and the user spoke again."""
    thumbs = signals.all_values(FeedbackName.THUMB)
    if thumbs:
        return math.fsum(thumbs) / len(thumbs)
    corrections = signals.all_values(FeedbackName.CORRECTION)
    if any(value >= SUCCESS_FROM for value in corrections):
        return 0.0
    ran = bool(corrections) or any(call.extra.get("correction_checked") for call in calls)
    return 1.0 if ran and _user_spoke_again(calls) else None


def _user_spoke_again(calls: tuple[Interaction, ...]) -> bool:
    """True when a call after the first answers a new user message; a retry repeats an old one."""
    if len(calls) < 2:
        return False
    first = _user_messages(calls[0])
    return any(
        _user_messages(call) > first
        or (call.messages[-1].role == "user" and call.messages != calls[0].messages)
        for call in calls[1:]
        if call.messages and not call.retry
    )


def _user_messages(call: Interaction) -> int:
    return sum(message.role == "user" for message in call.messages)


def _failed(calls: tuple[Interaction, ...], outcome: float | None) -> bool | None:
    if not calls and outcome is None:
        return None
    bad_tool = any(
        tool.status is ToolStatus.FAILED and not tool.external for call in calls for tool in call.tool_calls
    )
    return bad_tool or any(map(agent_failed, calls)) or (outcome is not None and outcome < SUCCESS_FROM)


def _external_failures(call: Interaction) -> int:
    tools = sum(tool.status is ToolStatus.FAILED and tool.external for tool in call.tool_calls)
    return tools + externally_failed(call)


def _cost(calls: tuple[Interaction, ...]) -> float | None:
    costs = [c.cost_usd for c in calls if c.terminal is Terminal.COMPLETED or c.cost_usd is not None]
    known = [c for c in costs if c is not None]
    return math.fsum(known) if known and len(known) == len(costs) else None


def _most_used(names: Iterable[str]) -> str | None:
    counted = Counter(names)
    return min(counted, key=lambda name: (-counted[name], name)) if counted else None


def _arms(trace: Trace) -> tuple[Arm, ...]:
    """One part per experiment: the first assignment, and any exposure that strayed from it."""
    found: dict[str, Arm] = {}
    for assignment in trace.assignments:
        if assignment.experiment_id in found:
            continue
        mine = [e for e in trace.exposures if e.experiment_id == assignment.experiment_id]
        strayed = next((e.served for e in mine if e.served != e.assigned), None)
        served = strayed or (mine[-1].served if mine else None)
        found[assignment.experiment_id] = Arm(
            experiment_id=assignment.experiment_id, assigned=assignment.variant, served=served
        )
    return tuple(found.values())
