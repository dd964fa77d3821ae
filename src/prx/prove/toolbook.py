"""Recorded tool results, served again by tool and arguments; no tool ever runs."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from prx.domain.records import Trace


@dataclass(frozen=True, slots=True)
class ToolBook:
    """Results of one session by (tool, canonical arguments), each list in order of time."""

    results: Mapping[tuple[str, str], tuple[str, ...]]

    @staticmethod
    def of(trace: Trace) -> "ToolBook":
        """Everything that the session's tools answered."""
        answered = {
            message.tool_call_id: message.content
            for interaction in trace.interactions
            for message in interaction.messages
            if message.role == "tool" and message.tool_call_id is not None
        }
        found: dict[tuple[str, str], list[str]] = {}
        for interaction in trace.interactions:
            for call in interaction.tool_calls:
                result = call.result if call.result is not None else answered.get(call.call_id or "")
                if result is not None:
                    found.setdefault((call.name, canonical(call.arguments)), []).append(result)
        return ToolBook({key: tuple(results) for key, results in found.items()})

    def result(self, name: str, arguments: str | None, nth: int) -> str | None:
        """Recorded result of the `nth` (from 0) such call, the last one for more; None: never recorded."""
        results = self.results.get((name, canonical(arguments)))
        return None if not results else results[min(nth, len(results) - 1)]


def canonical(arguments: str | None) -> str:
    """Arguments in one form: JSON with sorted keys and without blanks; other text stripped."""
    text = (arguments or "").strip()
    try:
        return json.dumps(json.loads(text or "{}"), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    except (ValueError, RecursionError):
        return text
