"""Strategy changes that no experiment on answers can show in advance, replayed on what was logged.

A timeout is replayed on how long finished calls took, a limit of calls at a time on when calls came and
how long they took, a tool on how often it worked, the Automix threshold on the answers just beside it.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from prx.domain.answers import Answer, Failed, NotEnoughData, Passed
from prx.prove.intervals import wilson

Replayed = tuple[Answer, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class StrategyReplayRules:
    """Floors and limits. max_cut: share of finished calls that a timeout may cut. max_wait: 95th percentile
    of queueing, as a share of the median call. max_throttled: share of throttled calls at which a limit may
    not rise. band: width in confidence beside the threshold."""

    min_calls: int = 200
    min_side: int = 50
    max_cut: float = 0.005
    max_wait: float = 0.25
    max_throttled: float = 0.01
    tool_works: float = 0.5
    min_tool_calls: int = 30
    band: float = 0.1
    confidence: float = 0.95


@dataclass(frozen=True, slots=True)
class CheapAnswer:
    """A cheap answer's confidence, whether it was asked again of the premium model, and how it ended."""

    confidence: float
    escalated: bool
    success: bool


def replay_timeout(waits: Sequence[float], new: float, rules: StrategyReplayRules) -> Replayed:
    """How many finished calls (`waits`, seconds) a timeout of `new` seconds would have cut."""
    n = len(waits)
    if n < rules.min_calls:
        return NotEnoughData(f"{n} finished calls, {rules.min_calls} needed"), {"calls": n}
    cut = sum(wait > new for wait in waits)
    numbers = {"calls": n, "cut": cut, "allowed": rules.max_cut, "p99_s": _quantile(waits, 0.99)}
    said = f"a timeout of {new:g} s would have cut {cut} of {n} calls that finished"
    if cut > rules.max_cut * n:
        return Failed(f"{said}, more than the {rules.max_cut:.1%} allowed", "timeout_cuts"), numbers
    return Passed(said), numbers


def replay_concurrency(
    calls: Sequence[tuple[float, float]], throttled: int, present: int, new: int, rules: StrategyReplayRules
) -> Replayed:
    """How long `calls` (start and duration, seconds) would have queued with `new` at a time."""
    n = len(calls)
    if n < rules.min_calls:
        return NotEnoughData(f"{n} calls on the channel, {rules.min_calls} needed"), {"calls": n}
    waited = queue_waits(calls, new)
    tail, median = _quantile(waited, 0.95), _quantile([length for _, length in calls], 0.5)
    numbers = {"calls": n, "p95_wait_s": tail, "median_call_s": median, "throttled": throttled}
    if new > present and throttled > rules.max_throttled * n:
        why = f"the provider throttled {throttled} of {n} calls already; more at a time would add to that"
        return Failed(why, "throttled"), numbers
    if new < present and tail > rules.max_wait * median:
        why = f"with {new} at a time calls would have queued {tail:.2f} s (95th percentile)"
        return Failed(f"{why} beside {median:.2f} s of work", "queueing"), numbers
    return Passed(f"with {new} at a time calls would have queued {tail:.2f} s (95th percentile)"), numbers


def queue_waits(calls: Sequence[tuple[float, float]], limit: int) -> list[float]:
    """Seconds that each call would have waited, first come first served, `limit` at a time."""
    free: list[float] = []
    waits = []
    for start, length in sorted(calls):
        if len(free) < limit:
            begin = start
        else:
            begin = max(start, heapq.heappop(free))
        waits.append(begin - start)
        heapq.heappush(free, begin + length)
    return waits


def replay_tool_off(worked: int, total: int, rules: StrategyReplayRules) -> Replayed:
    """Whether a tool fails so surely that switching it off takes nothing away."""
    if total < rules.min_tool_calls:
        return NotEnoughData(f"{total} calls of the tool, {rules.min_tool_calls} needed"), {"calls": total}
    bounds = wilson(worked, total, rules.confidence)
    numbers = {"calls": total, "worked": worked, "low": bounds.low, "high": bounds.high}
    said = f"the tool worked in {worked} of {total} calls (at most {bounds.high:.0%})"
    if bounds.low >= rules.tool_works:
        return Failed(f"{said}; switching it off would take away what works", "tool_works"), numbers
    if bounds.high >= rules.tool_works:
        return NotEnoughData(f"{said}; whether it fails more often than not is open"), numbers
    return Passed(said), numbers


def replay_threshold(
    answers: Sequence[CheapAnswer], present: float, new: float, rules: StrategyReplayRules
) -> Replayed:
    """Whether sessions beside the threshold did better kept or asked again.

    Answers just above the present threshold were kept, those just below were asked again; near it they are
    alike (a regression discontinuity, Thistlethwaite and Campbell 1960). Raising fails when keeping is shown
    to be better, lowering when asking again is.
    """
    near = [a for a in answers if abs(a.confidence - present) <= rules.band]
    kept = [a.success for a in near if not a.escalated and a.confidence >= present]
    again = [a.success for a in near if a.escalated and a.confidence < present]
    moved = sum(min(present, new) <= a.confidence < max(present, new) for a in answers)
    numbers: dict[str, Any] = {"kept": len(kept), "again": len(again), "answers_moved": moved}
    if min(len(kept), len(again)) < rules.min_side:
        why = f"{len(kept)} answers kept and {len(again)} asked again near {present:g}"
        return NotEnoughData(f"{why}, {rules.min_side} of each needed"), numbers
    k, a = (wilson(sum(side), len(side), rules.confidence) for side in (kept, again))
    difference = sum(again) / len(again) - sum(kept) / len(kept)
    numbers |= {"kept_success": sum(kept) / len(kept), "again_success": sum(again) / len(again)}
    # Newcombe 1998, method 10: interval of a difference from the two Wilson intervals
    p_k, p_a = sum(kept) / len(kept), sum(again) / len(again)
    low = difference - ((p_a - a.low) ** 2 + (k.high - p_k) ** 2) ** 0.5
    high = difference + ((a.high - p_a) ** 2 + (p_k - k.low) ** 2) ** 0.5
    numbers |= {"difference": difference, "low": low, "high": high}
    said = f"near the threshold asking again changes success by {difference:+.3f} ({low:+.3f} to {high:+.3f})"
    worse = high < 0 if new > present else low > 0
    return (Failed(f"{said}; this goes the wrong way", "threshold_worse") if worse else Passed(said)), numbers


def _quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
