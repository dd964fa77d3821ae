"""LangChain and LangGraph: a callback handler that records each model call with what its tools did.

Give it where you invoke: `graph.invoke(state, {"callbacks": [handler]})`. The calls join the session of their
context; without one, each run is a session, continued where the run has a `thread_id`.
"""

import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler

from prx.domain.records import DEFAULT_AGENT, Tokens, ToolStatus
from prx.live.calls import Call
from prx.live.evolution import Evolution
from prx.live.hooks.held import Held, Reply, asked_for
from prx.live.session import Session
from prx.live.shapes import get, text_of

_SESSION_KEYS = ("session_id", "thread_id", "conversation_id")
_ROLES = {"human": "user", "ai": "assistant"}
_MOST_RUNS = 50_000


@dataclass(slots=True)
class _Turn:
    """A run without a parent, and everything below it. `own`: the session that was made for it."""

    metadata: dict[str, Any]
    own: Session | None = None
    held: list[Held] = field(default_factory=list)


@dataclass(slots=True)
class _Model:
    """A model call under way; `alone`: the session was made for this call only."""

    call: Call
    began: float
    alone: Session | None = None


@dataclass(slots=True)
class _Tool:
    call_id: str | None
    name: str
    began: float


class RecordingHandler(BaseCallbackHandler):
    """Records what LangChain says of its runs. Nothing that fails here reaches the app.

    Args: `agent`: for sessions that it makes. Threads and tasks may share it.
    """

    # In the app's own context and order, not in a pool of threads.
    run_inline = True

    def __init__(self, evolution: Evolution, *, agent: str = DEFAULT_AGENT) -> None:
        super().__init__()
        self._evolution, self._agent = evolution, agent
        self._lock = threading.RLock()
        self._roots: dict[UUID, UUID] = {}
        self._turns: dict[UUID, _Turn] = {}
        self._models: dict[UUID, _Model] = {}
        self._tools: dict[UUID, _Tool] = {}

    def on_chain_start(
        self,
        _serialized: Any,
        _inputs: Any,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: dict[str, Any] | None = None,
        **_: Any,
    ) -> None:
        """A step begins; one without a parent is a turn."""
        self._evolution.guard("langchain", lambda: self._enter(run_id, parent_run_id, metadata))

    def on_chain_end(self, _outputs: Any, *, run_id: UUID, **_: Any) -> None:
        """A step is over."""
        self._evolution.guard("langchain", lambda: self._leave(run_id))

    def on_chain_error(self, _error: BaseException, *, run_id: UUID, **_: Any) -> None:
        """A step failed; what the app did with an answer is not the model's fault."""
        self._evolution.guard("langchain", lambda: self._leave(run_id))

    def on_chat_model_start(
        self,
        _serialized: Any,
        messages: Sequence[Sequence[Any]],
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: dict[str, Any] | None = None,
        invocation_params: dict[str, Any] | None = None,
        **_: Any,
    ) -> None:
        """A chat model is asked."""

        def ask() -> None:
            said = [_message(one) for batch in messages for one in batch]
            self._ask(run_id, parent_run_id, said, metadata or {}, invocation_params or {})

        self._evolution.guard("langchain", ask)

    def on_llm_start(
        self,
        _serialized: Any,
        prompts: Sequence[str],
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: dict[str, Any] | None = None,
        invocation_params: dict[str, Any] | None = None,
        **_: Any,
    ) -> None:
        """A completion model is asked."""

        def ask() -> None:
            said = [{"role": "user", "content": one} for one in prompts]
            self._ask(run_id, parent_run_id, said, metadata or {}, invocation_params or {})

        self._evolution.guard("langchain", ask)

    def on_llm_new_token(self, token: Any, *, run_id: UUID, **_: Any) -> None:  # noqa: ARG002  given by name
        """A piece of a stream arrived."""
        model = self._models.get(run_id)
        if model is not None:
            self._evolution.guard("langchain", model.call.first_token)

    def on_stream_event(self, _event: Any, *, run_id: UUID, **_: Any) -> None:
        """A piece of a stream arrived, as newer releases tell it."""
        self.on_llm_new_token(None, run_id=run_id)

    def on_llm_end(self, response: Any, *, run_id: UUID, **_: Any) -> None:
        """A model has answered."""
        self._evolution.guard("langchain", lambda: self._answered(run_id, response))

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        """A model call failed, or was given up."""
        self._evolution.guard("langchain", lambda: self._failed(run_id, error))

    def on_tool_start(
        self,
        serialized: Any,
        _input: str,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tool_call_id: str | None = None,
        **_: Any,
    ) -> None:
        """A tool begins."""

        def note() -> None:
            self._root(run_id, parent_run_id)
            name = str(get(serialized, "name") or "")
            self._tools[run_id] = _Tool(tool_call_id, name, self._evolution.runtime.clock())

        self._evolution.guard("langchain", note)

    def on_tool_end(self, output: Any, *, run_id: UUID, **_: Any) -> None:
        """A tool gave something back."""

        def ran() -> None:
            content = get(output, "content")
            self._ran(
                run_id,
                ToolStatus.FAILED if get(output, "status") == "error" else ToolStatus.OK,
                output if content is None else content,
                get(output, "tool_call_id"),
            )

        self._evolution.guard("langchain", ran)

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        """A tool failed."""
        self._evolution.guard(
            "langchain",
            lambda: self._ran(run_id, ToolStatus.FAILED, f"{type(error).__name__}: {error}", None),
        )

    def _enter(self, run_id: UUID, parent: UUID | None, metadata: dict[str, Any] | None) -> None:
        with self._lock:
            if self._root(run_id, parent) == run_id:
                self._turns[run_id] = _Turn(dict(metadata or {}))

    def _leave(self, run_id: UUID) -> None:
        with self._lock:
            root = self._roots.pop(run_id, None)
            turn = self._turns.pop(run_id, None) if root == run_id else None
            if turn is not None:
                self._roots = {run: above for run, above in self._roots.items() if above != run_id}
        if turn is None:
            return
        for held in turn.held:
            held.finish()
        if turn.own is not None:
            turn.own.leave()

    def _root(self, run_id: UUID, parent: UUID | None) -> UUID:
        """The run without a parent above this one."""
        with self._lock:
            root = self._roots.get(parent, run_id) if parent is not None else run_id
            self._roots[run_id] = root
            if len(self._roots) > _MOST_RUNS:
                # Runs that were never told to be over.
                self._roots.pop(next(iter(self._roots)))
            return root

    def _ask(
        self,
        run_id: UUID,
        parent: UUID | None,
        said: list[dict[str, Any]],
        metadata: dict[str, Any],
        parameters: dict[str, Any],
    ) -> None:
        session, alone = self._session(run_id, parent, metadata)
        call = session.call(
            model=str(
                parameters.get("model") or parameters.get("model_name") or metadata.get("ls_model_name") or ""
            ),
            provider=str(metadata.get("ls_provider") or ""),
            messages=said,
            tools=bool(parameters.get("tools")),
            streamed=parameters.get("stream") is True,
        )
        self._models[run_id] = _Model(call, self._evolution.runtime.clock(), session if alone else None)

    def _session(self, run_id: UUID, parent: UUID | None, metadata: dict[str, Any]) -> tuple[Session, bool]:
        """The session of a call, and whether it was made for this call alone."""
        current = self._evolution.current()
        if current is not None:
            self._root(run_id, parent)
            return current, False
        with self._lock:
            turn = self._turns.get(self._root(run_id, parent))
            if turn is None:
                return self._made(metadata), True
            if turn.own is None:
                turn.own = self._made(turn.metadata | metadata)
            return turn.own, False

    def _made(self, metadata: dict[str, Any]) -> Session:
        named = next((str(metadata[key]) for key in _SESSION_KEYS if metadata.get(key)), None)
        user = metadata.get("user_id")
        if named is None and user is None:
            return self._evolution.anonymous(self._agent)
        # Threads are numbered from 1 by many an app: the agent keeps them apart.
        session_id = None if named is None else f"{self._agent}/{named}"
        return self._evolution.session(ref=named, session_id=session_id, user=user, agent=self._agent)

    def _answered(self, run_id: UUID, response: Any) -> None:
        model = self._models.pop(run_id, None)
        if model is None:
            return
        generations = get(response, "generations") or [[]]
        first = generations[0][0] if generations and generations[0] else None
        message = get(first, "message")
        told = get(message, "response_metadata") or get(response, "llm_output") or {}
        tools = asked_for(_tool_shape(one) for one in get(message, "tool_calls") or ())
        text = text_of(_content(message)) if message is not None else get(first, "text")
        more = {
            "tokens": _tokens(get(message, "usage_metadata") or get(told, "token_usage")),
            "model": get(told, "model_name") or get(told, "model"),
            "latency_ms": self._since(model.began),
        }
        with self._lock:
            turn = self._turns.get(self._roots.get(run_id, run_id))
            held = Held(model.call, Reply(text, tools, more), self._evolution.runtime.open_calls)
            if turn is not None and tools:
                turn.held.append(held)
                return
        held.finish()
        self._end(run_id, model)

    def _failed(self, run_id: UUID, error: BaseException) -> None:
        model = self._models.pop(run_id, None)
        if model is not None:
            model.call.end_with(error)
            self._end(run_id, model)

    def _end(self, run_id: UUID, model: _Model) -> None:
        self._roots.pop(run_id, None)
        if model.alone is not None:
            model.alone.leave()

    def _ran(self, run_id: UUID, status: ToolStatus, result: Any, call_id: str | None) -> None:
        tool = self._tools.pop(run_id, None)
        with self._lock:
            turn = self._turns.get(self._roots.pop(run_id, run_id))
        if tool is None or turn is None:
            return
        wanted = call_id or tool.call_id
        for held in list(turn.held):
            if held.answer(
                lambda one: one.call_id == wanted if wanted else one.name == tool.name,
                status=status,
                result=result,
                latency_ms=self._since(tool.began),
            ):
                if held.done:
                    turn.held.remove(held)
                    held.finish()
                return

    def _since(self, began: float) -> float:
        return max(0.0, (self._evolution.runtime.clock() - began) * 1000.0)


def _message(message: Any) -> dict[str, Any]:
    kind = str(get(message, "type") or "user")
    return {
        "role": get(message, "role") if kind == "chat" else _ROLES.get(kind, kind),
        "content": _content(message),
        "name": get(message, "name"),
        "tool_call_id": get(message, "tool_call_id"),
    }


def _content(message: Any) -> Any:
    return get(message, "content") if not isinstance(message, str) else message


def _tool_shape(call: Any) -> dict[str, Any]:
    return {"id": get(call, "id"), "name": get(call, "name"), "arguments": _arguments(get(call, "args"))}


def _arguments(args: Any) -> str:
    try:
        return json.dumps(args, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return str(args)


def _tokens(usage: Any) -> Tokens | Any:
    into, out = get(usage, "input_token_details"), get(usage, "output_token_details")
    if into is None and out is None:
        return usage
    return {
        "input": get(usage, "input_tokens"),
        "output": get(usage, "output_tokens"),
        "cache_read": get(into, "cache_read"),
        "cache_write": get(into, "cache_creation"),
        "reasoning": get(out, "reasoning"),
    }
