"""One session as the detectors see it: a small row instead of the whole trace."""

import hashlib
import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from prx.analyze.rules import AnalyzeRules
from prx.domain.answers import NotEnoughData
from prx.domain.plaintext import quoted
from prx.domain.records import FeedbackName, Interaction, Terminal, ToolStatus, Trace
from prx.domain.scores import SessionScore
from prx.domain.told import MAX_ANSWER, request_text, same_text, told_answer
from prx.domain.words import content_words

GOOD_FROM = 0.5
_MAX_WORDS = 60
_MAX_LABEL = 120


@dataclass(frozen=True, slots=True)
class Seen:
    """One session. `bad`, `wrong`: True, False, or None when nothing tells.

    bad: it failed (task outcome, tool, agent error); wrong: its answer was (correction, relevance, thumb,
    outcome). answer: the right answer when someone told it; accepted: the answer given, when it was not
    wrong. terms: distinct content words of the request, None when its script cannot be read. recall: best
    recall score, None without any. models, tools: log milliseconds of a typical call. draw: keyed random
    number of the session.
    """

    session_id: str
    unit: str
    user: str | None
    at: datetime
    intent: str | None
    model: str | None
    prompts: tuple[str, ...]
    bad: bool | None
    wrong: bool | None
    answer: str | None
    accepted: str | None
    terms: frozenset[str] | None
    cost: float | None
    recall: float | None
    models: tuple[tuple[str, float], ...]
    tools: tuple[tuple[str, float], ...]
    draw: int


def observe(
    trace: Trace, score: SessionScore | None, *, prompts: Mapping[str, str], rules: AnalyzeRules
) -> Seen:
    """The row of one session; `prompts` maps a prompt's name to the content hash of its current text."""
    start, calls = trace.start, trace.interactions
    answer = told_answer(trace, rules.answer_names)
    wrong = _wrong(trace, score, answer)
    return Seen(
        session_id=start.session_id,
        unit=unit_of(trace),
        user=start.user,
        at=start.at,
        intent=_label((score.intent if score else None) or next((c.intent for c in calls if c.intent), None)),
        model=_label((score.model if score else None) or _most_used(calls)),
        prompts=tuple(sorted({n for c in calls for n, h in c.prompts.items() if prompts.get(n) == h})),
        bad=_bad(calls, score),
        wrong=wrong,
        answer=answer,
        accepted=_given(calls) if wrong is False else None,
        terms=_terms(calls),
        cost=score.cost_usd if score else None,
        recall=max((r.score for c in calls for r in c.recalls), default=None),
        models=_typical((c.model, c.latency_ms) for c in calls if _whole(c)),
        tools=_typical((t.name, t.latency_ms) for c in calls for t in c.tool_calls),
        draw=keyed(rules.sample_key, "session", start.session_id),
    )


def unit_of(trace: Trace) -> str:
    """Whom the session counts for: its user, else its randomised unit, else itself."""
    return trace.start.user or trace.start.unit or trace.start.session_id


def keyed(key: str, kind: str, name: str) -> int:
    """Number in 0..2**64 that nobody without the key can choose. Keyed BLAKE2b (RFC 7693)."""
    secret = hashlib.sha256(key.encode()).digest()
    digest = hashlib.blake2b(f"{kind}\0{name}".encode(errors="replace"), key=secret, digest_size=8)
    return int.from_bytes(digest.digest(), "big")


def _terms(calls: tuple[Interaction, ...]) -> frozenset[str] | None:
    found = content_words(request_text(calls))
    if isinstance(found, NotEnoughData):
        return None if request_text(calls).strip() else frozenset()
    return frozenset(list(dict.fromkeys(found))[:_MAX_WORDS])


def _bad(calls: tuple[Interaction, ...], score: SessionScore | None) -> bool | None:
    statuses = [t.status for c in calls for t in c.tool_calls if not t.external]
    completion = score.dimensions.get("task_completion") if score else None
    failed = score.failed if score else None
    if failed or ToolStatus.FAILED in statuses or (completion is not None and completion < GOOD_FROM):
        return True
    known = failed is not None or completion is not None or ToolStatus.OK in statuses
    return False if known else None


def _wrong(trace: Trace, score: SessionScore | None, answer: str | None) -> bool | None:
    corrections = [_numeric(f.value) for f in trace.feedback if f.name == FeedbackName.CORRECTION]
    if any(value is not None and value >= GOOD_FROM for value in corrections):
        return True
    if answer is not None:
        return not same_text(_given(trace.interactions), answer)
    told = score.dimensions if score else {}
    names = ("response_relevance", "task_completion", "user_satisfaction")
    values = [told[name] for name in names if name in told]
    return any(value < GOOD_FROM for value in values) if values else None


def _given(calls: tuple[Interaction, ...]) -> str:
    return next((c.response for c in reversed(calls) if c.response), "")[:MAX_ANSWER]


def _numeric(value: float | str) -> float | None:
    try:
        return float(value)
    except ValueError:
        return None


def _whole(call: Interaction) -> bool:
    return call.terminal is Terminal.COMPLETED and bool(call.model)


def _typical(pairs: Iterable[tuple[str, float | None]]) -> tuple[tuple[str, float], ...]:
    """Median log milliseconds per name; what is no positive time is left out."""
    waits: dict[str, list[float]] = {}
    for name, wait in pairs:
        if wait is not None and math.isfinite(wait) and wait > 0:
            waits.setdefault(name, []).append(math.log(wait))
    return tuple((quoted(name, _MAX_LABEL), statistics.median(v)) for name, v in sorted(waits.items()))


def _label(name: str | None) -> str | None:
    """A recorded name, harmless to show; an ordinary name stays as it is."""
    return quoted(name, _MAX_LABEL) if name else None


def _most_used(calls: tuple[Interaction, ...]) -> str | None:
    counted = Counter(call.model for call in calls if call.model)
    return min(counted, key=lambda name: (-counted[name], name)) if counted else None
