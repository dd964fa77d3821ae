"""A chat transcript as model calls: every message of the assistant is one call, its tools' answers joined."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from prx.domain.records import Message, ToolCall, ToolStatus
from prx.fitness.tools import read_tool_result
from prx.ingest.plain import count_of, dict_at, dicts_at, name_of, number_of, text_of

MAX_REQUEST = 100_000
UNNAMED = "unnamed"
_SYSTEM = frozenset({"system", "developer"})
_TOOLS = frozenset({"tool", "function"})
_STATUSES = frozenset(status.value for status in ToolStatus)


@dataclass(frozen=True, slots=True)
class Turn:
    """One model call: what it was given, what it answered, its tool calls with their results.

    `place`: index of its message in the transcript, or of its first tool result where the call itself is
    not in the log (`response` is None then). `dropped`: earlier messages left out of `request`.
    """

    place: int
    request: tuple[Message, ...]
    response: str | None
    tool_calls: tuple[ToolCall, ...]
    dropped: int = 0


@dataclass(slots=True)
class _Open:
    place: int
    request: tuple[Message, ...]
    dropped: int
    response: str | None
    calls: list[ToolCall]
    answered: set[int] = field(default_factory=set)

    def closed(self) -> Turn:
        return Turn(self.place, self.request, self.response, tuple(self.calls), self.dropped)


class History:
    """Messages so far, bounded: system messages stay, the oldest others leave first."""

    def __init__(self, limit: int = MAX_REQUEST) -> None:
        self._limit = limit
        self._system: list[Message] = []
        self._rest: deque[Message] = deque()
        self._size = 0
        self.dropped = 0

    def add(self, message: Message) -> None:
        """Append a message."""
        self._size += _size(message)
        if message.role in _SYSTEM:
            self._system.append(message)
        else:
            self._rest.append(message)
        while self._size > self._limit and len(self._rest) > 1:
            self._size -= _size(self._rest.popleft())
            self.dropped += 1

    def request(self) -> tuple[Message, ...]:
        """What the next call is given."""
        return (*self._system, *self._rest)


def split_chat(messages: Iterable[Any]) -> Iterator[Turn]:
    """Model calls of a chat in the OpenAI form (`role`, `content`, `tool_calls`, `tool_call_id`).

    Tool results before any assistant message become one call whose answer is not in the log. Messages
    without a role are left out.
    """
    history = History()
    current: _Open | None = None
    for place, raw in enumerate(messages):
        role = name_of(raw.get("role")) if isinstance(raw, dict) else None
        if role is None:
            continue
        if role in _TOOLS:
            current = current or _Open(place, history.request(), history.dropped, None, [])
            _join_result(current, raw)
        else:
            if current is not None:
                yield current.closed()
                current = None
            if role == "assistant":
                current = _Open(place, history.request(), history.dropped, _answer(raw), declared_tools(raw))
        history.add(to_message(raw, role))
    if current is not None:
        yield current.closed()


def to_message(raw: Mapping[str, Any], role: str) -> Message:
    """One message as the records keep it; the tool calls in it are only those asked for."""
    return Message(
        role=role,
        content=text_of(raw.get("content")),
        name=name_of(raw.get("name")),
        tool_call_id=name_of(raw.get("tool_call_id")),
        tool_calls=tuple(declared_tools(raw)) if role == "assistant" else (),
    )


def to_messages(raw: Iterable[Any]) -> tuple[Message, ...]:
    """All messages that have a role, bounded like a request."""
    history = History()
    for item in raw:
        role = name_of(item.get("role")) if isinstance(item, dict) else None
        if role is not None:
            history.add(to_message(item, role))
    return history.request()


def declared_tools(raw: Mapping[str, Any]) -> list[ToolCall]:
    """Tool calls that a message asks for, in the forms of OpenAI, its old functions and Inspect."""
    calls = [_declared(call) for call in dicts_at(raw, "tool_calls")]
    old = dict_at(raw, "function_call")
    return [*calls, _declared({"function": old})] if old else calls


def tool_call(raw: Mapping[str, Any]) -> ToolCall:
    """One tool call with its result from an object with `name` and `arguments`, `result`, `status`,
    `error`, `status_code`, `exit_code`, `latency_ms`; a status that is told wins over the table."""
    result = None if raw.get("result") is None else text_of(raw["result"])
    told = raw.get("status")
    if isinstance(told, str) and told in _STATUSES:
        status, external = ToolStatus(told), raw.get("external") is True
    else:
        reading = read_tool_result(
            text_of(raw["error"]) if result is None and raw.get("error") else result,
            is_error=bool(raw["error"]) if raw.get("error") else None,
            status_code=count_of(raw.get("status_code")),
            exit_code=count_of(raw.get("exit_code")),
        )
        status, external = reading.status, reading.external
    return ToolCall(
        name=name_of(raw.get("name")) or UNNAMED,
        status=status,
        call_id=name_of(raw.get("id")) or name_of(raw.get("call_id")),
        arguments=None if raw.get("arguments") is None else text_of(raw["arguments"]),
        result=result,
        latency_ms=number_of(raw.get("latency_ms")),
        external=external,
    )


def _size(message: Message) -> int:
    return len(message.content) + sum(len(call.arguments or "") for call in message.tool_calls)


def _answer(raw: Mapping[str, Any]) -> str | None:
    return None if raw.get("content") is None else text_of(raw["content"])


def _declared(call: Mapping[str, Any]) -> ToolCall:
    function = call.get("function")
    holder: Mapping[str, Any] = function if isinstance(function, dict) else call
    name = function if isinstance(function, str) else holder.get("name")
    arguments = holder.get("arguments", holder.get("args"))
    return ToolCall(
        name=name_of(name) or UNNAMED,
        call_id=name_of(call.get("id")),
        arguments=None if arguments is None else text_of(arguments),
    )


def _join_result(turn: _Open, raw: Mapping[str, Any]) -> None:
    """Put a tool message to the call that it answers: by id, else the first unanswered one."""
    call_id = name_of(raw.get("tool_call_id"))
    name = name_of(raw.get("name")) or name_of(raw.get("function"))
    waiting = [i for i in range(len(turn.calls)) if i not in turn.answered]
    match = next((i for i in waiting if call_id is not None and turn.calls[i].call_id == call_id), None)
    if match is None and call_id is None:
        match = next(iter(waiting), None)
    if match is None:
        turn.calls.append(ToolCall(name=name or UNNAMED, call_id=call_id))
        match = len(turn.calls) - 1
    asked = turn.calls[match]
    result, error = text_of(raw.get("content")), raw.get("error")
    reading = read_tool_result(
        f"{text_of(error)} {result}" if error else result, is_error=True if error else None
    )
    turn.answered.add(match)
    turn.calls[match] = ToolCall(
        name=asked.name if asked.name != UNNAMED else name or UNNAMED,
        status=reading.status,
        call_id=asked.call_id,
        arguments=asked.arguments,
        result=result,
        latency_ms=number_of(raw.get("latency_ms")),
        external=reading.external,
    )
