"""Own metrics of an agent: what feedback of a metric's name makes of one session."""

import math
from collections.abc import Iterable
from datetime import datetime, timedelta

from prx.domain.records import Feedback, Trace
from prx.domain.scores import OwnMetric
from prx.fitness.signals import WORD_VALUES

MEAN, RATE = "mean", "rate"


def metric_values(trace: Trace, metrics: Iterable[OwnMetric], *, closed: bool) -> dict[str, float]:
    """Value per metric of one session, in the metric's own unit; a metric without a value is left out.

    Values count when told within `window_hours` of the session's start, the latest per target. A mean is the
    value told of the session, else the mean over its calls. A rate is 1 when any value is above 0, else 0;
    since apps tell of an event only when it happens, a `closed` session of which nothing was told counts
    as 0 too.
    """
    found: dict[str, float] = {}
    for metric in metrics:
        value = _value(trace, metric)
        if value is None and metric.type == RATE and closed:
            value = 0.0
        if value is not None:
            found[metric.name] = value
    return found


def closes_no_earlier(trace: Trace, metrics: Iterable[OwnMetric]) -> datetime:
    """End of the longest window of a metric that decides experiments: until then its value may change."""
    hours = max((m.window_hours for m in metrics if m.decides), default=0.0)
    return trace.start.at + timedelta(hours=hours)


def _value(trace: Trace, metric: OwnMetric) -> float | None:
    until = trace.start.at + timedelta(hours=metric.window_hours)
    session: dict[str, float] = {}
    single: dict[str, float] = {}
    for item in sorted(trace.feedback, key=lambda f: f.at):
        if item.name != metric.name or item.at > until:
            continue
        number = number_of(item)
        if number is not None:
            (session if item.target_kind == "session" else single)[item.target] = number
    values = [*session.values(), *single.values()]
    if not values:
        return None
    if metric.type == RATE:
        return float(any(value > 0 for value in values))
    chosen = list(session.values() or single.values())
    return math.fsum(chosen) / len(chosen)


def number_of(item: Feedback) -> float | None:
    """The value as a finite number; up and yes are 1, down and no are 0; None for any other text."""
    value = item.value
    if isinstance(value, str):
        word = value.strip().lower()
        try:
            value = WORD_VALUES[word] if word in WORD_VALUES else float(word)
        except ValueError:
            return None
    return float(value) if math.isfinite(value) else None
