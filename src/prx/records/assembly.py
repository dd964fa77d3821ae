"""How records become the trace of a session, the same over every store."""

from collections.abc import Iterable
from dataclasses import dataclass

from prx.domain.records import (
    DEFAULT_AGENT,
    PRODUCTION,
    Assignment,
    Exposure,
    Feedback,
    Interaction,
    MemoryWritten,
    PromptSeen,
    RecallLogged,
    Record,
    SessionEnd,
    SessionStart,
    Trace,
)
from prx.domain.times import to_micros

SESSION, INTERACTION, REF = "session", "interaction", "ref"


@dataclass(frozen=True, slots=True, order=True)
class Origin:
    """From which record a session's scope is known; the smallest one counts.

    A start that was recorded comes before one inferred from an interaction; then the earlier, then the
    smaller id, so that the order of arrival does not matter.
    """

    inferred: bool
    at: int
    record_id: str
    agent: str
    env: str


def origin_of(record: Record) -> Origin | None:
    """What the record says of its session's scope, or None when it says nothing."""
    if isinstance(record, SessionStart):
        return Origin(False, to_micros(record.at), record.record_id, record.agent, record.env)
    if isinstance(record, Interaction):
        return Origin(True, to_micros(record.at), record.record_id, DEFAULT_AGENT, PRODUCTION)
    return None


def session_of(record: Record) -> str | None:
    """Session that the record names itself; None when it must be resolved, or has none."""
    if isinstance(record, Feedback):
        return record.target if record.target_kind == SESSION else None
    return None if isinstance(record, PromptSeen) else record.session_id


def ref_of(record: Record) -> str | None:
    """The app's own reference that the record gives its session."""
    return record.ref if isinstance(record, SessionStart | Interaction) else None


def experiment_of(record: Record) -> str | None:
    """Experiment that the record puts its session into."""
    return record.experiment_id if isinstance(record, Assignment | Exposure) else None


def assemble(records: Iterable[Record], feedback: Iterable[Feedback]) -> Trace | None:
    """Trace of one session, each list ordered by time and then id.

    Args: `records`: all that name the session, feedback to it included. `feedback`: what was given to
        interactions and refs; feedback by ref counts when its agent is the session's.
    Returns: None when there is neither a start nor an interaction.
    """
    ordered = sorted(records, key=_when)
    interactions = tuple(one for one in ordered if isinstance(one, Interaction))
    start = next((one for one in ordered if isinstance(one, SessionStart)), None)
    if start is None:
        if not interactions:
            return None
        start = _inferred(interactions[0])
    given = {one.record_id: one for one in ordered if isinstance(one, Feedback)}
    given |= {one.record_id: one for one in feedback if one.target_kind != REF or one.agent == start.agent}
    return Trace(
        start=start,
        interactions=interactions,
        feedback=tuple(sorted(given.values(), key=_when)),
        assignments=tuple(one for one in ordered if isinstance(one, Assignment)),
        exposures=tuple(one for one in ordered if isinstance(one, Exposure)),
        ended_at=max((one.at for one in ordered if isinstance(one, SessionEnd)), default=None),
        memories=tuple(one for one in ordered if isinstance(one, MemoryWritten)),
        recalls=tuple(one for one in ordered if isinstance(one, RecallLogged)),
    )


def _inferred(first: Interaction) -> SessionStart:
    return SessionStart(
        record_id=f"inferred:{first.session_id}",
        at=first.at,
        session_id=first.session_id,
        source=first.source,
    )


def _when(record: Record) -> tuple[int, str]:
    return to_micros(record.at), record.record_id
