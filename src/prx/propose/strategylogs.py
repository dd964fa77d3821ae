"""One bounded step per parameter family, by rule, from what was logged of models, channels and tools."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from prx.domain.answers import Failed, NotEnoughData
from prx.domain.changes import StrategyPatch
from prx.domain.layers import Layer
from prx.domain.proposals import ExpectedEffect
from prx.domain.versions import Strategy
from prx.propose.describe import describe
from prx.propose.draft import Draft, PastChange
from prx.propose.fingerprint import blocked_by, fingerprint
from prx.propose.risk import risk_of
from prx.propose.strategystep import Share, automix_step, numeric_step

AUTHOR = "engine:rule"
_TIMEOUT_ROOM = 1.5
_LEAST_CALLS = 200
_LEAST_TOOL_CALLS = 30
_OFTEN = 0.01
_BUSY = 0.05
_EXPLORED_ENOUGH = 1000
_NOTHING = Share(0, 0, 0.0, 1.0)

Step = StrategyPatch | NotEnoughData | Failed


@dataclass(frozen=True, slots=True)
class WaitLog:
    """Calls of one model or tool: how many finished, their 99th percentile, how many a timeout `cut`."""

    name: str
    finished: int
    p99_s: float
    cut: int


@dataclass(frozen=True, slots=True)
class ChannelLog:
    """Calls of one channel: `busy` began while all were taken; `throttled` were refused by a provider."""

    channel: str
    calls: int
    busy: int
    throttled: int


@dataclass(frozen=True, slots=True)
class StrategyLog:
    """What was logged lately, by family. `tools`: share of calls that worked. `explored`: sessions of each
    model that the preferred one was not. `wanted`: success rate of premium answers."""

    waits: Sequence[WaitLog] = ()
    channels: Sequence[ChannelLog] = ()
    tools: Sequence[tuple[str, Share]] = ()
    explored: Sequence[tuple[str, int]] = ()
    kept: Share = _NOTHING
    escalated_cheap: Share = _NOTHING
    wanted: float | None = None


def strategy_drafts(log: StrategyLog, strategy: Strategy, past: Sequence[PastChange]) -> tuple[Draft, ...]:
    """A draft for every family whose log clearly calls for a step and whose step did not fail before."""
    found = []
    for trigger, why, step in log_steps(log, strategy):
        if isinstance(step, StrategyPatch) and blocked_by(step, past) is None:
            found.append(_draft(trigger, why, step))
    return tuple(found)


def log_steps(log: StrategyLog, strategy: Strategy) -> Iterator[tuple[str, str, Step]]:
    """(trigger, what was seen, step or why none) of every family."""
    yield from chain(
        (_timeout(wait, strategy) for wait in log.waits if wait.name in strategy.timeouts),
        (_channel(one, strategy) for one in log.channels if one.channel in strategy.concurrency),
        (_tool(name, share, strategy) for name, share in log.tools),
    )
    yield _explore(log.explored, strategy)
    yield _automix(log, strategy)


def _timeout(log: WaitLog, strategy: Strategy) -> tuple[str, str, Step]:
    path, present = f"timeouts.{log.name}", strategy.timeouts[log.name]
    seen = f"{log.finished} calls of {log.name} finished, 99 % within {log.p99_s:.2f} s; {log.cut} were cut"
    if log.finished < _LEAST_CALLS:
        return path, seen, NotEnoughData(f"{log.finished} finished calls, {_LEAST_CALLS} needed")
    # a cut call is censored: that the finished ones were quick says nothing of it
    if log.cut > _OFTEN * (log.finished + log.cut):
        return path, seen, numeric_step(path, present, up=True)
    shorter = numeric_step(path, present, up=False)
    fits = isinstance(shorter, StrategyPatch) and float(shorter.new) >= _TIMEOUT_ROOM * log.p99_s
    return path, seen, shorter if fits else NotEnoughData("the timeout fits what calls take")


def _channel(log: ChannelLog, strategy: Strategy) -> tuple[str, str, Step]:
    path, present = f"concurrency.{log.channel}", float(strategy.concurrency[log.channel])
    seen = f"of {log.calls} calls on {log.channel} {log.throttled} were throttled, {log.busy} found all taken"
    if log.calls < _LEAST_CALLS:
        return path, seen, NotEnoughData(f"{log.calls} calls, {_LEAST_CALLS} needed")
    if log.throttled > _OFTEN * log.calls:
        return path, seen, numeric_step(path, present, up=False)
    if log.busy > _BUSY * log.calls and log.throttled == 0:
        return path, seen, numeric_step(path, present, up=True)
    return path, seen, NotEnoughData("neither throttling nor a full channel")


def _tool(name: str, share: Share, strategy: Strategy) -> tuple[str, str, Step]:
    path = f"disabled_tools.{name}"
    seen = f"tool {name} worked in {share.good} of {share.total} calls"
    if name in strategy.disabled_tools:
        return path, seen, Failed("the tool is off already", "no_change")
    if share.total < _LEAST_TOOL_CALLS or share.high >= 0.5:
        return path, seen, NotEnoughData("the tool does not surely fail more often than it works")
    return path, seen, StrategyPatch(path=path, old="on", new="off")


def _explore(explored: Sequence[tuple[str, int]], strategy: Strategy) -> tuple[str, str, Step]:
    seen = ", ".join(f"{model} {count}" for model, count in explored) or "nothing"
    said = f"explored sessions: {seen}"
    if strategy.explore <= 0 or not explored or min(n for _, n in explored) < _EXPLORED_ENOUGH:
        return "explore", said, NotEnoughData(f"{_EXPLORED_ENOUGH} explored sessions of each model needed")
    return "explore", said, numeric_step("explore", strategy.explore, up=False)


def _automix(log: StrategyLog, strategy: Strategy) -> tuple[str, str, Step]:
    seen = f"of {log.kept.total} answers kept near the threshold {log.kept.good} were right"
    if log.wanted is None:
        return "automix_threshold", seen, NotEnoughData("no premium answer with a known outcome")
    step = automix_step(
        strategy.automix_threshold, kept=log.kept, escalated_cheap=log.escalated_cheap, wanted=log.wanted
    )
    return "automix_threshold", seen, step


def _draft(trigger: str, why: str, step: StrategyPatch) -> Draft:
    expected = ExpectedEffect(
        estimate=0.0,
        low=-0.01,
        high=0.01,
        source="assumed, not measured: one small step; the proof and the experiment measure it",
    )
    return Draft(
        layer=Layer.STRATEGY,
        change=step,
        description=describe(step),
        rationale=why,
        trigger=f"log/{trigger}",
        evidence=(),
        expected=expected,
        risk=risk_of(step),
        fingerprint=fingerprint(step),
        author=AUTHOR,
    )
