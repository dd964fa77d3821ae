"""Messages and token counts of the wire as records hold them.

`prx.live.shapes` reads whatever an app hands over. What comes over the wire is plain JSON in one shape
nearly always: that is read here at a tenth of the cost, and everything else is left to it.
"""

from typing import Any

from prx.domain.records import Message, Tokens
from prx.live.shapes import clip, messages_of, tokens_of

_PLAIN = frozenset({"role", "content", "name", "tool_call_id"})
_NO: dict[str, Any] = {}
_OTHER = frozenset(
    {"input", "output", "cache_read", "cache_write", "reasoning", "input_tokens", "output_tokens"}
    | {"cache_read_input_tokens", "cache_creation_input_tokens"}
)


def wire_messages(said: Any) -> tuple[Message, ...]:
    """Messages of a request body."""
    if not isinstance(said, list):
        return messages_of(said)
    out: list[Message] = []
    for item in said:
        if type(item) is dict and item.keys() <= _PLAIN:
            role, content = item.get("role"), item.get("content")
            if len(item) == 2 and type(role) is str and type(content) is str:
                out.append(Message(role=role, content=clip(content)))
                continue
            name, call_id = item.get("name"), item.get("tool_call_id")
            if (
                type(role) is str
                and type(content) is str
                and (name is None or type(name) is str)
                and (call_id is None or type(call_id) is str)
            ):
                out.append(Message(role=role, content=clip(content), name=name, tool_call_id=call_id))
                continue
        out.extend(messages_of([item]))
    return tuple(out)


def wire_tokens(usage: Any) -> Tokens:
    """Token counts of a `usage` object."""
    if type(usage) is not dict:
        return tokens_of(usage)
    into, out = usage.get("prompt_tokens_details") or _NO, usage.get("completion_tokens_details") or _NO
    if type(into) is not dict or type(out) is not dict or not _OTHER.isdisjoint(usage):
        return tokens_of(usage)
    counts = (
        usage.get("prompt_tokens"),
        usage.get("completion_tokens"),
        into.get("cached_tokens"),
        into.get("cache_write_tokens"),
        out.get("reasoning_tokens"),
    )
    for count in counts:
        if count is not None and (type(count) is not int or count < 0):
            return tokens_of(usage)
    return Tokens(
        input=counts[0], output=counts[1], cache_read=counts[2], cache_write=counts[3], reasoning=counts[4]
    )
