"""Calls whose tools are still running: recorded once the tools have answered, or the turn is over."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from prx.domain.records import Terminal, ToolCall, ToolStatus
from prx.live.calls import Call
from prx.live.shapes import text_of, tool_calls_of


@dataclass(slots=True)
class Reply:
    """What a model answered, as `Call.reply` takes it, with tool calls that may still change."""

    text: str | None
    tools: list[ToolCall]
    more: Mapping[str, Any] = field(default_factory=dict)


class Held:
    """One answered call that waits for its tools; `finish` writes its record, whoever calls it first.

    It stands among the open calls of its Evolution, so that closing writes it as completed, not as cut.
    """

    def __init__(self, call: Call, reply: Reply, open_calls: dict[str, Any]) -> None:
        self.call, self._reply = call, reply
        self._answered: set[int] = set()
        self._lock = threading.Lock()
        if call.id in open_calls:
            open_calls[call.id] = self

    @property
    def done(self) -> bool:
        """Whether every tool has answered."""
        return len(self._answered) == len(self._reply.tools)

    def answer(
        self,
        wanted: Callable[[ToolCall], bool],
        *,
        status: ToolStatus,
        result: Any,
        latency_ms: float | None,
    ) -> bool:
        """Note what a tool gave back; whether it was asked for here."""
        with self._lock:
            for place, tool in enumerate(self._reply.tools):
                if place not in self._answered and wanted(tool):
                    self._answered.add(place)
                    self._reply.tools[place] = msgspec.structs.replace(
                        tool,
                        status=status,
                        result=None if result is None else text_of(result),
                        latency_ms=latency_ms,
                    )
                    return True
        return False

    def finish(self, _terminal: Terminal | None = None) -> None:
        """Write the record with what is known of the tools by now."""
        with self._lock:
            tools = list(self._reply.tools)
        self.call.reply(text=self._reply.text, tool_calls=tools, **self._reply.more)
        self.call.finish()


def asked_for(calls: Any) -> list[ToolCall]:
    """Tool calls of an answer, in whichever shape its framework has them."""
    return list(tool_calls_of(calls))
