"""Brings what apps and clients hand over (dicts, objects, parts) into the record's types; never fails."""

import hashlib
import json
import math
import string
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from prx.domain.records import Message, Tokens, ToolCall, ToolStatus

_KEPT = 262_144
_LONGEST_TOKEN = 8_192
_OF_A_TOKEN = string.ascii_letters + string.digits + "-._~+=:%@"
_TEXT_PARTS = frozenset({"text", "input_text", "output_text", "refusal", "summary_text"})


def get(thing: Any, name: str) -> Any:
    """A key of a mapping or an attribute of an object; None when there is none."""
    return thing.get(name) if isinstance(thing, Mapping) else getattr(thing, name, None)


def clip(text: str) -> str:
    """The text, or its head and tail with size and hash of the whole when it is longer than 262,144."""
    if len(text) <= _KEPT:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    half = _KEPT // 2
    said = f"\n[{len(text)} characters, sha256:{digest}, middle not recorded]\n"
    return f"{cut(text, half)}{said}{_tail(text, half)}"


def cut(text: str, longest: int) -> str:
    """At most `longest` characters from the start of the text, without the word that the cut goes through:
    half of a credential is none that could be recognised."""
    if len(text) <= longest:
        return text
    head = text[:longest]
    kept = head.rstrip(_OF_A_TOKEN)
    return kept if len(head) - len(kept) <= _LONGEST_TOKEN else head


def _tail(text: str, longest: int) -> str:
    tail = text[-longest:]
    end, begin = tail.find("-----END "), tail.find("-----BEGIN ")
    if end >= 0 and (begin < 0 or end < begin):
        # The lines before are the rest of a key.
        tail = tail[end:]
    kept = tail.lstrip(_OF_A_TOKEN)
    return kept if len(tail) - len(kept) <= _LONGEST_TOKEN else tail


def text_of(content: Any) -> str:
    """Content as text; a part that is no text stands as its kind in brackets, such as `[image_url]`."""
    if content is None:
        return ""
    if isinstance(content, str):
        return clip(content)
    if isinstance(content, Sequence) and not isinstance(content, bytes):
        return clip("\n".join(map(_part, content)))
    if isinstance(content, Mapping) or get(content, "type"):
        return clip(_part(content))
    return clip(str(content))


def messages_of(messages: Any) -> tuple[Message, ...]:
    """Messages of a request: a plain text is what the user said."""
    if messages is None:
        return ()
    if isinstance(messages, str):
        return (Message(role="user", content=clip(messages)),)
    if type(messages) is tuple and all(type(item) is Message for item in messages):
        return messages
    return tuple(message for item in messages for message in _message(item))


def tool_calls_of(calls: Iterable[Any] | None) -> tuple[ToolCall, ...]:
    """Tool calls given as ToolCall, as plain mappings, or in the shape of chat completions or responses."""
    return tuple(call if isinstance(call, ToolCall) else _tool_call(call) for call in calls or ())


def broken_arguments(calls: Iterable[Any]) -> int:
    """How many function calls hold arguments that are no JSON, as those of an answer that was cut."""
    return sum(not isinstance(call, ToolCall) and _broken(call) for call in calls)


def _broken(call: Any) -> bool:
    text = get(get(call, "function") or call, "arguments")
    if not isinstance(text, str) or not text:
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return True
    return False


def tokens_of(tokens: Any) -> Tokens:
    """Token counts given as Tokens, as a mapping with its names, or as usage of chat or responses."""
    if tokens is None or isinstance(tokens, Tokens):
        return tokens or Tokens()
    into = get(tokens, "prompt_tokens_details") or get(tokens, "input_tokens_details")
    out = get(tokens, "completion_tokens_details") or get(tokens, "output_tokens_details")
    return Tokens(
        input=_count(tokens, "input", "prompt_tokens", "input_tokens"),
        output=_count(tokens, "output", "completion_tokens", "output_tokens"),
        cache_read=_first(
            _count(tokens, "cache_read", "cache_read_input_tokens"), _count(into, "cached_tokens")
        ),
        cache_write=_first(
            _count(tokens, "cache_write", "cache_creation_input_tokens"), _count(into, "cache_write_tokens")
        ),
        reasoning=_first(_count(tokens, "reasoning"), _count(out, "reasoning_tokens")),
    )


def last_user_text(messages: Sequence[Message]) -> str:
    """What the user said last; empty when no message is the user's."""
    return next((m.content for m in reversed(messages) if m.role == "user"), "")


def number(value: Any) -> float | None:
    """A finite number as float; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None


def _part(part: Any) -> str:
    if isinstance(part, str):
        return part
    kind = get(part, "type")
    text = get(part, "text") if kind in _TEXT_PARTS or kind is None else None
    text = get(part, "refusal") if text is None and kind == "refusal" else text
    return text if isinstance(text, str) else f"[{kind or type(part).__name__}]"


def _message(item: Any) -> Iterable[Message]:
    if isinstance(item, Message):
        yield item
        return
    kind = get(item, "type")
    if kind == "function_call_output":
        yield Message(
            role="tool", content=text_of(get(item, "output")), tool_call_id=_text(get(item, "call_id"))
        )
    elif kind == "function_call":
        name, arguments = _text(get(item, "name")), _text(get(item, "arguments"))
        yield Message(role="assistant", content=f"[calls {name}({arguments})]")
    elif kind in (None, "message"):
        yield Message(
            role=_text(get(item, "role")) or "user",
            content=text_of(get(item, "content")),
            name=_text(get(item, "name")),
            tool_call_id=_text(get(item, "tool_call_id")),
        )


def _tool_call(call: Any) -> ToolCall:
    inner = get(call, "function") or get(call, "custom") or call
    status = get(call, "status")
    arguments = get(inner, "arguments")
    return ToolCall(
        name=_text(get(inner, "name")) or "",
        status=ToolStatus(status) if status in tuple(ToolStatus) else ToolStatus.UNKNOWN,
        call_id=_text(get(call, "call_id") or get(call, "id")),
        arguments=_clipped(get(inner, "input") if arguments is None else arguments),
        result=_clipped(get(call, "result")),
        latency_ms=number(get(call, "latency_ms")),
        external=get(call, "external") is True,
    )


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _clipped(value: Any) -> str | None:
    return None if value is None else text_of(value)


def _count(holder: Any, *names: str) -> int | None:
    for name in names:
        value = get(holder, name)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
    return None


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)
