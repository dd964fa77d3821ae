"""Our own lines: a friendly shape for people and programs, and the exact export of the records."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

import msgspec

from prx.domain.records import (
    PRODUCTION,
    Feedback,
    FeedbackName,
    Interaction,
    Recall,
    Record,
    SessionEnd,
    Terminal,
    Tokens,
)
from prx.ingest.drafting import Call, Draft, Signal, Source, draft_records, start_record, turn_fields
from prx.ingest.plain import (
    Misfit,
    count_of,
    dict_at,
    dicts_at,
    list_at,
    name_of,
    number_of,
    share_of,
    text_of,
    time_of,
)
from prx.ingest.transcript import split_chat, to_messages, tool_call

_EXACT = frozenset(
    {"session_start", "interaction", "feedback", "session_end", "assignment", "exposure", "prompt_seen"}
)
_THUMBS = {"up": 1.0, "down": 0.0, "1": 1.0, "-1": 0.0, "0": 0.0}
_NUMBERS = frozenset(FeedbackName)
_OUTCOMES = {"outcome": FeedbackName.TASK_OUTCOME, "thumb": FeedbackName.THUMB}


def fits(value: Any) -> bool:
    """True for a line with a known `type`, or one whose keys tell what it is."""
    return isinstance(value, dict) and _kind(value) is not None


def read(value: Any, source: Source) -> Iterator[Record]:
    """Records of one line. Raises: Misfit saying which key is missing or wrong."""
    kind = _kind(value)
    if kind is None:
        raise Misfit("the line has no known `type`, and no `messages`, `response`, or `name` and `value`")
    if kind == "exact":
        yield _exact(value)
    else:
        yield from _READERS[kind](value, source)


def _kind(value: dict[str, Any]) -> str | None:
    told = value.get("type")
    if isinstance(told, str):
        if told in _EXACT and "record_id" in value:
            return "exact"
        return told if told in _READERS else None
    if told is not None:
        return None
    if "name" in value and "value" in value:
        return "feedback"
    if "response" in value or "tool_calls" in value:
        return "call"
    if isinstance(value.get("messages"), list):
        return "conversation"
    return None


def _exact(value: dict[str, Any]) -> Record:
    if value.get("type") == "prompt_seen":
        raise Misfit("a prompt is only taken from a running app; use `prx evolution propose` for its text")
    try:
        record: Record = msgspec.convert(value, Record, str_keys=False)
    except (msgspec.ValidationError, RecursionError, OverflowError) as error:
        raise Misfit(f"the line is no exact record ({error})") from error
    try:
        stored: Record = msgspec.json.decode(msgspec.json.encode(record), type=Record)
    except (msgspec.DecodeError, UnicodeError, OverflowError, RecursionError) as error:
        raise Misfit(f"the record cannot be stored ({error})") from error
    if stored.at.tzinfo is None:
        raise Misfit("the record's time has no zone; write it as 2026-12-01T08:00:00Z")
    if fault := _impossible(stored):
        raise Misfit(fault)
    return stored


def _impossible(record: Record) -> str:
    """What no record can hold, though its type allows it; empty when there is nothing."""
    if time_of(record.at.isoformat()) is None:
        return f"the record's time {record.at.isoformat()} is before 1990 or after 2100"
    empty = [key for key in ("record_id", "session_id", "target") if getattr(record, key, None) == ""]
    if empty:
        return f"the record's {empty[0]} is empty"
    if not isinstance(record, Interaction):
        return ""
    tokens = msgspec.structs.asdict(record.tokens)
    counted = {"ttft_ms": record.ttft_ms, "latency_ms": record.latency_ms, "cost_usd": record.cost_usd}
    counted |= {f"tokens.{key}": value for key, value in tokens.items()}
    counted |= {f"latency_ms of tool {tool.name!r:.60}": tool.latency_ms for tool in record.tool_calls}
    wrong = [key for key, value in counted.items() if value is not None and number_of(value) is None]
    return f"{wrong[0]} is below 0 or larger than any call's" if wrong else ""


def _session(value: dict[str, Any], source: Source) -> Iterator[Record]:
    session = _needed(value, "session")
    yield _start(value, source, session, _at(value) or source.now)


def _conversation(value: dict[str, Any], source: Source) -> Iterator[Record]:
    source = replace(source, agent=name_of(value.get("agent")) or source.agent)
    messages = list_at(value, "messages")
    turns = list(split_chat(messages))
    if not turns:
        raise Misfit("the conversation has no message with role `assistant`")
    at = _at(value)
    shared = {k: v for k, v in _call_fields(value).items() if k in ("model", "provider", "intent", "version")}
    calls = [Call(turn_fields(turn, **shared), at=at) for turn in turns]
    yield from draft_records(
        Draft(
            session_id=name_of(value.get("session")) or source.session_id(messages),
            calls=calls,
            signals=_outcomes(value),
            started_at=at,
            user=name_of(value.get("user")),
            env=name_of(value.get("env")) or PRODUCTION,
            tenant=name_of(value.get("tenant")),
            channel=name_of(value.get("channel")),
            ref=name_of(value.get("ref")),
            ended=value.get("ended") is not False,
        ),
        source,
    )


def _call(value: dict[str, Any], source: Source) -> Iterator[Record]:
    session = _needed(value, "session")
    at = _at(value)
    yield _start(value, source, session, at or source.now)
    fields = _call_fields(value)
    record_id = name_of(value.get("id")) or source.record_id("call", session, value)
    yield Interaction(
        record_id=record_id,
        at=at or source.now,
        session_id=session,
        source=source.name,
        time_known=at is not None,
        **fields,
    )
    for signal in _outcomes(value):
        yield Feedback(
            record_id=source.record_id("feedback", record_id, signal.name),
            at=at or source.now,
            target_kind="interaction",
            target=record_id,
            name=signal.name,
            value=signal.value,
            source=source.name,
            agent=name_of(value.get("agent")) or source.agent,
        )


def _call_fields(value: dict[str, Any]) -> dict[str, Any]:
    tokens = dict_at(value, "tokens")
    error = text_of(value.get("error")) or None
    return {
        "model": name_of(value.get("model")) or "",
        "provider": name_of(value.get("provider")) or "",
        "intent": name_of(value.get("intent")),
        "version": name_of(value.get("version")),
        "ref": name_of(value.get("ref")),
        "messages": to_messages(list_at(value, "messages")),
        "response": None if value.get("response") is None else text_of(value["response"]),
        "tool_calls": tuple(tool_call(raw) for raw in dicts_at(value, "tool_calls")),
        "terminal": Terminal.UPSTREAM_ERROR if error else Terminal.COMPLETED,
        "error": error,
        "external_failure": value.get("external_failure") is True,
        "streamed": value.get("streamed") is True,
        "ttft_ms": _amount(value, "ttft_ms"),
        "latency_ms": _amount(value, "latency_ms"),
        "tokens": Tokens(
            **{k: _count(tokens, k) for k in ("input", "output", "cache_read", "cache_write", "reasoning")}
        ),
        "cost_usd": _amount(value, "cost_usd"),
        "retry": value.get("retry") is True,
        "recalls": tuple(_recall(raw) for raw in dicts_at(value, "recalls")),
    }


def _amount(value: dict[str, Any], key: str) -> float | None:
    """A number from 0 on; None when the line does not tell it. Raises: Misfit for anything else."""
    found = number_of(value.get(key))
    if found is None and value.get(key) is not None:
        raise Misfit(f"{key} is {value[key]!r:.40}; give a number from 0 on, or leave it out")
    return found


def _count(tokens: dict[str, Any], key: str) -> int | None:
    found = count_of(tokens.get(key))
    if found is None and tokens.get(key) is not None:
        raise Misfit(f"tokens.{key} is {tokens[key]!r:.40}; give a whole number from 0 on, or leave it out")
    return found


def _recall(raw: dict[str, Any]) -> Recall:
    relevant = raw.get("relevant")
    return Recall(
        memory_id=name_of(raw.get("memory_id")) or name_of(raw.get("id")) or "unnamed",
        score=number_of(raw.get("score")) or 0.0,
        relevant=relevant if isinstance(relevant, bool) else None,
    )


def _feedback(value: dict[str, Any], source: Source) -> Iterator[Record]:
    kind, target = _target(value)
    name = _needed(value, "name")
    told = _value(name, value.get("value"))
    yield Feedback(
        record_id=name_of(value.get("id")) or source.record_id("feedback", value),
        at=_at(value) or source.now,
        target_kind=kind,
        target=target,
        name=name,
        value=told,
        source=name_of(value.get("source")) or source.name,
        agent=name_of(value.get("agent")) or source.agent,
    )


def _target(value: dict[str, Any]) -> tuple[str, str]:
    for key, kind in (("session", "session"), ("record", "interaction"), ("ref", "ref")):
        target = name_of(value.get(key))
        if target is not None:
            return kind, target
    raise Misfit("the feedback names neither `session`, `record` nor `ref`")


def _value(name: str, raw: Any) -> float | str:
    """A number in 0..1 for the names that fitness reads (a thumb also as word or -1, a correction also as
    the right answer); others as told."""
    if name == FeedbackName.THUMB and (word := _THUMBS.get(str(name_of(raw)).lower())) is not None:
        return word
    share = share_of(raw)
    if share is not None:
        return share
    if isinstance(raw, str) and raw.strip() and (name not in _NUMBERS or name == FeedbackName.CORRECTION):
        return text_of(raw)
    told = number_of(raw) if name not in _NUMBERS else None
    if told is None:
        raise Misfit(f"the value {raw!r:.60} of {name} is no number in 0..1")
    return told


def _end(value: dict[str, Any], source: Source) -> Iterator[Record]:
    session = _needed(value, "session")
    yield SessionEnd(
        record_id=source.record_id("end", session), at=_at(value) or source.now, session_id=session
    )


def _start(value: dict[str, Any], source: Source, session: str, at: datetime) -> Record:
    return start_record(
        source,
        session_id=session,
        at=at,
        user=name_of(value.get("user")),
        agent=name_of(value.get("agent")),
        env=name_of(value.get("env")) or PRODUCTION,
        tenant=name_of(value.get("tenant")),
        channel=name_of(value.get("channel")),
        ref=name_of(value.get("ref")) if value.get("type") == "session" else None,
    )


def _outcomes(value: dict[str, Any]) -> list[Signal]:
    return [
        Signal(name, _value(name, value[key]))
        for key, name in _OUTCOMES.items()
        if value.get(key) is not None
    ]


def _needed(value: dict[str, Any], key: str) -> str:
    found = name_of(value.get(key))
    if found is None:
        raise Misfit(f"the line needs `{key}` as a text")
    return found


def _at(value: dict[str, Any]) -> datetime | None:
    raw = value.get("at")
    if raw is None:
        return None
    at = time_of(raw)
    if at is None:
        raise Misfit(f"`at` {raw!r:.60} is no time; write it as 2026-12-01T08:00:00Z")
    return at


_READERS: dict[str, Callable[[dict[str, Any], Source], Iterator[Record]]] = {
    "session": _session,
    "conversation": _conversation,
    "call": _call,
    "feedback": _feedback,
    "end": _end,
}
