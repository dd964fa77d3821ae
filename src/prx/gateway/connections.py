"""Connections of clients: what is no HTTP gets an error that they can read, and nobody holds one for ever."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from prx.gateway.replies import openai_error

_NOT_BEGUN = (h11.IDLE, h11.SEND_RESPONSE)


class Connection(H11Protocol):
    """HTTP/1.1 by h11, which refuses every head that could be read in two ways."""

    def send_400_response(self, msg: str) -> None:
        """Answer bytes that are no HTTP request, where nothing was answered yet, and close."""
        if self.conn.our_state in _NOT_BEGUN:
            body = openai_error(400, msg, "invalid_http")
            headers = [
                (b"content-type", b"application/json"),
                (b"content-length", str(len(body)).encode()),
                (b"connection", b"close"),
            ]
            parts: tuple[h11.Event, ...] = (
                h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
                h11.Data(data=body),
                h11.EndOfMessage(),
            )
            for part in parts:
                self.transport.write(self.conn.send(part) or b"")
        self.transport.close()


class Watched(Protocol):
    """What is looked at of a connection."""

    cycle: Any
    transport: asyncio.Transport
    timeout_keep_alive_task: asyncio.TimerHandle | None


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds that a client may take: for a whole head, for a whole body, and to take any of its answer."""

    head: float
    body: float
    stall: float


class Patience:
    """Closes connections whose client takes too long; call `look` about once a second.

    `closed` is told what the client was late with. A request cut so is recorded as any other whose client
    went away.
    """

    def __init__(self, limits: Limits, closed: Callable[[str], None]) -> None:
        self._limits, self._closed = limits, closed
        self._since: dict[Watched, tuple[Any, float]] = {}

    def look(self, connections: Iterable[Watched], now: float) -> None:
        """`now` of a clock that only goes forward, in seconds."""
        seen: dict[Watched, tuple[Any, float]] = {}
        late: list[tuple[Watched, str]] = []
        for one in connections:
            phase, allowed, state = self._waits_for(one)
            if phase is None:
                continue
            known = self._since.get(one)
            since = known[1] if known is not None and known[0] == state else now
            seen[one] = (state, since)
            if now - since > allowed:
                late.append((one, phase))
        self._since = seen
        for one, phase in late:
            self._closed(phase)
            # Not closed in order: that would wait for a client that does not read.
            one.transport.abort()

    def _waits_for(self, one: Watched) -> tuple[str | None, float, Any]:
        """What is awaited from the client, for how long, and a state that changes when some of it came."""
        cycle = one.cycle
        if left := one.transport.get_write_buffer_size():
            return "answer", self._limits.stall, ("answer", cycle, left)
        if cycle is None or cycle.response_complete:
            idle = one.timeout_keep_alive_task is not None
            return (None, 0.0, None) if idle else ("head", self._limits.head, ("head", cycle))
        if cycle.more_body and not cycle.response_started:
            return "body", self._limits.body, ("body", cycle)
        return None, 0.0, None
