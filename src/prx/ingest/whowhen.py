"""Who&When: failed runs of several agents, with who made the decisive mistake and at which step."""

import re
from collections.abc import Iterator
from typing import Any

from prx.domain.records import FeedbackName, Message, Record, ToolCall
from prx.fitness.tools import read_tool_result
from prx.ingest.drafting import Call, Draft, Signal, Source, draft_records
from prx.ingest.plain import Misfit, count_of, dict_at, list_at, name_of, share_of, text_of
from prx.ingest.transcript import History

_TERMINALS = frozenset({"computer_terminal", "computerterminal"})
_RAN = re.compile(r"exit ?code: (-?\d+)", re.IGNORECASE)
_LOOK_AT = 200


def fits(value: Any) -> bool:
    """True for a labelled run."""
    return isinstance(value, dict) and isinstance(value.get("history"), list) and "mistake_agent" in value


def read(value: Any, source: Source) -> Iterator[Record]:
    """One run as one session: each agent's message is a call, what the terminal ran is a tool call of the
    message before it. The label of the mistake is feedback on the call that made it, or on
    the newest one before its step."""
    entries = list_at(value, "history")
    if not entries:
        raise Misfit("the run has no messages in `history`")
    question = text_of(value.get("question"))
    prompts = dict_at(value, "system_prompt")
    history = History()
    history.add(Message(role="user", content=question))
    fields: list[dict[str, Any]] = []
    place_of: dict[int, int] = {}
    for step, raw in enumerate(entries):
        if not isinstance(raw, dict):
            continue
        speaker, content = _speaker(raw), text_of(raw.get("content"))
        if speaker.lower() in _TERMINALS:
            _join_terminal(fields, content)
            history.add(Message(role="tool", name=speaker, content=content))
        elif speaker == "human" or "termination condition" in text_of(raw.get("role")):
            if content.strip() != question.strip():
                history.add(Message(role="user", content=content))
        else:
            place_of[step] = len(fields)
            fields.append(_call(speaker, content, history, prompts))
            history.add(Message(role="assistant", name=speaker or None, content=content))
    yield from draft_records(
        Draft(
            session_id=source.session_id(name_of(value.get("source")), name_of(value.get("file")), entries),
            calls=[Call(f) for f in fields],
            signals=_signals(value, place_of),
            ref=name_of(value.get("question_ID")),
        ),
        source,
    )


def _speaker(raw: dict[str, Any]) -> str:
    return (name_of(raw.get("name")) or name_of(raw.get("role")) or "").split(" (", 1)[0]


def _call(speaker: str, content: str, history: History, prompts: dict[str, Any]) -> dict[str, Any]:
    system = text_of(prompts.get(speaker))
    extra: dict[str, Any] = {"speaker": speaker}
    if history.dropped:
        extra["messages_dropped"] = history.dropped
    return {
        "messages": (*((Message(role="system", content=system),) if system else ()), *history.request()),
        "response": content,
        "extra": extra,
    }


def _join_terminal(fields: list[dict[str, Any]], content: str) -> None:
    """A terminal that found no code to run made no tool call."""
    ran = _RAN.search(content[:_LOOK_AT])
    if ran is None or not fields:
        return
    reading = read_tool_result(content, exit_code=int(ran[1]))
    call = ToolCall(
        name="computer_terminal", status=reading.status, result=content, external=reading.external
    )
    fields[-1]["tool_calls"] = (*fields[-1].get("tool_calls", ()), call)


def _signals(value: dict[str, Any], place_of: dict[int, int]) -> list[Signal]:
    signals = []
    outcome = share_of(value.get("is_correct", value.get("is_corrected")))
    if outcome is not None:
        signals.append(Signal(FeedbackName.TASK_OUTCOME, outcome))
    if text_of(value.get("ground_truth")):
        signals.append(Signal("expected", text_of(value["ground_truth"])))
    step = count_of(value.get("mistake_step"))
    reason = text_of(value.get("mistake_reason"))
    if reason and step is not None:
        made = max((place for at, place in place_of.items() if at <= step), default=None)
        signals.append(Signal("mistake", reason, call=made))
    return signals
