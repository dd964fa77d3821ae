"""Evidence of a finding as cases: recorded text, capped per user."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from prx.domain.plaintext import folded
from prx.domain.records import Trace
from prx.domain.told import request_text, same_text, told_answer
from prx.domain.words import spans, words
from prx.propose.draft import ProposeRules

# The spaces around it are counted: two letters or digits name nobody.
_SHORTEST_VALUE = 4
_SHORT_VALUE = 8
_LEAST_WORD = 4
Traces = Callable[[str], Trace | None]


@dataclass(frozen=True, slots=True)
class Case:
    """One session: what was asked, what was answered, the right answer when someone told it, and what filled
    the slots of its prompts."""

    session_id: str
    user: str | None
    request: str
    response: str
    answer: str | None
    values: tuple[str, ...] = ()


def cases_of(evidence: Iterable[str], traces: Traces, *, agent: str, rules: ProposeRules) -> tuple[Case, ...]:
    """Cases of the evidence ids in order; at most `items_per_user` of one user, or of all without one.

    Ids that no trace of this agent answers to are left out.
    """
    taken: Counter[str | None] = Counter()
    cases: list[Case] = []
    for session_id in dict.fromkeys(evidence):
        trace = traces(session_id)
        if trace is None or trace.start.agent != agent:
            continue
        user = trace.start.user
        taken[user] += 1
        if user is not None and taken[user] > rules.items_per_user:
            continue
        response = next((c.response for c in reversed(trace.interactions) if c.response), "")
        request = request_text(trace.interactions)
        answer = told_answer(trace, rules.answer_names)
        cases.append(Case(session_id, user, request, response, answer, _values_of(trace)))
    return tuple(cases)


def users_behind(cases: Iterable[Case]) -> int:
    """Distinct named users; sessions without a user support nothing, they can be made at will."""
    return len({case.user for case in cases if case.user is not None})


def copied_span(
    text: str, cases: Sequence[Case], *, allowed: str, rules: ProposeRules
) -> tuple[str, ...] | None:
    """A run of `span` words that `text` shares with records of fewer than `min_users` users, if any; or a
    whole value, however short, that filled a slot of the prompts of fewer than that.

    allowed: text whose runs may be repeated, such as the current prompt.
    """
    value = _copied_value(text, cases, allowed=allowed, rules=rules)
    if value is not None:
        return value
    fresh = spans(text, rules.span) - spans(allowed, rules.span)
    if not fresh:
        return None
    behind: dict[tuple[str, ...], set[str]] = {}
    for case in cases:
        for part in (case.request, case.response, case.answer or "", *case.values):
            for span in fresh & spans(part, rules.span):
                users = behind.setdefault(span, set())
                if case.user is not None:
                    users.add(case.user)
    return min((span for span, users in behind.items() if len(users) < rules.min_users), default=None)


def _copied_value(
    text: str, cases: Sequence[Case], *, allowed: str, rules: ProposeRules
) -> tuple[str, ...] | None:
    """The words of a slot's value that `text` repeats: all of it, or one that tells whose it is."""
    written, known = _run(text), _run(allowed)
    behind: dict[str, set[str]] = {}
    for case in cases:
        for value in case.values:
            for run in _telling_runs(value):
                if run in written and run not in known:
                    users = behind.setdefault(run, set())
                    if case.user is not None:
                        users.add(case.user)
    few = min((run for run, users in behind.items() if len(users) < rules.min_users), default=None)
    return None if few is None else tuple(few.split())


def _telling_runs(value: str) -> set[str]:
    """The value itself, and of its words those that may name somebody: in a short value all but the
    shortest, in a long one, such as a document, only those with digits."""
    found = words(value)
    short = len(found) <= _SHORT_VALUE
    alone = (w for w in found if len(w) >= _LEAST_WORD and (short or any(c.isdigit() for c in w)))
    runs = {f" {word} " for word in alone}
    return runs | {whole} if len(whole := _run(value)) > _SHORTEST_VALUE else runs


def _run(text: str) -> str:
    """The words with a space around each, so that a run of whole words is found as text."""
    return f" {' '.join(words(text))} "


def _values_of(trace: Trace) -> tuple[str, ...]:
    values = (
        value
        for call in trace.interactions
        for filled in call.prompt_values.values()
        for value in filled.values()
    )
    return tuple(dict.fromkeys(values))


def agreed_case(cases: Sequence[Case], min_users: int) -> Case | None:
    """A case whose very request and right answer at least `min_users` users gave alike, if any."""
    for case in cases:
        if case.answer is None or not case.request.strip():
            continue
        alike = [c for c in cases if c.answer and _alike(c, case)]
        if users_behind(alike) >= min_users:
            return case
    return None


def _alike(a: Case, b: Case) -> bool:
    return folded(a.request) == folded(b.request) and same_text(a.answer or "", b.answer or "")
