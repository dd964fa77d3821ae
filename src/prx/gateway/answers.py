"""What the provider answered, read for the record while its bytes pass on."""

from typing import Any, Protocol

import msgspec

from prx.gateway.loosejson import Reader
from prx.gateway.shapes import wire_tokens
from prx.gateway.sse import Event
from prx.gateway.views import Kind
from prx.live.calls import Call
from prx.live.shapes import get
from prx.live.streams import tell_chat, tell_response

_EXTERNAL_TYPES = frozenset({"server_error", "rate_limit_error", "rate_limit_exceeded", "overloaded_error"})


class Whole(msgspec.Struct):
    """The fields of a whole answer that are recorded."""

    id: Any = None
    model: Any = None
    choices: Any = None
    usage: Any = None
    output: Any = None
    status: Any = None
    error: Any = None


class _Chunk(msgspec.Struct):
    id: Any = None
    model: Any = None
    choices: Any = None
    usage: Any = None
    error: Any = None


class _ResponseEvent(msgspec.Struct):
    type: Any = None
    delta: Any = None
    response: Any = None
    error: Any = None
    message: Any = None
    code: Any = None


_WHOLE = Reader(Whole)
_CHUNK = Reader(_Chunk)
_RESPONSE_EVENT = Reader(_ResponseEvent)
_DAMAGE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Said(msgspec.Struct):
    """By what a later request can be recognised as a continuation."""

    text: str | None = None
    call_ids: tuple[str, ...] = ()
    response_id: str | None = None


class StreamAnswer(Protocol):
    """Reads the events of one stream. `began`: the answer itself has begun; `over`: the provider said that
    this was all."""

    began: bool
    over: bool

    @property
    def complete(self) -> bool:
        """Whether the model said that it was done; what follows adds nothing to the answer."""
        ...

    def take(self, event: Event) -> bool:
        """Read an event; False when it must not reach a client that did not ask for it."""
        ...

    def tell(self, call: Call, *, broken: bool = False) -> Said:
        """Tell the call what arrived, and whether it was everything."""
        ...


def stream_answer(kind: Kind, *, hide_usage: bool) -> StreamAnswer:
    """The reader for a stream of this kind."""
    return ResponsesStream() if kind is Kind.RESPONSES else ChatStream(hide_usage=hide_usage)


class ChatStream:
    """Chunks of a chat completion; of several choices the first is recorded."""

    def __init__(self, *, hide_usage: bool) -> None:
        self._hide = hide_usage
        self._texts: list[str] = []
        self._calls: dict[Any, dict[str, str]] = {}
        self._usage: Any = None
        self._model: str | None = None
        self._id: str | None = None
        self._finish: str | None = None
        self._error: Any = None
        self._unread = 0
        self.began = self.over = False

    @property
    def complete(self) -> bool:
        """See StreamAnswer."""
        return self._finish is not None and self._error is None

    def take(self, event: Event) -> bool:
        """See StreamAnswer."""
        data = event.data
        if data is None:
            return True
        if data.strip() == b"[DONE]":
            self.over = True
            return True
        try:
            chunk = _CHUNK.decode(data)
        except _DAMAGE:
            self._unread += 1
            return True
        if chunk.error is not None:
            self._error = chunk.error
        if isinstance(chunk.model, str):
            self._model = chunk.model
        if isinstance(chunk.id, str):
            self._id = chunk.id
        usage, choices = chunk.usage, chunk.choices
        if usage is not None:
            self._usage = usage
        if not choices or not isinstance(choices, list):
            return not (self._hide and usage is not None and choices == [])
        for choice in choices:
            if isinstance(choice, dict) and not choice.get("index"):
                self._add(choice)
        return True

    def tell(self, call: Call, *, broken: bool = False) -> Said:
        """See StreamAnswer."""
        text = "".join(self._texts)
        calls = [self._calls[index] for index in sorted(self._calls, key=str)]
        extra: dict[str, Any] = {"finish_reason": self._finish} if self._finish else {}
        if self._unread:
            extra["unread_events"] = self._unread
        call.reply(
            text=text or None,
            tokens=wire_tokens(self._usage),
            tool_calls=calls,
            model=self._model,
            extra=extra,
        )
        if self._error is not None:
            fail_with(call, self._error)
        elif not broken and self._finish is None:
            call.fail("the stream ended before the model said that it was done", external=True)
        ids = tuple(one["call_id"] for one in calls if one.get("call_id"))
        return Said(text or None, ids, self._id)

    def _add(self, choice: dict[str, Any]) -> None:
        finish = choice.get("finish_reason")
        if isinstance(finish, str):
            self._finish = finish
        delta = choice.get("delta")
        if not isinstance(delta, dict):
            # Legacy completions stream their text beside the delta.
            delta = {"content": choice.get("text")}
        text = delta.get("content") or delta.get("refusal")
        if isinstance(text, str) and text:
            self._texts.append(text)
            self.began = True
        elif isinstance(text, list):
            self._texts += [part["text"] for part in text if isinstance(get(part, "text"), str)]
            self.began = True
        fragments = delta.get("tool_calls")
        if isinstance(fragments, list):
            for fragment in fragments:
                if isinstance(fragment, dict):
                    self._add_call(fragment)
                    self.began = True

    def _add_call(self, fragment: dict[str, Any]) -> None:
        index = fragment.get("index")
        call = self._calls.setdefault(index if isinstance(index, int) else 0, {"name": ""})
        if isinstance(fragment.get("id"), str):
            call["call_id"] = fragment["id"]
        # What a custom tool is given is any text, what a function is given is JSON.
        for kind, given in (("function", "arguments"), ("custom", "input")):
            part = fragment.get(kind)
            if isinstance(part, dict):
                for field in ("name", given):
                    if isinstance(part.get(field), str):
                        call[field] = call.get(field, "") + part[field]


class ResponsesStream:
    """Events of the responses endpoint; the last carries the whole answer."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._final: dict[str, Any] | None = None
        self._id: str | None = None
        self._error: Any = None
        self._unread = 0
        self.began = self.over = False

    @property
    def complete(self) -> bool:
        """See StreamAnswer."""
        return self.over

    def take(self, event: Event) -> bool:
        """See StreamAnswer."""
        if event.data is None or event.data.strip() == b"[DONE]":
            return True
        try:
            read = _RESPONSE_EVENT.decode(event.data)
        except _DAMAGE:
            self._unread += 1
            return True
        kind = read.type if isinstance(read.type, str) else ""
        if isinstance(read.response, dict):
            identity = read.response.get("id")
            self._id = identity if isinstance(identity, str) else self._id
        if kind in ("response.completed", "response.incomplete", "response.failed"):
            self._final = read.response if isinstance(read.response, dict) else {}
            self.over = True
        elif kind in ("response.output_text.delta", "response.refusal.delta"):
            if isinstance(read.delta, str):
                self._texts.append(read.delta)
            self.began = True
        elif kind.endswith(".delta"):
            self.began = True
        elif kind == "error" or read.error is not None:
            self._error = read.error or {"message": read.message, "code": read.code}
        return True

    def tell(self, call: Call, *, broken: bool = False) -> Said:
        """See StreamAnswer."""
        text = "".join(self._texts)
        if self._final is not None:
            tell_response(call, self._final)
            said = said_in_response(self._final)
            said.response_id = said.response_id or self._id
            return said
        call.reply(text=text or None, extra={"unread_events": self._unread} if self._unread else None)
        if self._error is not None:
            fail_with(call, self._error)
        elif not broken:
            call.fail("the stream ended before the model said that it was done", external=True)
        return Said(text or None, (), self._id)


def tell_whole(call: Call, kind: Kind, body: bytes) -> Said:
    """Tell the call what a whole answer says; one that cannot be read counts as the provider's error."""
    try:
        whole = _WHOLE.decode(body)
    except _DAMAGE:
        call.fail("the provider's answer is no JSON object", external=True)
        return Said()
    if kind is Kind.EMBEDDINGS:
        call.reply(tokens=wire_tokens(whole.usage), model=_str(whole.model))
    elif kind is Kind.RESPONSES:
        tell_response(call, whole)
    elif isinstance(whole.choices, list) and whole.choices:
        _tell_chat(call, whole)
    elif whole.error is None:
        call.fail("the provider's answer holds no choice", external=True)
    if whole.error is not None:
        fail_with(call, whole.error)
        return Said()
    return said_in_response(whole) if kind is Kind.RESPONSES else _said_in_chat(whole)


def _tell_chat(call: Call, whole: Whole) -> None:
    """As `tell_chat`; a text without tool calls, which is nearly every answer, is read directly."""
    choice = whole.choices[0]
    message = choice.get("message") if type(choice) is dict else None
    if type(message) is not dict or message.get("tool_calls") or type(message.get("content")) is not str:
        tell_chat(call, whole)
        return
    finish = choice.get("finish_reason")
    call.reply(
        text=message["content"],
        tokens=wire_tokens(whole.usage),
        model=_str(whole.model),
        extra={"finish_reason": finish} if finish else None,
    )


def tell_error(call: Call, status: int, body: bytes) -> None:
    """Tell the call that the provider refused with an HTTP status."""
    message = f"HTTP {status}"
    try:
        error = _WHOLE.decode(body).error
        text = error if isinstance(error, str) else get(error, "message")
        message = f"HTTP {status}: {text}" if isinstance(text, str) else message
    except _DAMAGE:
        pass
    call.fail(message, status=status)


def fail_with(call: Call, error: Any) -> None:
    """Tell the call of an error object inside an answer or a stream."""
    message = error if isinstance(error, str) else get(error, "message")
    code, kind = get(error, "code"), get(error, "type")
    status = code if isinstance(code, int) and not isinstance(code, bool) else None
    # Anything may stand there, also what no set can be asked for.
    external = True if status is None and not _EXTERNAL_TYPES.isdisjoint((_str(kind), _str(code))) else None
    call.fail(str(message or kind or code or "the provider sent an error"), status=status, external=external)


def said_in_response(response: Any) -> Said:
    """Text, tool-call ids and id of an answer of the responses endpoint."""
    output = get(response, "output")
    texts: list[str] = []
    ids: list[str] = []
    for item in output if isinstance(output, list) else ():
        if get(item, "type") == "message" and isinstance(get(item, "content"), list):
            texts += [t for part in get(item, "content") if isinstance(t := get(part, "text"), str)]
        elif isinstance(get(item, "call_id"), str):
            ids.append(get(item, "call_id"))
    return Said("".join(texts) or None, tuple(ids), _str(get(response, "id")))


def _said_in_chat(whole: Whole) -> Said:
    choices = whole.choices if isinstance(whole.choices, list) else ()
    message = get(choices[0], "message") if choices else None
    if type(message) is dict and not message.get("tool_calls"):
        return Said(_str(message.get("content")), (), _str(whole.id))
    calls = get(message, "tool_calls")
    ids = tuple(one["id"] for one in calls or () if isinstance(one, dict) and isinstance(one.get("id"), str))
    return Said(_str(get(message, "content")), ids, _str(whole.id))


def _str(value: Any) -> str | None:
    return value if isinstance(value, str) else None
