"""From what a dialect found of one session to its records: ids from content, times, unit, feedback."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from prx.domain.records import (
    PRODUCTION,
    Feedback,
    Interaction,
    Record,
    SessionEnd,
    SessionStart,
    UnitSource,
)
from prx.ingest.plain import digest
from prx.ingest.transcript import Turn

_STEP = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Source:
    """Of one import: which dialect, for which agent, and the time that untimed records take."""

    dialect: str
    agent: str
    now: datetime

    @property
    def name(self) -> str:
        """What records say of where they came from."""
        return f"import:{self.dialect}"

    def record_id(self, *parts: Any) -> str:
        """The same content of the same dialect and agent always gets the same id."""
        return f"imp-{digest(self.dialect, self.agent, *parts)}"

    def session_id(self, *parts: Any) -> str:
        """The same session of the same dialect and agent always gets the same id."""
        return f"imp-{digest('session', self.dialect, self.agent, *parts)}"


@dataclass(frozen=True, slots=True)
class Call:
    """One model call: `fields` as in Interaction; `at` None when the file does not say; `key` replaces
    its place in the session in its id where the file has an id of its own."""

    fields: dict[str, Any]
    at: datetime | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Signal:
    """Feedback on the session, or on the call at place `call`."""

    name: str
    value: float | str
    call: int | None = None
    at: datetime | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Draft:
    """All that a file tells of one session. `ended`: the file holds the whole of it."""

    session_id: str
    calls: Sequence[Call] = ()
    signals: Sequence[Signal] = ()
    started_at: datetime | None = None
    user: str | None = None
    env: str = PRODUCTION
    tenant: str | None = None
    channel: str | None = None
    ref: str | None = None
    ended: bool = True
    ended_at: datetime | None = None
    shared: dict[str, Any] = field(default_factory=dict)


def draft_records(draft: Draft, source: Source) -> Iterator[Record]:
    """Start, calls, feedback and end of one session.

    Records without a time take the import's, and calls among them say so (`time_known` False): a
    microsecond apart and just before `source.now`, so that their order stays.
    """
    known = [call.at for call in draft.calls if call.at is not None]
    first_untimed = source.now - _STEP * len(draft.calls)
    times = [c.at or first_untimed + _STEP * place for place, c in enumerate(draft.calls)]
    started = draft.started_at or min(known, default=first_untimed - _STEP)
    yield start_record(
        source,
        session_id=draft.session_id,
        at=min([started, *times]),
        user=draft.user,
        env=draft.env,
        tenant=draft.tenant,
        channel=draft.channel,
        ref=draft.ref,
    )
    ids: list[str] = []
    for place, (call, at) in enumerate(zip(draft.calls, times, strict=True)):
        ids.append(source.record_id("call", draft.session_id, call.key if call.key is not None else place))
        yield Interaction(
            record_id=ids[-1],
            at=at,
            session_id=draft.session_id,
            source=source.name,
            time_known=call.at is not None,
            **{**draft.shared, **call.fields},
        )
    last = max((_end(call, at) for call, at in zip(draft.calls, times, strict=True)), default=started)
    for place, signal in enumerate(draft.signals):
        yield _feedback(draft, source, signal, ids, place, at=signal.at or (last if known else source.now))
    if draft.ended:
        ended_at = draft.ended_at or (last if known else source.now)
        yield SessionEnd(
            record_id=source.record_id("end", draft.session_id), at=ended_at, session_id=draft.session_id
        )


def start_record(
    source: Source,
    *,
    session_id: str,
    at: datetime,
    user: str | None = None,
    agent: str | None = None,
    env: str = PRODUCTION,
    **fields: Any,
) -> SessionStart:
    """The start of a session whose unit is its user where one is known, else itself."""
    return SessionStart(
        record_id=source.record_id("start", session_id),
        at=at,
        session_id=session_id,
        agent=agent or source.agent,
        env=env,
        user=user,
        unit=user or session_id,
        unit_source=UnitSource.USER if user else UnitSource.SESSION,
        source=source.name,
        **fields,
    )


def turn_fields(turn: Turn, **more: Any) -> dict[str, Any]:
    """Fields of the call that a transcript's turn is; what was left out of it is said in `extra`."""
    extra = {**more.pop("extra", {}), **({"messages_dropped": turn.dropped} if turn.dropped else {})}
    return {
        "messages": turn.request,
        "response": turn.response,
        "tool_calls": turn.tool_calls,
        **({"extra": extra} if extra else {}),
        **more,
    }


def _end(call: Call, at: datetime) -> datetime:
    """When the call was over, where its file tells times and how long it took."""
    milliseconds = call.fields.get("latency_ms")
    return at if call.at is None or milliseconds is None else at + timedelta(milliseconds=milliseconds)


def _feedback(
    draft: Draft, source: Source, signal: Signal, ids: list[str], place: int, *, at: datetime
) -> Feedback:
    on_call = signal.call is not None and 0 <= signal.call < len(ids)
    target = ids[signal.call] if on_call and signal.call is not None else draft.session_id
    return Feedback(
        record_id=source.record_id("feedback", draft.session_id, signal.key or f"{signal.name} {place}"),
        at=at,
        target_kind="interaction" if on_call else "session",
        target=target,
        name=signal.name,
        value=signal.value,
        source=source.name,
        agent=source.agent,
    )
