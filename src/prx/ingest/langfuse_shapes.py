"""What a Langfuse generation was given and what it answered, in the many shapes that frameworks write."""

from typing import Any

import msgspec

from prx.domain.records import Message, ToolCall
from prx.ingest.plain import dict_at, dicts_at, list_at, text_of
from prx.ingest.transcript import declared_tools, to_messages


def request_of(value: Any) -> tuple[Message, ...]:
    """What a generation was given: its messages, else its whole input as one user message."""
    given = decoded(value)
    messages = to_messages(
        _unwrapped(m) for m in (given if isinstance(given, list) else list_at(given, "messages"))
    )
    if messages:
        return messages
    prompt = given.get("prompt") if isinstance(given, dict) else None
    text = text_of(prompt if isinstance(prompt, str) else value)
    return (Message(role="user", content=text),) if text else ()


def response_of(value: Any) -> str | None:
    """The text that a generation answered; None where it has no output."""
    answer = answer_message(value)
    if not isinstance(answer, dict):
        return None if value is None else text_of(value)
    content = answer.get("content", answer.get("parts"))
    if isinstance(content, dict):
        content = content.get("parts", content)
    return text_of(content) if content is not None else None


def tools_asked_for(raw: dict[str, Any]) -> list[ToolCall]:
    """Tool calls that a generation's answer asks for, whatever form it has; status unknown."""
    answer = answer_message(raw.get("output"))
    if not isinstance(answer, dict):
        return []
    found = declared_tools(answer) or declared_tools(dict_at(answer, "additional_kwargs"))
    parts = [p for p in dicts_at(answer, "parts") if p.get("type") == "tool_call"]
    return [*found, *(call for part in parts for call in declared_tools({"tool_calls": [part]}))]


def answer_message(value: Any) -> Any:
    """The message inside an answer: choices, lists of one and wrappers opened."""
    found = decoded(value)
    if isinstance(found, list):
        found = next((m for m in found if isinstance(m, dict) and "role" in m), found)
    for choice in dicts_at(found, "choices")[:1]:
        found = choice
    return dict_at(found, "message") or found


def _unwrapped(raw: Any) -> Any:
    """A message whose content is called parts gets it under its usual name."""
    if isinstance(raw, dict) and "content" not in raw and isinstance(raw.get("parts"), list):
        return {**raw, "content": raw["parts"]}
    return raw


def decoded(value: Any) -> Any:
    """JSON inside a string decoded; other values as they are."""
    if not isinstance(value, str) or value[:1] not in ("{", "["):
        return value
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return value
