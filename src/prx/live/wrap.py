"""Records the calls of an OpenAI client at its methods; the client answers exactly as it did before.

The hooks sit on `chat.completions` and `responses` of a copy of the client, so nothing of the transport
is touched: retries, timeouts, raw responses and streams stay the client's own.
"""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

from prx.domain.prices import provider_of
from prx.domain.records import DEFAULT_AGENT
from prx.live.calls import Call
from prx.live.evolution import Evolution
from prx.live.session import Session
from prx.live.shapes import get
from prx.live.streams import (
    ChatPieces,
    Pieces,
    RecordedAsyncStream,
    RecordedStream,
    ResponsePieces,
    tell_chat,
    tell_response,
)

C = TypeVar("C")
_MARK = "_prx_wrapped"
_RAW_HEADER = "x-stainless-raw-response"


@dataclass(slots=True)
class _Attempts:
    """Requests that one call of a method has sent."""

    sent: int = 0


@dataclass(frozen=True, slots=True)
class _Endpoint:
    """How one endpoint names its input, and how its answers are read."""

    path: tuple[str, ...]
    methods: tuple[str, ...]
    tell: Callable[[Call, Any], None]
    pieces: Callable[[], Pieces]


_ENDPOINTS = (
    _Endpoint(("chat", "completions"), ("create", "parse"), tell_chat, ChatPieces),
    _Endpoint(("responses",), ("create", "parse"), tell_response, ResponsePieces),
)
_ATTEMPTS: ContextVar[_Attempts | None] = ContextVar("prx_attempts", default=None)


def wrap(client: C, evolution: Evolution, *, agent: str = DEFAULT_AGENT) -> C:
    """A client like `client` (OpenAI or AsyncOpenAI, 2.x or 3.x) whose calls are recorded.

    Calls join the session of their context, or make one of their own for `agent` that is not eligible for
    experiments. A client that is wrapped already, or that has none of the methods, comes back as it is.
    """
    if getattr(client, _MARK, False):
        return client
    copy = getattr(client, "copy", None)
    if copy is None or not any(_resource(client, e.path) for e in _ENDPOINTS):
        return client
    return _instrument(copy(), evolution, agent)  # type: ignore[no-any-return]


def _instrument(client: Any, evolution: Evolution, agent: str) -> Any:
    setattr(client, _MARK, True)
    for endpoint in _ENDPOINTS:
        resource = _resource(client, endpoint.path)
        for method in endpoint.methods:
            original = getattr(resource, method, None)
            if original is not None:
                recorder = _Recorder(client, evolution, agent, endpoint)
                setattr(resource, method, _hook(original, recorder))
    for name in ("copy", "with_options"):
        original = getattr(client, name)
        setattr(client, name, _keep_wrapped(original, evolution, agent))
    _count_attempts(client)
    return client


def _resource(client: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        client = getattr(client, name, None)
    return client


def _keep_wrapped(original: Callable[..., Any], evolution: Evolution, agent: str) -> Callable[..., Any]:
    @functools.wraps(original)
    def copied(*args: Any, **kwargs: Any) -> Any:
        return _instrument(original(*args, **kwargs), evolution, agent)

    return copied


def _count_attempts(client: Any) -> None:
    original = getattr(client, "_prepare_request", None)
    if original is None:
        return

    @functools.wraps(original)
    def prepare(*args: Any, **kwargs: Any) -> Any:
        attempts = _ATTEMPTS.get()
        if attempts is not None:
            attempts.sent += 1
        return original(*args, **kwargs)

    client._prepare_request = prepare


def _hook(original: Callable[..., Any], recorder: "_Recorder") -> Callable[..., Any]:
    """The method with a record around it; a call made inside a recorded call is part of that one."""

    @functools.wraps(original)
    def recorded(*args: Any, **kwargs: Any) -> Any:
        if _ATTEMPTS.get() is not None:
            return original(*args, **kwargs)
        with recorder.counting() as attempts:
            call = recorder.begin(kwargs)
            try:
                answer = original(*args, **kwargs)
            except BaseException as error:
                recorder.failed(call, error, attempts)
                raise
            recorder.answered(call, answer, attempts)
            return answer

    @functools.wraps(original)
    async def recorded_async(*args: Any, **kwargs: Any) -> Any:
        if _ATTEMPTS.get() is not None:
            return await original(*args, **kwargs)
        with recorder.counting() as attempts:
            call = recorder.begin(kwargs)
            try:
                answer = await original(*args, **kwargs)
            except BaseException as error:
                recorder.failed(call, error, attempts)
                raise
            recorder.answered(call, answer, attempts)
            return answer

    # The client's methods are wrapped once more and look synchronous; the client itself tells.
    return recorded_async if recorder.is_async else recorded


@dataclass(slots=True)
class _Open:
    """A call under way; `own` is the session that was made for it alone, `raw` how the app wants the
    answer: `true` as a response it parses itself, `stream` as bytes it reads itself, None parsed."""

    call: Call
    own: Session | None
    raw: str | None


class _Recorder:
    """Turns one method's requests and answers into records; nothing that fails here reaches the app."""

    def __init__(self, client: Any, evolution: Evolution, agent: str, endpoint: _Endpoint) -> None:
        self._client, self._evolution, self._agent, self._endpoint = client, evolution, agent, endpoint
        self.is_async = hasattr(client, "__aenter__")

    @contextmanager
    def counting(self) -> Iterator[_Attempts]:
        attempts = _Attempts()
        token = _ATTEMPTS.set(attempts)
        try:
            yield attempts
        finally:
            _ATTEMPTS.reset(token)

    def begin(self, kwargs: dict[str, Any]) -> _Open | None:
        return self._evolution.guard("wrap begin", lambda: self._begin(kwargs))

    def failed(self, opened: _Open | None, error: BaseException, attempts: _Attempts) -> None:
        if opened is not None:
            self._evolution.guard("wrap failure", lambda: self._failed(opened, error, attempts))

    def answered(self, opened: _Open | None, answer: Any, attempts: _Attempts) -> None:
        if opened is not None:
            self._evolution.guard("wrap answer", lambda: self._answered(opened, answer, attempts))

    def _begin(self, kwargs: dict[str, Any]) -> _Open:
        for name in ("messages", "input"):
            if isinstance(kwargs.get(name), Iterator):
                # Read twice, here and by the client; an iterator can be read only once.
                kwargs[name] = list(kwargs[name])
        session = self._evolution.current()
        own = None
        if session is None:
            session = own = self._evolution.anonymous(self._agent)
        call = session.call(
            model=kwargs.get("model") or "",
            provider=provider_of(str(self._client.base_url)),
            messages=_said(kwargs),
            tools=bool(kwargs.get("tools")),
            streamed=kwargs.get("stream") is True,
        )
        return _Open(call, own, _raw_mode(kwargs))

    def _failed(self, opened: _Open, error: BaseException, attempts: _Attempts) -> None:
        opened.call.note(attempts=max(1, attempts.sent))
        completion = get(error, "completion")
        if completion is not None:
            # The answer came whole, and the client refused to parse it.
            self._endpoint.tell(opened.call, completion)
        opened.call.end_with(error)
        self._end(opened)

    def _answered(self, opened: _Open, answer: Any, attempts: _Attempts) -> None:
        opened.call.note(attempts=max(1, attempts.sent))
        whole = answer if opened.raw is None else answer.parse() if opened.raw == "true" else None
        if whole is not None and self._watches(opened.call, whole):
            self._end(opened)
            return
        if whole is not None and (get(whole, "choices") is not None or get(whole, "output") is not None):
            self._endpoint.tell(opened.call, whole)
        else:
            # Read by the app itself, or a kind of answer not known here: reading it first would consume it.
            opened.call.note(body="not read")
        opened.call.finish()
        self._end(opened)

    def _watches(self, call: Call, answer: Any) -> bool:
        """Put the watch on a stream; whether the answer is one. Its call ends when it does."""
        chunks = getattr(answer, "_iterator", None)
        if chunks is None or get(answer, "choices") is not None:
            return False
        watched: RecordedStream | RecordedAsyncStream
        if hasattr(chunks, "__anext__"):
            watched = RecordedAsyncStream(chunks, call, self._endpoint.pieces())
        else:
            watched = RecordedStream(chunks, call, self._endpoint.pieces())
        answer._iterator = watched
        answer.close = _stop_first(answer.close, watched)
        return True

    def _end(self, opened: _Open) -> None:
        if opened.own is not None:
            opened.own.end()


def _stop_first(
    close: Callable[..., Any], watched: RecordedStream | RecordedAsyncStream
) -> Callable[..., Any]:
    @functools.wraps(close)
    def closed(*args: Any, **kwargs: Any) -> Any:
        watched.stop()
        return close(*args, **kwargs)

    return closed


def _raw_mode(kwargs: dict[str, Any]) -> str | None:
    headers = kwargs.get("extra_headers") or {}
    return next((str(value) for name, value in headers.items() if name.lower() == _RAW_HEADER), None)


def _said(kwargs: dict[str, Any]) -> Any:
    """What a request says: messages of chat, or instructions and input of responses."""
    if "input" not in kwargs:
        return kwargs.get("messages") or ()
    given = kwargs["input"]
    items = [{"role": "user", "content": given}] if isinstance(given, str) else list(given or ())
    if isinstance(kwargs.get("instructions"), str):
        return [{"role": "system", "content": kwargs["instructions"]}, *items]
    return items
