"""One model call from its start to exactly one terminal record."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from types import TracebackType
from typing import Any, TypeVar

import msgspec

from prx.domain.records import Interaction, Message, Recall, Routing, Terminal, Tokens, ToolCall
from prx.live.runtime import Runtime
from prx.live.shapes import (
    broken_arguments,
    cut,
    number,
    text_of,
    tokens_of,
    tool_calls_of,
)

T = TypeVar("T")
_EXTERNAL_STATUS = frozenset({401, 402, 403, 408, 409, 429})
_CONNECTION_ERRORS = frozenset({"APIConnectionError", "APITimeoutError", "ConnectionError", "TimeoutError"})
_CANCELS = frozenset({"CancelledError", "Cancelled", "KeyboardInterrupt", "GeneratorExit"})
_ERROR_TEXT = 500


class CallFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a call before it is made."""

    session_id: str
    at: datetime
    model: str = ""
    provider: str = ""
    intent: str | None = None
    messages: tuple[Message, ...] = ()
    streamed: bool = False
    retry: bool = False
    routing: Routing | None = None
    recalls: tuple[Recall, ...] = ()
    prompts: dict[str, str] = {}
    prompt_values: dict[str, dict[str, str]] = {}
    version: str | None = None
    ref: str | None = None


class Call:
    """A model call. As a context manager it ends with its block: with the reply that was told, as failed
    by the exception that left the block, or as cancelled. However it ends, one record is written."""

    def __init__(self, runtime: Runtime, facts: CallFacts) -> None:
        self.id = runtime.new_id()
        self._runtime, self._facts = runtime, facts
        self._started = runtime.clock()
        self._terminal = Terminal.COMPLETED
        self._model: str | None = None
        self._response: str | None = None
        self._tool_calls: tuple[ToolCall, ...] = ()
        self._tokens = Tokens()
        self._replied = False
        self._ttft_ms: float | None = None
        self._latency_ms: float | None = None
        self._cost_usd: float | None = None
        self._error: str | None = None
        self._external = False
        self._extra: dict[str, Any] = {}
        runtime.open_calls[self.id] = self

    def first_token(self) -> None:
        """Note that the first token arrived now; later ones change nothing."""
        if self._ttft_ms is None:
            self._ttft_ms = self._elapsed_ms()

    def reply(
        self,
        *,
        text: str | None = None,
        tokens: Tokens | Mapping[str, int] | None = None,
        tool_calls: Iterable[ToolCall | Mapping[str, Any]] = (),
        model: str | None = None,
        ttft_ms: float | None = None,
        latency_ms: float | None = None,
        cost_usd: float | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        """Tell what the model answered. Latencies in milliseconds; without one, the time since the start."""

        def tell() -> None:
            self._replied = True
            self._response = None if text is None else text_of(text)
            self._tokens = tokens_of(tokens)
            made = tuple(tool_calls)
            self._tool_calls = tool_calls_of(made)
            self._model = None if model is None else str(model)
            self._ttft_ms = self._ttft_ms if ttft_ms is None else number(ttft_ms)
            self._latency_ms = self._elapsed_ms() if latency_ms is None else number(latency_ms)
            self._cost_usd = number(cost_usd)
            self.note(**(extra or {}))
            if made and (broken := broken_arguments(made)):
                self.note(broken_arguments=broken)

        self._runtime.faults.guard("reply", tell, None)

    def note(self, **extra: Any) -> None:
        """Add details that have no field of their own."""
        self._extra.update(extra)

    def fail(
        self, error: BaseException | str, *, status: int | None = None, external: bool | None = None
    ) -> None:
        """Tell that the call failed; outages, timeouts, quotas and keys count as external by themselves."""

        def tell() -> None:
            known = status if status is not None else _status_of(error)
            self._terminal = Terminal.UPSTREAM_ERROR
            self._error = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
            self._error = cut(self._error, _ERROR_TEXT)
            self._external = (
                external
                if external is not None
                else (
                    not _CONNECTION_ERRORS.isdisjoint(_kinds(error))
                    if known is None
                    else known >= 500 or known in _EXTERNAL_STATUS
                )
            )
            if known is not None:
                self.note(status=known)

        self._runtime.faults.guard("failure", tell, None)

    def watch(self, place: str, work: Callable[[], T]) -> T | None:
        """What `work` gives; None, counted, when it fails on something that the app or its client sent."""
        return self._runtime.faults.guard(place, work, None)

    def interrupted(self, error: BaseException) -> None:
        """Finish a call whose answer broke off: what had arrived is kept, and it never counts as done."""
        self._replied = False
        self.end_with(error)

    def end_with(self, error: BaseException | None) -> None:
        """Finish by what left the block: nothing, a cancel, an exit, or an error."""
        if error is None:
            self.finish()
        elif self._replied:
            # The model did its part; what the app did with the answer is noted, not held against it.
            self.note(app_error=type(error).__name__)
            self.finish()
        elif not _CANCELS.isdisjoint(_kinds(error)):
            self._external = True
            self._error = type(error).__name__
            self.finish(Terminal.CLIENT_CANCELLED)
        elif isinstance(error, SystemExit):
            self.finish(Terminal.SHUTDOWN_CUT)
        else:
            self.fail(error)
            self.finish()

    def finish(self, terminal: Terminal | None = None) -> None:
        """Write the one terminal record; every later finish of this call does nothing."""
        if self._runtime.open_calls.pop(self.id, None) is None:
            return
        if terminal is not None:
            self._terminal = terminal
            self._external |= terminal in (Terminal.CLIENT_CANCELLED, Terminal.SHUTDOWN_CUT)
        self._runtime.faults.guard("recording", lambda: self._runtime.sink(self._record()), None)

    def _record(self) -> Interaction:
        facts = self._facts
        model = self._model or facts.model
        cost = self._cost_usd
        if cost is None and self._replied:
            cost = self._runtime.faults.guard(
                "pricing", lambda: self._runtime.prices.cost(facts.provider, model, self._tokens), None
            )
        return Interaction(
            record_id=self.id,
            at=facts.at,
            session_id=facts.session_id,
            model=model,
            provider=facts.provider,
            intent=facts.intent,
            messages=facts.messages,
            response=self._response,
            tool_calls=self._tool_calls,
            terminal=self._terminal,
            error=self._error,
            external_failure=self._external,
            streamed=facts.streamed,
            ttft_ms=self._ttft_ms,
            latency_ms=self._elapsed_ms() if self._latency_ms is None else self._latency_ms,
            tokens=self._tokens,
            cost_usd=cost,
            retry=facts.retry,
            routing=facts.routing,
            recalls=facts.recalls,
            prompts=facts.prompts,
            prompt_values=facts.prompt_values,
            version=facts.version,
            ref=facts.ref,
            source=self._runtime.source,
            extra=self._extra,
        )

    def _elapsed_ms(self) -> float:
        return max(0.0, (self._runtime.clock() - self._started) * 1000.0)

    def __enter__(self) -> "Call":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._runtime.faults.guard("call end", lambda: self.end_with(error), None)

    async def __aenter__(self) -> "Call":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)


def _kinds(error: object) -> frozenset[str]:
    """Names of the error's classes; clients are told apart without importing them."""
    return frozenset(kind.__name__ for kind in type(error).__mro__)


def _status_of(error: object) -> int | None:
    status = getattr(error, "status_code", None)
    return status if isinstance(status, int) and not isinstance(status, bool) else None
