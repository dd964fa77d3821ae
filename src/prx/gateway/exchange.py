"""One request and its answer, from acceptance to its one terminal record."""

import asyncio
import logging
import time
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from prx.domain.records import Terminal
from prx.gateway.answers import Said
from prx.gateway.attempts import Attempts
from prx.gateway.identity import Asked, last_user
from prx.gateway.journal import Open
from prx.gateway.logs import log_event
from prx.gateway.metrics import Metrics
from prx.gateway.policy import Target
from prx.gateway.recorder import Recorder
from prx.gateway.shapes import wire_messages
from prx.gateway.views import Body, Kind
from prx.gateway.wire import CLOSE, Headers, Receive, Scope, Send, sent_back
from prx.live.calls import Call
from prx.live.session import Session

_LOG = logging.getLogger("prx.gateway.requests")
_SHOULD_RETRY = b"x-should-retry"


@dataclass(slots=True, eq=False)
class Exchange:
    """What is known of a request under way. `left`: the client went away; `cut`: we are shutting down."""

    recorder: Recorder
    metrics: Metrics
    scope: Scope
    receive: Receive
    send: Send
    path: bytes
    kind: Kind
    agent: str
    owner: str
    caller: str
    ours: Asked
    view: Body | None
    target: Target
    started: float
    task: "asyncio.Task[Any] | None"
    session: Session | None = None
    named: bool = False
    call: Call | None = None
    slot: int | None = None
    waited: float = 0.0
    left: bool = False
    cut: bool = False
    begun: bool = False
    status: int | None = None
    attempts: Attempts | None = None
    said: Said = field(default_factory=Said)
    watcher: "asyncio.Task[None] | None" = None
    ended: bool = False

    @property
    def streaming(self) -> bool:
        """Whether the client wants a stream."""
        return self.view is not None and self.view.streaming

    async def start(
        self, status: int, provider: tuple[tuple[bytes, bytes], ...], *, length: bool, wait: bool
    ) -> None:
        """Send the head of the answer: the provider's headers and ours; with `wait` not before its body."""
        self.begun, self.status = True, status
        headers: Headers = sent_back(provider, length=length)
        if self.attempts is not None and self.attempts.spent:
            headers = [one for one in headers if one[0] != _SHOULD_RETRY]
        headers += self.headers()
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        if not wait:
            await self.body(b"", more=True)

    async def body(self, piece: bytes, *, more: bool = False) -> None:
        """Send a piece of the answer; waiting for a slow client is not our time."""
        began = time.perf_counter()
        await self.send({"type": "http.response.body", "body": piece, "more_body": more})
        self.waited += time.perf_counter() - began

    async def break_off(self) -> None:
        """End an answer in the middle, so that nothing can take it for a whole one."""
        if self.watcher is not None:
            self.watcher.cancel()
        self.scope["state"][CLOSE]()
        while (await self.receive())["type"] != "http.disconnect":
            continue

    def accept(self, session: Session, *, messages: Any, extra: dict[str, Any]) -> None:
        """From here on the request has exactly one terminal record, whatever happens."""
        view = self.view
        model = view.model if view is not None and isinstance(view.model, str) else ""
        self.session = session
        call = self.call = session.call(
            model=model,
            messages=wire_messages(messages),
            provider=self.target.provider,
            tools=view.has_tools if view is not None else False,
            streamed=self.streaming,
            ref=self.ours.ref,
            intent=None if self.kind in (Kind.CHAT, Kind.RESPONSES) else self.kind.value,
        )
        call.note(**extra)
        self.slot = self.recorder.journal.enter(
            Open(
                record_id=call.id,
                at=self.recorder.now(),
                session_id=session.id,
                model=model,
                streamed=self.streaming,
                ref=self.ours.ref,
            )
        )

    def told(self, said: Said) -> None:
        """Remember what was served, so that a later request can be recognised as a continuation."""
        view = self.view
        # A client that names its conversations does so every time.
        if self.named or self.session is None or view is None:
            return
        asked = view.messages if view.messages is not None else view.input
        self.recorder.continuations.remember(self.owner, self.session.id, said, last_user(asked))

    def finish(self, terminal: Terminal | None = None) -> None:
        """Write the terminal record before the client can see the end of the answer."""
        if self.ended:
            return
        self.ended = True
        if self.call is not None:
            self.call.finish(terminal)
            self.recorder.journal.leave(self.slot)

    def release(self) -> None:
        """Let go of what watched for the client; the last thing done."""
        if self.watcher is not None:
            self.watcher.cancel()
        self.metrics.overhead.observe(max(0.0, self.own_ms()))
        if _LOG.isEnabledFor(logging.INFO):
            self._log()

    def _log(self) -> None:
        """One line about the request; nothing of what it said."""
        log_event(
            _LOG,
            logging.INFO,
            "request",
            record=self.call.id if self.call is not None else None,
            session=self.session.id if self.session is not None else None,
            agent=self.agent,
            kind=self.kind.value,
            status=self.status,
            cut=self.cut,
            left=self.left,
            ms=round((time.perf_counter() - self.started) * 1000.0, 3),
            own_ms=round(self.own_ms(), 3),
        )

    def own_ms(self) -> float:
        """Milliseconds spent in the gateway itself so far."""
        return (time.perf_counter() - self.started - self.waited) * 1000.0

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Response headers: record and session, experiments with arms, and our overhead so far."""
        out = [(b"x-prx-overhead-ms", b"%.3f" % self.own_ms())]
        if self.attempts is not None and self.attempts.spent:
            # Clients that try again by themselves would multiply what we did.
            out.append((_SHOULD_RETRY, b"false"))
        if self.call is not None and self.session is not None:
            out.append((b"x-prx-record", self.call.id.encode()))
            out.append((b"x-prx-session", _header(self.session.id)))
            arms = self.recorder.arms_of(self.session.id)
            if arms:
                killed = self.recorder.runtime.served(self.agent).killed
                out += _of_arms(tuple(arms.items()), killed)
        return out


@lru_cache(maxsize=1024)
def _of_arms(arms: tuple[tuple[str, tuple[str, str]], ...], killed: bool) -> tuple[tuple[bytes, bytes], ...]:
    """Headers that name experiments with assigned and served variant."""
    return (
        (b"x-prx-experiment", _header(",".join(name for name, _ in arms))),
        (b"x-prx-assigned", _header(",".join(assigned for _, (assigned, _) in arms))),
        (b"x-prx-served", _header(",".join("control" if killed else served for _, (_, served) in arms))),
    )


def _header(text: str) -> bytes:
    """Text as a header value; what could end the header does not pass."""
    if text.isascii() and text.isprintable():
        return text.encode()
    return bytes(b if 32 <= b < 127 else 63 for b in text.encode("utf-8", "replace"))
