"""SWE-agent trajectories: each step is a model call with one command and what it answered."""

from collections.abc import Iterator
from typing import Any

import msgspec

from prx.domain.records import FeedbackName, Message, Record, Tokens, ToolCall
from prx.fitness.tools import read_tool_result
from prx.ingest.drafting import Call, Draft, Signal, Source, draft_records
from prx.ingest.plain import Misfit, clean, count_of, dict_at, dicts_at, list_at, name_of, number_of, text_of
from prx.ingest.transcript import UNNAMED, History, to_message


def fits(value: Any) -> bool:
    """True for a trajectory, alone or wrapped with its path."""
    return isinstance(_inner(value).get("trajectory"), list)


def read(value: Any, source: Source) -> Iterator[Record]:
    """One trajectory as one session; without any submission the task is known to have failed.

    Token and cost totals are told for the session only: the first call carries them, `extra` says so.
    """
    inner = _inner(value)
    steps = dicts_at(inner, "trajectory")
    if not steps:
        raise Misfit("the trajectory has no steps")
    info = dict_at(inner, "info")
    history = History()
    for message in _opening(inner):
        history.add(message)
    calls = []
    for place, step in enumerate(steps):
        fields: dict[str, Any] = {
            "messages": history.request(),
            "response": text_of(step.get("response")),
            "tool_calls": _command(step),
        }
        if place == 0:
            fields |= _totals(dict_at(info, "model_stats"))
        elif _totals(dict_at(info, "model_stats")):
            fields |= {"tokens": Tokens(input=0, output=0), "cost_usd": 0.0}
        calls.append(Call(fields))
        history.add(Message(role="assistant", content=text_of(step.get("response"))))
        history.add(Message(role="tool", content=text_of(step.get("observation"))))
    yield from draft_records(
        Draft(
            session_id=source.session_id(name_of(value.get("path")), steps),
            calls=calls,
            signals=_outcome(info),
            ref=name_of(value.get("path")),
            shared={"model": _model(inner)},
        ),
        source,
    )


def _inner(value: Any) -> dict[str, Any]:
    wrapped = dict_at(value, "traj")
    return wrapped or (value if isinstance(value, dict) else {})


def _opening(inner: dict[str, Any]) -> Iterator[Message]:
    """Messages of the history before the agent's first own answer; demonstrations are left out."""
    for raw in list_at(inner, "history"):
        role = name_of(raw.get("role")) if isinstance(raw, dict) else None
        if role is None or raw.get("is_demo"):
            continue
        if role == "assistant":
            return
        yield to_message(raw, role)


def _command(step: dict[str, Any]) -> tuple[ToolCall, ...]:
    action = text_of(step.get("action")).strip()
    if not action:
        return ()
    name, _, rest = action.partition(" ") if " " in action.split("\n", 1)[0] else action.partition("\n")
    result = text_of(step.get("observation"))
    reading = read_tool_result(result)
    seconds = number_of(step.get("execution_time"))
    return (
        ToolCall(
            name=name_of(name) or UNNAMED,
            status=reading.status,
            arguments=clean(rest) or None,
            result=result,
            latency_ms=None if seconds is None else seconds * 1000,
            external=reading.external,
        ),
    )


def _totals(stats: dict[str, Any]) -> dict[str, Any]:
    """Counts of 0 are how a replay without a model is written: they count nothing."""
    sent, received = count_of(stats.get("tokens_sent")), count_of(stats.get("tokens_received"))
    if not sent:
        return {}
    return {
        "tokens": Tokens(input=sent, output=received),
        "cost_usd": number_of(stats.get("instance_cost")),
        "extra": {"totals_of_session": True},
    }


def _outcome(info: dict[str, Any]) -> list[Signal]:
    if isinstance(info.get("resolved"), bool):
        return [Signal(FeedbackName.TASK_OUTCOME, float(info["resolved"]))]
    if name_of(info.get("exit_status")) and not text_of(info.get("submission")).strip():
        return [Signal(FeedbackName.TASK_OUTCOME, 0.0)]
    return []


def _model(inner: dict[str, Any]) -> str:
    config: Any = inner.get("replay_config")
    if isinstance(config, str):
        try:
            config = msgspec.json.decode(config)
        except (msgspec.DecodeError, RecursionError):
            config = {}
    return name_of(dict_at(dict_at(config, "agent"), "model").get("name")) or ""
