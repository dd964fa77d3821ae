"""OpenPRX evolution logs: decision lines are calls, memory access lines are recalls with their use."""

from collections.abc import Iterator
from typing import Any

from prx.domain.records import FeedbackName, Recall, Record, Tokens, ToolCall, ToolStatus
from prx.ingest.drafting import Call, Draft, Signal, Source, draft_records
from prx.ingest.plain import Misfit, count_of, name_of, number_of, text_of, time_of

_OUTCOMES = {"success": 1.0, "partial": 0.5, "failure": 0.0}
_TOOL = {"success": ToolStatus.OK, "failure": ToolStatus.FAILED}
_REMEMBERS = frozenset({"read", "search"})


def fits(value: Any) -> bool:
    """True for a decision or a memory access."""
    return (
        isinstance(value, dict)
        and "trace_id" in value
        and "timestamp" in value
        and ("decision_type" in value or "memory_id" in value)
    )


def read(value: Any, source: Source) -> Iterator[Record]:
    """One line, in the session of its trace id.

    The log has one token count per line, kept as input tokens; of memory accesses only reads and
    searches are recalls, the others belong to no call and are told as not imported.
    """
    trace = name_of(value.get("trace_id"))
    if trace is None:
        raise Misfit("the line has no `trace_id`")
    decision = "decision_type" in value
    fields, signals = _decision(value) if decision else (_access(value), [])
    at = time_of(value.get("timestamp"))
    yield from draft_records(
        Draft(
            session_id=source.session_id(trace),
            calls=[Call(fields, at=at, key=source.record_id("line", value))],
            signals=[Signal(s.name, s.value, s.call, s.at, source.record_id(s.name, value)) for s in signals],
            ref=trace,
            ended=False,
        ),
        source,
    )


def _decision(value: dict[str, Any]) -> tuple[dict[str, Any], list[Signal]]:
    kind, outcome = name_of(value.get("decision_type")), name_of(value.get("outcome")) or "partial"
    action = text_of(value.get("action_taken"))
    tools: tuple[ToolCall, ...] = ()
    if kind == "tool_selection":
        tools = (ToolCall(name=name_of(action) or "unnamed", status=_TOOL.get(outcome, ToolStatus.UNKNOWN)),)
    fields = {
        "intent": name_of(value.get("task_type")),
        "response": action or None,
        "tool_calls": tools,
        "latency_ms": number_of(value.get("latency_ms")),
        "tokens": _tokens(value.get("tokens_used")),
        "extra": {"decision_type": kind, "input_context": text_of(value.get("input_context"))},
    }
    signals = []
    if outcome in _OUTCOMES:
        signals.append(Signal(FeedbackName.TASK_OUTCOME, _OUTCOMES[outcome], call=0))
    if text_of(value.get("user_correction")):
        signals.append(Signal(FeedbackName.CORRECTION, 1.0, call=0))
    return fields, signals


def _access(value: dict[str, Any]) -> dict[str, Any]:
    action = name_of(value.get("action")) or "read"
    if action not in _REMEMBERS:
        raise Misfit(f"a memory {action} is no recall; it is not imported")
    useful = value.get("was_useful")
    memory = name_of(value.get("memory_id"))
    if memory is None:
        raise Misfit("the memory access has no `memory_id`")
    return {
        "intent": name_of(value.get("task_type")),
        "recalls": (
            Recall(memory_id=memory, score=0.0, relevant=useful if isinstance(useful, bool) else None),
        ),
        "tokens": _tokens(value.get("tokens_consumed")),
        "extra": {"memory_access": action},
    }


def _tokens(raw: Any) -> Tokens:
    count = count_of(raw)
    return Tokens() if count is None else Tokens(input=count, output=0)
