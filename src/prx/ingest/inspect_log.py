"""Inspect evaluation logs (JSON form): each sample is a session, its model events are the calls."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from prx.domain.records import FeedbackName, Record, Terminal, Tokens, ToolCall
from prx.fitness.tools import is_external, read_tool_result
from prx.ingest.drafting import Call, Draft, Signal, Source, draft_records, turn_fields
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
from prx.ingest.transcript import declared_tools, split_chat, to_messages

_ATTACHED = "attachment://"
_GRADES = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}


def fits(value: Any) -> bool:
    """True for a whole log."""
    return isinstance(value, dict) and isinstance(value.get("eval"), dict) and "samples" in value


def read(value: Any, source: Source) -> Iterator[Record]:
    """Every sample of the log; the first scorer's grade is the task outcome, all grades are kept."""
    samples = dicts_at(value, "samples")
    if not samples:
        raise Misfit("the log holds no samples; write it with `log_samples` on")
    spec = dict_at(value, "eval")
    logged = time_of(dict_at(value, "stats").get("started_at")) or time_of(spec.get("created"))
    run = name_of(spec.get("run_id"))
    for sample in samples:
        yield from _sample(sample, source, run=run, spec=spec, logged=logged)


def _sample(
    sample: dict[str, Any], source: Source, *, run: str | None, spec: dict[str, Any], logged: datetime | None
) -> Iterator[Record]:
    model = name_of(spec.get("model")) or ""
    attachments = dict_at(sample, "attachments")
    events = [e for e in dicts_at(sample, "events") if e.get("event") == "model" and not e.get("pending")]
    if events:
        calls = _with_results(events, sample, attachments)
    else:
        messages = [_attached_message(m, attachments) for m in list_at(sample, "messages")]
        calls = [Call(turn_fields(turn, model=model), at=logged) for turn in split_chat(messages)]
    sample_id, epoch = name_of(sample.get("id")), name_of(sample.get("epoch"))
    yield from draft_records(
        Draft(
            session_id=source.session_id(
                name_of(sample.get("uuid")) or [run, sample_id, epoch, sample.get("input")]
            ),
            calls=calls,
            signals=[*_grades(dict_at(sample, "scores")), *_target(sample)],
            started_at=next((call.at for call in calls if call.at), logged),
            ref=f"{name_of(spec.get('task'))} sample {sample_id} epoch {epoch}",
            shared={"model": model} if events else {},
        ),
        source,
    )


def _with_results(
    events: list[dict[str, Any]], sample: dict[str, Any], attachments: dict[str, Any]
) -> list[Call]:
    """Calls of the model events, each tool call with the result that the sample's messages hold."""
    results = {
        call_id: message
        for message in dicts_at(sample, "messages")
        if message.get("role") == "tool" and (call_id := name_of(message.get("tool_call_id"))) is not None
    }
    return [_call(event, results, attachments) for event in events]


def _call(event: dict[str, Any], results: dict[str, dict[str, Any]], attachments: dict[str, Any]) -> Call:
    at, done = time_of(event.get("timestamp")), time_of(event.get("completed"))
    output = dict_at(event, "output")
    message = next((dict_at(choice, "message") for choice in dicts_at(output, "choices")), {})
    error = text_of(event.get("error") or output.get("error"))
    provider, slash, name = (name_of(event.get("model")) or "").partition("/")
    worked = number_of(event.get("working_time"))
    waited = (done - at).total_seconds() if at and done and done >= at else None
    seconds = worked if worked is not None else waited
    fields = {
        "model": name if slash else provider,
        "provider": provider if slash else "",
        "messages": to_messages(_attached_message(m, attachments) for m in list_at(event, "input")),
        "response": text_of(_attached(message["content"], attachments)) if "content" in message else None,
        "tool_calls": tuple(_joined(c, results, attachments) for c in declared_tools(message)),
        "terminal": Terminal.UPSTREAM_ERROR if error else Terminal.COMPLETED,
        "error": error or None,
        "external_failure": bool(error) and is_external(error),
        "latency_ms": None if seconds is None else seconds * 1000,
        "tokens": _tokens(dict_at(output, "usage")),
        "retry": bool(count_of(event.get("retries"))),
    }
    return Call(fields, at=at)


def _joined(call: ToolCall, results: dict[str, dict[str, Any]], attachments: dict[str, Any]) -> ToolCall:
    message = results.get(call.call_id or "")
    if message is None:
        return call
    error = message.get("error")
    result = text_of(_attached(message.get("content"), attachments))
    reading = read_tool_result(
        f"{text_of(error)} {result}" if error else result, is_error=True if error else None
    )
    return ToolCall(
        name=call.name,
        status=reading.status,
        call_id=call.call_id,
        arguments=call.arguments,
        result=result,
        external=reading.external,
    )


def _tokens(usage: dict[str, Any]) -> Tokens:
    return Tokens(
        input=count_of(usage.get("input_tokens")),
        output=count_of(usage.get("output_tokens")),
        cache_read=count_of(usage.get("input_tokens_cache_read")),
        cache_write=count_of(usage.get("input_tokens_cache_write")),
        reasoning=count_of(usage.get("reasoning_tokens")),
    )


def _grades(scores: dict[str, Any]) -> list[Signal]:
    signals: list[Signal] = []
    for place, (scorer, score) in enumerate(scores.items()):
        raw = score.get("value") if isinstance(score, dict) else None
        grade = _GRADES.get(raw) if isinstance(raw, str) else None
        value = grade if grade is not None else share_of(raw)
        if value is not None and place == 0:
            signals.append(Signal(FeedbackName.TASK_OUTCOME, value))
        told = value if value is not None else name_of(raw)
        name = name_of(scorer)
        if told is not None and name is not None:
            signals.append(Signal(f"score:{name}", told))
    return signals


def _target(sample: dict[str, Any]) -> list[Signal]:
    """The answer that would have been right, where the sample has one."""
    target = text_of(sample.get("target")).strip()
    return [Signal("expected", target)] if target else []


def _attached_message(raw: Any, attachments: dict[str, Any]) -> Any:
    if not isinstance(raw, dict) or "content" not in raw:
        return raw
    return {**raw, "content": _attached(raw["content"], attachments)}


def _attached(content: Any, attachments: dict[str, Any]) -> Any:
    """Long texts are kept aside in a sample and only named where they belong."""
    if isinstance(content, str) and content.startswith(_ATTACHED):
        return attachments.get(content.removeprefix(_ATTACHED), content)
    return content
