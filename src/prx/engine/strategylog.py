"""What was logged of routing, waits, channels and tools, read once for proposer and proofs."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta

from prx.domain.records import PRODUCTION, Interaction, Terminal, ToolStatus, Trace
from prx.domain.scores import SessionScore
from prx.domain.versions import Strategy
from prx.engine.preperiod import composite_of
from prx.engine.turn import Turn
from prx.live.automix import confidence
from prx.live.router import arms_of
from prx.live.shapes import last_user_text
from prx.propose.strategylogs import ChannelLog, StrategyLog, WaitLog
from prx.propose.strategystep import Share
from prx.prove.intervals import wilson
from prx.prove.offpolicy import Choice
from prx.prove.strategyreplay import CheapAnswer

WINDOW = timedelta(days=28)
SESSIONS_PER_UNIT = 20
_BAND = 0.05
_CUTS = ("timeout", "timed out")
_THROTTLES = ("ratelimit", "rate limit", "429", "toomanyrequests")


@dataclass(slots=True)
class Seen:
    """Everything that strategy steps and replays need of the window; times in seconds."""

    waits: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    cut: Counter[str] = field(default_factory=Counter)
    calls: dict[str, list[tuple[float, float]]] = field(default_factory=lambda: defaultdict(list))
    throttled: Counter[str] = field(default_factory=Counter)
    tools: dict[str, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0]))
    explored: Counter[str] = field(default_factory=Counter)
    cheap: list[CheapAnswer] = field(default_factory=list)
    premium: list[bool] = field(default_factory=list)


def seen(turn: Turn) -> Seen:
    """Read the window once."""
    found = Seen()
    for trace, score in logged(turn):
        for call in trace.interactions:
            _note_call(found, trace, call)
        _note_escalation(found, trace, score)
    return found


def logged(turn: Turn) -> Iterator[tuple[Trace, SessionScore | None]]:
    """Production sessions of the window with their scores."""
    since = turn.now - WINDOW
    scores = {score.session_id: score for score in turn.scores(since)}
    for trace in turn.context.records.traces(
        agent=turn.agent, env=PRODUCTION, since=since, until=turn.now, newest_first=False
    ):
        yield trace, scores.get(trace.start.session_id)


def choices(turn: Turn, stable: Strategy, candidate: Strategy) -> Iterator[Choice]:
    """The first routed choice of every closed session, with the reward of the session (its composite).

    A session without a reward is left out: unknown is not a failure. Of one unit the first SESSIONS_PER_UNIT
    count, so that nobody outweighs the others by coming often.
    """
    weights = turn.context.fitness.weights
    taken: Counter[str] = Counter()
    for trace, score in logged(turn):
        call = next((c for c in trace.interactions if c.routing and not c.routing.escalated), None)
        reward = composite_of(score, weights) if score is not None and score.closed else None
        if call is None or call.routing is None or reward is None:
            continue
        unit = trace.start.unit or trace.start.session_id
        taken[unit] += 1
        if taken[unit] > SESSIONS_PER_UNIT:
            continue
        routing, intent = call.routing, call.routing.intent
        # the app's own default stands first among the recorded candidates
        default = routing.scores[0].model if routing.scores else routing.chosen
        yield Choice(
            unit=unit,
            stratum=intent or "",
            model=routing.chosen,
            propensity=routing.propensity,
            reward=reward,
            candidate=arms_of(routing.scores, candidate, intent, default),
            incumbent=arms_of(routing.scores, stable, intent, default),
            arms=routing.arms or {routing.chosen: routing.propensity},
        )


def log_for(found: Seen, strategy: Strategy) -> StrategyLog:
    """What the proposer's rules read, for the strategy served now."""
    above = [a for a in found.cheap if 0 <= a.confidence - strategy.automix_threshold < _BAND]
    below = [a for a in found.cheap if 0 < strategy.automix_threshold - a.confidence <= _BAND]
    premium = found.premium
    return StrategyLog(
        waits=tuple(
            WaitLog(name, len(waits), _p99(waits), found.cut[name])
            for name, waits in sorted(found.waits.items())
        ),
        channels=tuple(
            ChannelLog(
                channel,
                len(calls),
                _busy(calls, strategy.concurrency.get(channel, 0)),
                found.throttled[channel],
            )
            for channel, calls in sorted(found.calls.items())
        ),
        tools=tuple((name, _share(good, total)) for name, (good, total) in sorted(found.tools.items())),
        explored=tuple(sorted(found.explored.items())),
        kept=_share(sum(a.success for a in above if not a.escalated), sum(not a.escalated for a in above)),
        escalated_cheap=_share(0, 0) if not below else _share_of_known(below),
        wanted=sum(premium) / len(premium) if premium else None,
    )


def _note_call(found: Seen, trace: Trace, call: Interaction) -> None:
    channel = trace.start.channel or "default"
    error = (call.error or "").casefold()
    if call.terminal is Terminal.COMPLETED and call.latency_ms is not None:
        found.waits[call.model].append(call.latency_ms / 1000)
        found.calls[channel].append((call.at.timestamp(), call.latency_ms / 1000))
    elif any(word in error for word in _CUTS):
        found.cut[call.model] += 1
    if any(word in error for word in _THROTTLES):
        found.throttled[channel] += 1
    for tool in call.tool_calls:
        if tool.status is not ToolStatus.UNKNOWN and not tool.external:
            found.tools[tool.name][0] += tool.status is ToolStatus.OK
            found.tools[tool.name][1] += 1
        if tool.latency_ms is not None and tool.status is ToolStatus.OK:
            found.waits[tool.name].append(tool.latency_ms / 1000)
    if call.routing is not None and call.routing.explored and not call.routing.escalated:
        found.explored[call.routing.chosen] += 1


def _note_escalation(found: Seen, trace: Trace, score: SessionScore | None) -> None:
    """Sessions of one cheap answer, kept or asked again once; longer ones have no single outcome."""
    calls = [call for call in trace.interactions if call.routing is not None]
    if score is None or score.success is None or not calls or len(calls) > 2:
        return
    again = calls[-1].routing if len(calls) == 2 else None
    if again is not None and not again.escalated:
        return
    question = last_user_text(calls[0].messages)
    sure = confidence(question, calls[0].response or "")
    if again is not None and again.confidence is not None:
        sure = again.confidence
    # a premium call that failed left the cheap answer standing
    served = again is not None and calls[-1].terminal is Terminal.COMPLETED and bool(calls[-1].response)
    if served:
        found.premium.append(score.success)
    found.cheap.append(CheapAnswer(sure, served, score.success))


def _share_of_known(answers: list[CheapAnswer]) -> Share:
    """Cheap answers below the threshold that were served after all, such as when the premium call failed."""
    kept = [answer.success for answer in answers if not answer.escalated]
    return _share(sum(kept), len(kept))


def _share(good: int, total: int) -> Share:
    bounds = wilson(good, total, 0.95)
    return Share(good, total, bounds.low, bounds.high)


def _p99(waits: list[float]) -> float:
    ordered = sorted(waits)
    return ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]


def _busy(calls: list[tuple[float, float]], limit: int) -> int:
    """Calls that began while `limit` others ran; 0 without a limit."""
    if limit <= 0:
        return 0
    running: list[float] = []
    busy = 0
    for start, length in sorted(calls):
        running = [end for end in running if end > start]
        busy += len(running) >= limit
        running.append(start + length)
    return busy
