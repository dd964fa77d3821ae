"""Connections of clients: what is no HTTP gets an error that they can read, and nobody holds one for ever."""

import asyncio
import contextlib
import resource
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from prx.gateway.cycle import Cycle
from prx.gateway.replies import openai_error
from prx.gateway.wire import CLOSE

_LARGEST_HEAD = 65_536
_TOO_LARGE = "the head of a request has at most 65536 bytes"
# Of the files that the process may open: what spool, stores and logs need at the worst.
_OWN_FILES = 96
_MOST_FILES = 65_536
_FEWEST = 16


def allow_many_files() -> None:
    """Let this process open as many files as the system allows it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


@cache
def most_connections() -> int:
    """Clients that may be connected at once: each may need a connection to the provider too, and what is
    recorded needs files even when strangers open connections without end."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = _MOST_FILES if soft == resource.RLIM_INFINITY else soft
    return max(_FEWEST, (files - _OWN_FILES) // 2)


class Connection(HttpToolsProtocol):
    """HTTP/1.1 by llhttp without leniencies, which refuses every head that could be read in two ways."""

    _head = 0
    _hosts = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client connected; what serves its requests may close the connection in the middle of one."""
        super().connection_made(transport)
        self.app_state = {**self.app_state, CLOSE: transport.close}
        if len(self.connections) > most_connections():
            self._turn_away("503 Service Unavailable", "too many connections; try again later", "too_many")

    def on_message_begin(self) -> None:
        """A new request."""
        self._head = self._hosts = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """A piece of the request's target."""
        self._weigh(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header of a request."""
        self._head += len(name) + len(value)
        if self._head > _LARGEST_HEAD:
            raise ValueError(_TOO_LARGE)
        name = name.lower()
        if name == b"host":
            self._hosts += 1
        elif name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """The whole head was read."""
        if self._hosts > 1 or (self._hosts == 0 and self.parser.get_http_version() == "1.1"):
            raise ValueError("a request has exactly one Host header")
        super().on_headers_complete()
        if type(self.cycle) is RequestResponseCycle:
            # uvicorn makes its own and has no place to name another; it begins to work only after this.
            self.cycle.__class__ = Cycle

    def send_400_response(self, msg: str) -> None:
        """Answer bytes that are no HTTP request, where nothing was answered yet, and close."""
        cycle = self.cycle
        if cycle is None or cycle.response_complete or not cycle.response_started:
            self._turn_away("400 Bad Request", msg, "invalid_http")
        self.transport.close()

    def _turn_away(self, status: str, message: str, code: str) -> None:
        body = openai_error(int(status[:3]), message, code)
        head = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
        self.transport.write(b"HTTP/1.1 " + status.encode() + b"\r\n" + head % len(body) + body)
        self.transport.close()

    def _weigh(self, more: int) -> None:
        self._head += more
        if self._head > _LARGEST_HEAD:
            raise ValueError(_TOO_LARGE)


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
