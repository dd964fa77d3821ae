"""What the gateway reads of a request body; whatever it does not know passes through it untouched."""

import json
import zlib
from enum import Enum
from typing import Any

import msgspec

from prx.domain.names import bounded
from prx.gateway.loosejson import Reader

_NONE = msgspec.Raw(b"")
_USAGE_ASKED = b'"stream_options":{"include_usage":true}'


_TEXT_KEYS = (b'"content"', b'"text"', b'"instructions"')
_MODEL_KEY = (b'"model"',)


class Kind(Enum):
    """What a request asks for; OTHER and MODELS are passed on and recorded as an envelope."""

    CHAT = "chat"
    RESPONSES = "responses"
    EMBEDDINGS = "embeddings"
    OTHER = "other"


KIND_OF_PATH = {
    "/chat/completions": Kind.CHAT,
    "/responses": Kind.RESPONSES,
    "/embeddings": Kind.EMBEDDINGS,
}


class Body(msgspec.Struct):
    """The fields of a request that matter here; types are checked where they are used."""

    model: Any = None
    messages: Any = None
    input: Any = None
    instructions: Any = None
    stream: Any = None
    stream_options: Any = None
    tools: msgspec.Raw = _NONE
    user: Any = None
    safety_identifier: Any = None
    metadata: Any = None
    previous_response_id: Any = None

    @property
    def streaming(self) -> bool:
        """Whether the client wants a stream."""
        return self.stream is True

    @property
    def has_tools(self) -> bool:
        """Whether tools are offered to the model."""
        return bytes(self.tools) not in (b"", b"null", b"[]")

    @property
    def wants_usage(self) -> bool:
        """Whether the client asked for the usage chunk itself."""
        options = self.stream_options
        return isinstance(options, dict) and options.get("include_usage") is True

    @property
    def user_named(self) -> str | None:
        """The end user, as the client names them."""
        for value in (self.user, self.safety_identifier):
            if isinstance(value, str) and value:
                return bounded(value)
        return None

    @property
    def said(self) -> Any:
        """The messages to be recorded, whichever endpoint they come through."""
        if self.messages is not None:
            return self.messages if isinstance(self.messages, list) else ()
        said = self.input if isinstance(self.input, str | list) else ()
        if isinstance(self.instructions, str) and self.instructions:
            system = {"role": "system", "content": self.instructions}
            rest = [{"role": "user", "content": said}] if isinstance(said, str) else list(said)
            return [system, *rest]
        return said


_BODY = Reader(Body)
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_LIST = msgspec.json.Decoder(list[msgspec.Raw])


def read_body(body: bytes) -> Body:
    """The body's view. Raises: msgspec.DecodeError when it is not a JSON object, UnicodeDecodeError."""
    return _BODY.decode(body)


def inflated(body: bytes, coding: str | None, limit: int) -> bytes | None:
    """The body without its content coding; None for an unknown coding, a damaged one, one that is not a
    single whole stream, or above `limit`."""
    if coding in (None, "", "identity"):
        return body
    if coding not in ("gzip", "deflate", "x-gzip"):
        return None
    unpack = zlib.decompressobj(zlib.MAX_WBITS | 32)
    try:
        out = unpack.decompress(body, limit + 1)
    except zlib.error:
        return None
    whole = unpack.eof and not unpack.unused_data
    return out if whole and len(out) <= limit else None


def with_usage(body: bytes, view: Body) -> bytes:
    """The body of a streamed chat request that also asks for usage; everything else stays, byte for byte
    where the client sent no stream options of its own. The same object where it cannot be taken apart."""
    if view.stream_options is None and b'"stream_options"' not in body:
        end = body.rstrip()
        return end[:-1] + b"," + _USAGE_ASKED + b"}"
    try:
        fields = _OBJECT.decode(body)
    except msgspec.DecodeError:
        return body
    options = dict(view.stream_options) if isinstance(view.stream_options, dict) else {}
    fields["stream_options"] = msgspec.Raw(msgspec.json.encode(options | {"include_usage": True}))
    return msgspec.json.encode(fields)


class SystemText(msgspec.Struct, frozen=True):
    """Where the system prompt stands: `place` is the index of its message, None for `instructions`;
    `part` the index of the text part where its content is a list."""

    text: str
    place: int | None = None
    part: int | None = None


def system_text(view: Body) -> SystemText | None:
    """The system prompt of a request, when it is one text; None when there is none or it is not one."""
    if isinstance(view.instructions, str) and view.instructions and view.messages is None:
        return SystemText(view.instructions)
    messages = view.messages if view.messages is not None else view.input
    if not isinstance(messages, list):
        return None
    for place, message in enumerate(messages):
        if isinstance(message, dict) and message.get("role") in ("system", "developer"):
            return _content_text(message.get("content"), place)
    return None


def with_system_text(body: bytes, view: Body, found: SystemText, text: str) -> bytes:
    """The body with another system prompt; every other byte stays where the prompt stands once in the body,
    and every other value keeps its bytes where it does not. The same object where it cannot be taken apart.
    """
    spliced = _spliced(body, found.text, text)
    if spliced is not None:
        return spliced
    try:
        return _rebuilt(body, view, found, text)
    except msgspec.DecodeError:
        return body


def _rebuilt(body: bytes, view: Body, found: SystemText, text: str) -> bytes:
    fields = _OBJECT.decode(body)
    encoded = msgspec.Raw(msgspec.json.encode(text))
    if found.place is None:
        fields["instructions"] = encoded
        return msgspec.json.encode(fields)
    key = "messages" if view.messages is not None else "input"
    messages = _LIST.decode(fields[key])
    message = _OBJECT.decode(messages[found.place])
    if found.part is not None:
        parts = _LIST.decode(message["content"])
        part = _OBJECT.decode(parts[found.part])
        part["text"] = encoded
        parts[found.part] = msgspec.Raw(msgspec.json.encode(part))
        encoded = msgspec.Raw(msgspec.json.encode(parts))
    message["content"] = encoded
    messages[found.place] = msgspec.Raw(msgspec.json.encode(message))
    fields[key] = msgspec.Raw(msgspec.json.encode(messages))
    return msgspec.json.encode(fields)


def with_model(body: bytes, old: str, new: str) -> bytes:
    """The body with another model; every other value keeps its bytes."""
    spliced = _spliced(body, old, new, _MODEL_KEY)
    if spliced is not None:
        return spliced
    fields = _OBJECT.decode(body)
    fields["model"] = msgspec.Raw(msgspec.json.encode(new))
    return msgspec.json.encode(fields)


def _spliced(body: bytes, old: str, new: str, keys: tuple[bytes, ...] = _TEXT_KEYS) -> bytes | None:
    """The body with `old` exchanged for `new` as the value of the one of `keys` that holds it; None when it
    is not surely that one, as when another value is the same text."""
    for spell in (msgspec.json.encode, _as_python_spells):
        spelled = spell(old)
        if body.count(spelled[1:-1]) != 1:
            continue
        at = body.find(spelled)
        key = body[max(0, at - 24) : at].rstrip()
        if at >= 0 and key.endswith(b":") and key[:-1].rstrip().endswith(keys):
            return body[:at] + msgspec.json.encode(new) + body[at + len(spelled) :]
    return None


def _as_python_spells(text: str) -> bytes:
    return json.dumps(text).encode()


def _content_text(content: Any, place: int) -> SystemText | None:
    if isinstance(content, str):
        return SystemText(content, place) if content else None
    if not isinstance(content, list) or len(content) != 1 or not isinstance(content[0], dict):
        return None
    text = content[0].get("text")
    return SystemText(text, place, 0) if isinstance(text, str) and text else None
