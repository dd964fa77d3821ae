"""Records and a store for the spool's tests."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from prx.domain.records import Interaction, Message, Record, ToolCall

START = datetime(2026, 12, 1, 8, tzinfo=UTC)


class Clock:
    def __init__(self) -> None:
        self.at = START

    def __call__(self) -> datetime:
        return self.at

    def forward(self, **amount: float) -> None:
        self.at += timedelta(**amount)


class Store:
    """Keeps records by id, as every record store does; `fails_after` batches it crashes after keeping one."""

    def __init__(self) -> None:
        self.kept: dict[str, Record] = {}
        self.handed_over: list[str] = []
        self.crash_after_keeping = False

    def append(self, records: Sequence[Record]) -> int:
        new = [r for r in records if r.record_id not in self.kept]
        self.kept.update({r.record_id: r for r in new})
        self.handed_over.extend(r.record_id for r in records)
        if self.crash_after_keeping:
            raise ConnectionError("the store went away after it had committed")
        return len(new)


def interaction(name: str, text: str = "hello", **more: object) -> Interaction:
    fields: dict[str, object] = {
        "record_id": name,
        "at": START,
        "session_id": "s-1",
        "model": "gpt-4o",
        "messages": (Message(role="user", content=text),),
        "response": "hi there",
        "tool_calls": (ToolCall(name="look_up", arguments='{"q": 1}', result="found"),),
    }
    return Interaction(**(fields | more))  # type: ignore[arg-type]
