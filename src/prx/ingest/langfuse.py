"""Langfuse traces: leaf generations are model calls, tool observations their tools, scores feedback."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import msgspec

from prx.domain.records import (
    PRODUCTION,
    FeedbackName,
    Record,
    Terminal,
    Tokens,
    ToolCall,
)
from prx.fitness.tools import is_external, read_tool_result
from prx.ingest.drafting import Call, Draft, Signal, Source, draft_records
from prx.ingest.langfuse_shapes import decoded, request_of, response_of, tools_asked_for
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
from prx.ingest.transcript import UNNAMED

_KNOWN_SCORES = {
    "user-feedback": FeedbackName.THUMB,
    "user_feedback": FeedbackName.THUMB,
    "thumbs": FeedbackName.THUMB,
    "answer_relevance": FeedbackName.RELEVANCE,
    "task_success": FeedbackName.TASK_OUTCOME,
}
_TOOL_NAMES = ("gen_ai.tool.name", "ai.toolCall.name")
_TOOL_IDS = ("gen_ai.tool.call.id", "tool_call.id", "ai.toolCall.id")
_DEPTH = 1000
_MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class _Span:
    """One observation with its times read."""

    raw: dict[str, Any]
    key: str
    parent: str | None
    start: datetime | None
    end: datetime | None

    @property
    def milliseconds(self) -> float | None:
        """Duration, from its two times: the `latency` field is in seconds or in milliseconds."""
        if self.start is None or self.end is None or self.end < self.start:
            return None
        return (self.end - self.start) / _MILLISECOND


def fits(value: Any) -> bool:
    """True for a trace with its observations, side by side or one inside the other."""
    if not isinstance(value, dict):
        return False
    return bool(list_at(value, "observations") or list_at(value.get("trace"), "observations")) and (
        isinstance(value.get("trace"), dict) or name_of(value.get("id")) is not None
    )


def read(value: Any, source: Source) -> Iterator[Record]:
    """One trace: it belongs to the session that it names, else it is one.

    A generation that holds other generations is a wrapper and no call of its own; one without input,
    output and usage says nothing and is left out.
    """
    trace = dict_at(value, "trace") or value
    trace_id = name_of(trace.get("id"))
    if trace_id is None:
        raise Misfit("the trace has no `id`")
    raw = dicts_at(value, "observations") or dicts_at(trace, "observations")
    spans = [_span(o, place) for place, o in enumerate(raw)]
    leaves = _leaves(spans)
    calls = _calls(leaves, [s for s in spans if _tool_name(s) is not None])
    session = name_of(trace.get("sessionId"))
    started = time_of(trace.get("timestamp"))
    environment = name_of(trace.get("environment"))
    yield from draft_records(
        Draft(
            session_id=source.session_id(session or trace_id),
            calls=calls,
            signals=_signals(dicts_at(trace, "scores"), leaves, session is not None),
            started_at=started,
            user=name_of(trace.get("userId")),
            env=environment if environment and environment != "default" else PRODUCTION,
            channel=name_of(trace.get("name")),
            ref=session or trace_id,
            ended=False,
        ),
        source,
    )


def _span(raw: dict[str, Any], place: int) -> _Span:
    return _Span(
        raw=raw,
        key=name_of(raw.get("id")) or f"observation {place}",
        parent=name_of(raw.get("parentObservationId")),
        start=time_of(raw.get("startTime")),
        end=time_of(raw.get("endTime")),
    )


def _leaves(spans: list[_Span]) -> list[_Span]:
    """Generations that hold no other one, oldest first; those without a time come last, in file order."""
    parents = {s.key: s.parent for s in spans}
    generations = [s for s in spans if s.raw.get("type") == "GENERATION" and _says_something(s.raw)]
    wrappers: set[str] = set()
    for span in generations:
        parent, steps = span.parent, 0
        while parent is not None and parent not in wrappers and steps < _DEPTH:
            wrappers.add(parent)
            parent, steps = parents.get(parent), steps + 1
    found = [s for s in generations if s.key not in wrappers]
    timed = sorted((s for s in found if s.start is not None), key=lambda s: s.start)  # type: ignore[arg-type,return-value]
    return [*timed, *(s for s in found if s.start is None)]


def _says_something(raw: dict[str, Any]) -> bool:
    return any(raw.get(key) not in (None, "", {}, []) for key in ("input", "output", "usageDetails"))


def _calls(leaves: list[_Span], tools: list[_Span]) -> list[Call]:
    declared = [tools_asked_for(leaf.raw) for leaf in leaves]
    for tool in sorted(tools, key=lambda t: (t.start is None, str(t.start), t.key)):
        owner = _owner(tool, leaves, declared)
        if owner is None:
            continue
        place, index = owner
        if index is None:
            declared[place].append(_tool(tool))
        else:
            declared[place][index] = _completed(_tool(tool), declared[place][index])
    return [
        Call(_fields(leaf, tuple(found)), at=leaf.start, key=leaf.key)
        for leaf, found in zip(leaves, declared, strict=True)
    ]


def _completed(made: ToolCall, asked: ToolCall) -> ToolCall:
    """`made` as it was observed, with the id and arguments that were asked for where it has none."""
    return msgspec.structs.replace(
        made, call_id=made.call_id or asked.call_id, arguments=made.arguments or asked.arguments
    )


def _owner(tool: _Span, leaves: list[_Span], declared: list[list[ToolCall]]) -> tuple[int, int | None] | None:
    """Which call asked for the tool, and in which place: the one that names its id, else the newest one
    before it. None when the trace has no call."""
    if not leaves:
        return None
    call_id = _attribute(tool, _TOOL_IDS)
    asking = ((p, i) for p, calls in enumerate(declared) for i, c in enumerate(calls) if c.call_id == call_id)
    found = next(asking, None) if call_id is not None else None
    if found is not None:
        return found
    place = max(
        (i for i, s in enumerate(leaves) if s.start and tool.start and s.start <= tool.start), default=0
    )
    name = _tool_name(tool)
    waiting = (
        i for i, c in enumerate(declared[place]) if c.name == name and c.result is None and not call_id
    )
    return place, next(waiting, None)


def _tool_name(span: _Span) -> str | None:
    """Name of the tool that an observation ran; None when it is no tool, or names none."""
    named = _attribute(span, _TOOL_NAMES)
    if named is None and _attribute(span, ("openinference.span.kind",)) == "TOOL":
        named = _attribute(span, ("tool.name",))
    if named is None and span.raw.get("type") == "TOOL":
        return name_of(span.raw.get("name")) or UNNAMED
    return named


def _attribute(span: _Span, keys: tuple[str, ...]) -> str | None:
    attributes = dict_at(decoded(span.raw.get("metadata")), "attributes")
    return next((found for key in keys if (found := name_of(attributes.get(key))) is not None), None)


def _tool(span: _Span) -> ToolCall:
    result = None if span.raw.get("output") is None else text_of(span.raw["output"])
    failed = span.raw.get("level") == "ERROR"
    reading = read_tool_result(
        result or text_of(span.raw.get("statusMessage")), is_error=True if failed else None
    )
    return ToolCall(
        name=_tool_name(span) or UNNAMED,
        status=reading.status,
        call_id=_attribute(span, _TOOL_IDS),
        arguments=None if span.raw.get("input") is None else text_of(span.raw["input"]),
        result=result,
        latency_ms=span.milliseconds,
        external=reading.external,
    )


def _fields(leaf: _Span, tools: tuple[ToolCall, ...]) -> dict[str, Any]:
    raw = leaf.raw
    first = time_of(raw.get("completionStartTime"))
    failed = raw.get("level") == "ERROR"
    why = text_of(raw.get("statusMessage"))
    waited = None if first is None or leaf.start is None else (first - leaf.start) / _MILLISECOND
    return {
        "model": name_of(raw.get("model")) or "",
        "provider": _attribute(leaf, ("gen_ai.system", "gen_ai.provider.name", "llm.provider")) or "",
        "messages": request_of(raw.get("input")),
        "response": response_of(raw.get("output")),
        "tool_calls": tools,
        "terminal": Terminal.UPSTREAM_ERROR if failed else Terminal.COMPLETED,
        "error": why or "error" if failed else None,
        "external_failure": failed and is_external(why),
        "streamed": first is not None,
        "ttft_ms": waited if waited is not None and waited >= 0 else None,
        "latency_ms": leaf.milliseconds,
        "tokens": _tokens(dict_at(raw, "usageDetails")),
        "cost_usd": number_of(dict_at(raw, "costDetails").get("total")),
    }


def _tokens(usage: dict[str, Any]) -> Tokens:
    def first(*keys: str) -> int | None:
        return next((n for key in keys if (n := count_of(usage.get(key))) is not None), None)

    return Tokens(
        input=first("input"),
        output=first("output"),
        cache_read=first("input_cache_read", "prompt_details.cache_read", "input_cached_tokens"),
        cache_write=first("input_cache_creation", "input_cache_write"),
        reasoning=first("output_reasoning", "completion_details.reasoning", "output_reasoning_tokens"),
    )


def _signals(scores: list[dict[str, Any]], leaves: list[_Span], shared: bool) -> list[Signal]:
    """A score of an observation goes to its call; one of a trace to its last call where the session may
    hold other traces, else to the session."""
    place_of = {leaf.key: place for place, leaf in enumerate(leaves)}
    signals = []
    for score in scores:
        name = name_of(score.get("name"))
        raw = score.get("value")
        value = share_of(raw)
        told = value if value is not None else number_of(raw) or name_of(score.get("stringValue"))
        if name is None or told is None:
            continue
        observation = name_of(score.get("observationId"))
        call = place_of.get(observation) if observation else len(leaves) - 1 if shared and leaves else None
        signals.append(
            Signal(
                _KNOWN_SCORES.get(name, name),
                told,
                call,
                time_of(score.get("timestamp")),
                name_of(score.get("id")),
            )
        )
    return signals
