"""What a recorded session says about memory: entries written, queries made, entries that were of use."""

from collections import Counter

from prx.domain.memory import LoggedQuery, Reader, SessionMemory, Use, raw_entry
from prx.domain.records import FeedbackName, Interaction, Trace
from prx.fitness.signals import Signals, read_signals

RELEVANT_FROM = 0.5


def learned(trace: Trace) -> SessionMemory:
    """Derived from the whole session, so that reading it again after more has arrived replaces it.

    A recall counts as confirmed use when feedback `memory_relevant` on its call (else on the session) is at
    least 0.5, or the recall itself is marked relevant; being recalled alone confirms nothing.
    """
    start = trace.start
    reader = Reader(
        agent=start.agent,
        env=start.env,
        tenant=start.tenant,
        user=start.user,
        session_id=start.session_id,
    )
    uses = _uses(trace)
    confirmed = {use.memory_id for use in uses if use.confirmed}
    queries = []
    for logged in trace.recalls:
        found = tuple(recall.memory_id for recall in logged.found)
        if found and logged.query:
            told = tuple(one for one in found if one in confirmed)
            queries.append(
                LoggedQuery(
                    query_id=logged.record_id,
                    reader=reader,
                    query=logged.query,
                    at=logged.at,
                    evidence=told or found,
                    confirmed=bool(told),
                )
            )
    entries = tuple(raw_entry(written) for written in trace.memories if written.text.strip())
    return SessionMemory(
        session_id=start.session_id, reader=reader, entries=entries, uses=uses, queries=tuple(queries)
    )


def _uses(trace: Trace) -> tuple[Use, ...]:
    signals = read_signals(trace)
    given = Counter(recall.memory_id for call in trace.interactions for recall in call.recalls)
    asked = Counter(recall.memory_id for logged in trace.recalls for recall in logged.found)
    uses = {
        memory_id: Use(memory_id=memory_id, retrieved=max(given[memory_id], asked[memory_id]))
        for memory_id in (given | asked)
    }
    for call in trace.interactions:
        verdicts = _verdicts(call, signals)
        good = [memory_id for memory_id, relevant in verdicts.items() if relevant]
        for memory_id, relevant in verdicts.items():
            before = uses[memory_id]
            uses[memory_id] = Use(
                memory_id=memory_id,
                retrieved=before.retrieved,
                confirmed=before.confirmed or relevant,
                contradicted=before.contradicted or not relevant,
                alone=before.alone or good == [memory_id],
                last_used=call.at if relevant else before.last_used,
            )
    return tuple(uses[memory_id] for memory_id in sorted(uses))


def _verdicts(call: Interaction, signals: Signals) -> dict[str, bool]:
    told = signals.by_call(FeedbackName.MEMORY_RELEVANT).get(call.record_id)
    if told is None:
        told = signals.of_session(FeedbackName.MEMORY_RELEVANT)
    if told is not None:
        return {recall.memory_id: told >= RELEVANT_FROM for recall in call.recalls}
    return {recall.memory_id: recall.relevant for recall in call.recalls if recall.relevant is not None}
