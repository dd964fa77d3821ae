"""What a model was given and what it answered, from the attributes and events of its span."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from prx.domain.records import Message, ToolCall
from prx.ingest.langfuse_shapes import decoded, request_of, response_of, tools_asked_for
from prx.ingest.otlp import table
from prx.ingest.otlp.span import Span
from prx.ingest.plain import dict_at, dicts_at, list_at, name_of, text_of
from prx.ingest.transcript import declared_tools, to_messages

_CALL, _RESULT, _THOUGHT = "tool_call", "tool_call_response", "reasoning"


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: the text, None where the span does not say, and the tools that were asked for."""

    text: str | None = None
    tools: tuple[ToolCall, ...] = ()


def request(span: Span) -> tuple[Message, ...]:
    """The messages that the model was given, oldest first; none where content is not captured."""
    found = _structured(span.attributes)
    if not found:
        found = _from_events(span)
    if not found:
        found = _first(request_of(v) for v in _values(span.attributes, table.INPUT_GENERAL))
    return found or ()


def answer(span: Span) -> Answer:
    """What the model answered."""
    raw = list(_answers(span.attributes)) or [
        one for event in _named(span, table.EVENTS_WITH_MESSAGES) for one in _answers(event)
    ]
    raw = raw or [_choice(event) for event in _named(span, table.EVENTS_PER_CHOICE)]
    if raw:
        messages = [one for item in raw for one in chat_shape(item, "assistant")]
        texts = [text_of(one["content"]) for one in messages if one.get("content") is not None]
        tools = tuple(tool for one in messages for tool in declared_tools(one))
        return Answer("\n".join(texts) if texts else None, tools)
    for value in _values(span.attributes, table.OUTPUT_GENERAL):
        tools = tuple(tools_asked_for({"output": value}))
        return Answer(response_of(value), tools or _listed_tools(span))
    return Answer(None, _listed_tools(span))


def chat_shape(raw: Any, role: str) -> Iterator[dict[str, Any]]:
    """A message of any dialect as `role`, `content`, `tool_calls`, `tool_call_id`; `role` is what one
    without a role has. A message whose parts hold results of tools becomes several."""
    if not isinstance(raw, dict):
        return
    inner = raw["message"] if isinstance(raw.get("message"), dict) else raw
    content = _content(inner)
    calls = [dict_at(call, "tool_call") or call for call in dicts_at(inner, "tool_calls")]
    results: list[dict[str, Any]] = []
    if isinstance(content, list):
        parts, content = content, []
        for part in parts:
            kind = part.get("type") if isinstance(part, dict) else None
            if kind == _CALL:
                calls.append(part)
            elif kind == _RESULT:
                results.append(_result(part))
            elif kind != _THOUGHT:
                content.append(part)
        content = content or None
    told = name_of(inner.get("role")) or role
    if content is not None or calls or not results:
        yield {
            "role": told,
            "content": content,
            "name": inner.get("name"),
            "tool_calls": calls,
            "tool_call_id": inner.get("tool_call_id") or (inner.get("id") if told == "tool" else None),
        }
    yield from results


def numbered(attributes: Mapping[str, Any], prefix: str) -> list[Any]:
    """Attributes such as `prefix.0.message.role` as the list that they spell."""
    start = f"{prefix}."
    tree: dict[str, Any] = {}
    for key, value in attributes.items():
        if not key.startswith(start):
            continue
        *path, last = key[len(start) :].split(".")
        node = tree
        for step in path:
            below = node.setdefault(step, {})
            if not isinstance(below, dict):
                break
            node = below
        else:
            node.setdefault(last, value)
    listed = _as_lists(tree)
    return listed if isinstance(listed, list) else []


def _structured(attributes: Mapping[str, Any]) -> tuple[Message, ...]:
    for value in _values(attributes, table.INPUT_JSON):
        raw = decoded(value)
        if isinstance(raw, list):
            return to_messages([*_system(attributes), *_shaped(raw)])
    for name in table.INPUT_NUMBERED:
        found = numbered(attributes, name.key)
        if found:
            return to_messages(_shaped(found))
    return ()


def _from_events(span: Span) -> tuple[Message, ...]:
    for event in _named(span, table.EVENTS_WITH_MESSAGES):
        found = _structured(event) or _first(request_of(v) for v in _values(event, table.INPUT_GENERAL))
        if found:
            return found
    kinds = {name.key: name.key.split(".")[1] for name in table.EVENTS_PER_MESSAGE}
    said: list[dict[str, Any]] = []
    for one in span.events:
        if one.name in kinds:
            said.extend(chat_shape(_payload(one.attributes), kinds[one.name]))
    return to_messages(said)


def _answers(attributes: Mapping[str, Any]) -> Iterator[Any]:
    for value in _values(attributes, table.OUTPUT_JSON):
        raw = decoded(value)
        if isinstance(raw, list):
            yield from raw
            return
    for name in table.OUTPUT_NUMBERED:
        found = numbered(attributes, name.key)
        if found:
            yield from found
            return


def _choice(attributes: Mapping[str, Any]) -> dict[str, Any]:
    payload = _payload(attributes)
    message = decoded(payload.get("message"))
    return message if isinstance(message, dict) else payload


def _payload(attributes: Mapping[str, Any]) -> dict[str, Any]:
    body = decoded(attributes.get("gen_ai.event.content"))
    found = dict(body) if isinstance(body, dict) else dict(attributes)
    for key in ("content", "tool_calls"):
        found[key] = decoded(found.get(key))
    return found


def _system(attributes: Mapping[str, Any]) -> list[dict[str, Any]]:
    for value in _values(attributes, table.SYSTEM):
        text = text_of(decoded(value))
        if text:
            return [{"role": "system", "content": text}]
    return []


def _shaped(raw: Iterable[Any]) -> list[dict[str, Any]]:
    return [one for item in raw for one in chat_shape(item, "user")]


def _content(raw: dict[str, Any]) -> Any:
    if isinstance(raw.get("parts"), list):
        return raw["parts"]
    if "content" not in raw and isinstance(raw.get("contents"), list):
        return [dict_at(part, "message_content") or part for part in raw["contents"]]
    content = raw.get("content")
    # Parts are written as JSON where an attribute takes no list.
    opened = decoded(content) if isinstance(content, str) and content.startswith('[{"type"') else content
    return opened if opened is not None else content


def _result(part: dict[str, Any]) -> dict[str, Any]:
    told = part.get("response", part.get("result"))
    return {"role": "tool", "content": told, "tool_call_id": part.get("id")}


def _listed_tools(span: Span) -> tuple[ToolCall, ...]:
    for value in _values(span.attributes, table.OUTPUT_TOOLS):
        calls = [
            {"id": c.get("toolCallId"), "name": c.get("toolName"), "arguments": c.get("args", c.get("input"))}
            for c in list_at({"calls": decoded(value)}, "calls")
            if isinstance(c, dict)
        ]
        return tuple(declared_tools({"tool_calls": calls}))
    return ()


def _named(span: Span, names: Iterable[table.Name]) -> Iterator[dict[str, Any]]:
    wanted = {name.key for name in names}
    return (event.attributes for event in span.events if event.name in wanted)


def _values(attributes: Mapping[str, Any], names: Iterable[table.Name]) -> Iterator[Any]:
    return (value for name in names if (value := attributes.get(name.key)) not in (None, "", [], {}))


def _first(found: Iterable[tuple[Message, ...]]) -> tuple[Message, ...]:
    return next((one for one in found if one), ())


def _as_lists(node: Any) -> Any:
    if not isinstance(node, dict):
        return node
    if node and all(key.isascii() and key.isdigit() for key in node):
        return [_as_lists(node[key]) for key in sorted(node, key=lambda k: (len(k.lstrip("0")), k))]
    return {key: _as_lists(value) for key, value in node.items()}
