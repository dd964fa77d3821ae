"""Feedback as numbers: the latest value of each name for each target."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from prx.domain.records import Feedback, FeedbackName, Trace

WORD_VALUES = {"up": 1.0, "down": 0.0, "yes": 1.0, "no": 0.0, "true": 1.0, "false": 0.0}


@dataclass(frozen=True, slots=True)
class Signals:
    """Values in 0..1 by name: for the session itself, and for each of its calls by record id."""

    session: Mapping[str, float]
    calls: Mapping[str, Mapping[str, float]]

    def of_session(self, name: FeedbackName) -> float | None:
        """What was told of the session as a whole."""
        return self.session.get(name)

    def by_call(self, name: FeedbackName) -> Mapping[str, float]:
        """What was told of single calls, by record id."""
        return self.calls.get(name, {})

    def session_value(self, name: FeedbackName) -> float | None:
        """One number for the session: the mean over calls for a judgement of answers, which is made per
        call, and for every other name what was told of the session before what was told of its calls."""
        told, single = self.of_session(name), list(self.by_call(name).values())
        mean = math.fsum(single) / len(single) if single else None
        if name is FeedbackName.RELEVANCE:
            return told if mean is None else mean
        return mean if told is None else told

    def all_values(self, name: FeedbackName) -> list[float]:
        """Every target's value, the session's own included."""
        told = self.of_session(name)
        return [*self.by_call(name).values(), *([] if told is None else [told])]


def read_signals(trace: Trace) -> Signals:
    """The latest usable value per name and target; at equal times the one that arrived later.

    Words such as up and down count as 1 and 0; a correction told as text is one. Any other value that is
    no number in 0..1 is not used: what scale it was on is not known.
    """
    calls = {call.record_id: call.record_id for call in trace.interactions}
    calls |= {call.ref: call.record_id for call in trace.interactions if call.ref}
    session: dict[str, float] = {}
    single: dict[str, dict[str, float]] = {}
    for item in sorted(trace.feedback, key=lambda f: f.at):
        value = _number(item)
        if value is None:
            continue
        call = calls.get(item.target) if item.target_kind != "session" else None
        if call is None:
            session[item.name] = value
        else:
            single.setdefault(item.name, {})[call] = value
    return Signals(session, single)


def _number(item: Feedback) -> float | None:
    value = item.value
    if isinstance(value, str):
        word = value.strip().lower()
        if word in WORD_VALUES:
            return WORD_VALUES[word]
        corrects = 1.0 if item.name == FeedbackName.CORRECTION and word else None
        try:
            value = float(word)
        except ValueError:
            return corrects
        return value if 0 <= value <= 1 else corrects
    return float(value) if 0 <= value <= 1 else None
