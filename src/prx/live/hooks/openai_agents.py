"""OpenAI Agents: a tracing processor that records each model call with what its tools did.

`agents.add_trace_processor(prx.agents_processor())`. The calls join the session of their context; without
one, each trace is a session, continued where the trace has a `group_id`. Nothing is sent anywhere by this;
whether the framework exports its traces itself is the app's own setting.
"""

import threading
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from agents.tracing import TracingProcessor

from prx.domain.errors import EvolutionError
from prx.domain.prices import provider_of
from prx.domain.records import DEFAULT_AGENT, Terminal, ToolStatus
from prx.domain.times import parse_time
from prx.live.calls import Call
from prx.live.evolution import Evolution
from prx.live.hooks.held import Held, Reply, asked_for
from prx.live.session import Session
from prx.live.shapes import get

_MODELS = frozenset({"generation", "response"})
_MOST_TRACES = 10_000
_USAGE = ("input_tokens", "output_tokens", "input_tokens_details", "output_tokens_details")


@dataclass(slots=True)
class _Turn:
    """A trace under way. `own`: the session that was made for it."""

    group: str | None
    user: str | None
    own: Session | None = None
    held: list[Held] = field(default_factory=list)


@dataclass(slots=True)
class _Asking:
    """A model call under way; what it asks is told at its end only."""

    session: Session
    began: float
    at: datetime
    key: str
    open_calls: dict[str, Any]

    def finish(self, terminal: Terminal | None = None) -> None:
        """Record it without its content, as closing does."""
        if self.open_calls.pop(self.key, None) is not None:
            self.session.call(started_at=self.at).finish(terminal)


class RecordingProcessor(TracingProcessor):
    """Records what the framework says of its spans. Nothing that fails here reaches the app.

    Args: `agent`: for sessions that it makes. Threads and tasks share it.
    """

    def __init__(self, evolution: Evolution, *, agent: str = DEFAULT_AGENT) -> None:
        self._evolution, self._agent = evolution, agent
        self._runtime = evolution.runtime
        self._lock = threading.Lock()
        self._turns: dict[str, _Turn] = {}
        self._asking: dict[str, _Asking] = {}

    def on_trace_start(self, trace: Any) -> None:
        """A turn begins."""
        self._evolution.guard("agents", lambda: self._turn(trace))

    def on_trace_end(self, trace: Any) -> None:
        """A turn is over."""
        self._evolution.guard("agents", lambda: self._leave(str(get(trace, "trace_id"))))

    def on_span_start(self, span: Any) -> None:
        """A step begins."""

        def begun() -> None:
            if get(get(span, "span_data"), "type") in _MODELS:
                self._ask(span)

        self._evolution.guard("agents", begun)

    def on_span_end(self, span: Any) -> None:
        """A step is over."""

        def over() -> None:
            kind = get(get(span, "span_data"), "type")
            if kind in _MODELS:
                self._answered(span)
            elif kind == "function":
                self._ran(span)

        self._evolution.guard("agents", over)

    def shutdown(self) -> None:
        """The app stops: what is held is written."""
        self._evolution.guard("agents", self._release)

    def force_flush(self) -> None:
        """Bring what was recorded to safety; calls whose tools still run stay open."""
        self._evolution.guard("agents", self._evolution.flush)

    def _turn(self, trace: Any) -> None:
        metadata = get(trace, "metadata")
        user = get(metadata, "user_id")
        group = get(trace, "group_id")
        with self._lock:
            self._turns[str(get(trace, "trace_id"))] = _Turn(
                None if group is None else str(group), None if user is None else str(user)
            )
            late = list(self._turns)[:-_MOST_TRACES]
        for trace_id in late:
            # Traces that were never told to be over.
            self._leave(trace_id)

    def _leave(self, trace_id: str) -> None:
        with self._lock:
            turn = self._turns.pop(trace_id, None)
        if turn is not None:
            for held in turn.held:
                held.finish()
            if turn.own is not None:
                turn.own.leave()

    def _release(self) -> None:
        for trace_id in list(self._turns):
            self._leave(trace_id)

    def _ask(self, span: Any) -> None:
        session = self._session(str(get(span, "trace_id")))
        key = f"agents/{get(span, 'span_id')}"
        asking = _Asking(session, self._runtime.clock(), self._runtime.now(), key, self._runtime.open_calls)
        self._asking[key] = self._runtime.open_calls[key] = asking

    def _session(self, trace_id: str) -> Session:
        current = self._evolution.current()
        if current is not None:
            return current
        with self._lock:
            turn = self._turns.get(trace_id)
            if turn is None:
                return self._evolution.anonymous(self._agent)
            if turn.own is None:
                turn.own = self._made(turn)
            return turn.own

    def _made(self, turn: _Turn) -> Session:
        if turn.group is None and turn.user is None:
            return self._evolution.anonymous(self._agent)
        # Groups are numbered from 1 by many an app: the agent keeps them apart.
        session_id = None if turn.group is None else f"{self._agent}/{turn.group}"
        return self._evolution.session(
            ref=turn.group, session_id=session_id, user=turn.user, agent=self._agent
        )

    def _answered(self, span: Any) -> None:
        asking = self._asking.pop(f"agents/{get(span, 'span_id')}", None)
        if asking is None or self._runtime.open_calls.pop(asking.key, None) is None:
            return
        data = get(span, "span_data")
        response = get(data, "response")
        call = asking.session.call(
            model=str(get(data, "model") or get(response, "model") or ""),
            provider=_provider(data),
            messages=_said(data, response),
            tools=bool(get(response, "tools")),
            started_at=asking.at,
        )
        latency = max(0.0, (self._runtime.clock() - asking.began) * 1000.0)
        error = get(span, "error")
        if error:
            _fail(call, error)
            call.finish()
            return
        text, tools = _answer(data, response)
        more = {"tokens": _usage(data, response), "latency_ms": latency}
        held = Held(call, Reply(text, tools, more), self._runtime.open_calls)
        with self._lock:
            turn = self._turns.get(str(get(span, "trace_id")))
            if tools and turn is not None:
                turn.held.append(held)
                return
        held.finish()

    def _ran(self, span: Any) -> None:
        data, error = get(span, "span_data"), get(span, "error")
        name, given = get(data, "name"), get(data, "input")
        latency = _milliseconds(get(span, "started_at"), get(span, "ended_at"))
        status = ToolStatus.FAILED if error else ToolStatus.OK
        output = get(data, "output")
        result = get(error, "message") if error and output is None else output
        with self._lock:
            turn = self._turns.get(str(get(span, "trace_id")))
        if turn is None:
            return
        for held in list(turn.held):
            # A tool's span does not name its call: name and arguments do, else the name alone.
            if held.answer(
                lambda one: one.name == name and (given is None or one.arguments == given),
                status=status,
                result=result,
                latency_ms=latency,
            ):
                if held.done:
                    turn.held.remove(held)
                    held.finish()
                return


def _said(data: Any, response: Any) -> Any:
    given = get(data, "input")
    said = [{"role": "user", "content": given}] if isinstance(given, str) else list(given or ())
    instructions = get(response, "instructions")
    if isinstance(instructions, str) and instructions:
        return [{"role": "system", "content": instructions}, *said]
    return said


def _answer(data: Any, response: Any) -> tuple[str | None, list[Any]]:
    """Text and tool calls: items of a response, or messages of a chat completion. A chat completion that
    was streamed is told as a response."""
    texts: list[str] = []
    calls: list[Any] = []
    told = list(get(data, "output") or ()) if response is None else [response]
    for one in told:
        for item in get(one, "output") or ():
            if get(item, "type") == "function_call":
                calls.append(item)
            for part in get(item, "content") or () if get(item, "type") == "message" else ():
                text = get(part, "text")
                texts += [text] if isinstance(text, str) else []
        content = get(one, "content")
        texts += [content] if isinstance(content, str) else []
        calls += list(get(one, "tool_calls") or ())
    return ("\n".join(texts) if texts else None), asked_for(calls)


def _usage(data: Any, response: Any) -> Any:
    told = get(response, "usage")
    if told is not None:
        return told
    usage = get(data, "usage")
    return {name: get(usage, name) for name in _USAGE} if usage is not None else None


def _provider(data: Any) -> str:
    base = get(get(data, "model_config"), "base_url")
    if base is None:
        return "openai"
    return provider_of(str(base))


def _fail(call: Call, error: Any) -> None:
    told = get(error, "data")
    kind = get(told, "name") or get(told, "error") or get(error, "message")
    text = f"{kind}"
    if "Cancel" in text:
        call.end_with(KeyboardInterrupt())
        return
    status = next((int(w) for w in text.replace(":", " ").split() if w.isdigit() and len(w) == 3), None)
    outage = any(word in text for word in ("Connection", "Timeout", "RateLimit"))
    call.fail(text, status=status, external=True if outage else None)


def _milliseconds(start: Any, end: Any) -> float | None:
    try:
        return (parse_time(str(end)) - parse_time(str(start))).total_seconds() * 1000.0
    except (EvolutionError, OverflowError):
        return None
