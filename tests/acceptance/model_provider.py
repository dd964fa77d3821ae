"""A provider's model, scripted: answers chat and responses requests in the shapes the real one sends.

What it says depends on the request alone, so that a test knows it: it calls `look_up` for each city that
the user names and has no result for, calls `final_result` where that tool is offered, fills the schema
where one is asked for, and else says what it was told. Its counts of tokens are counts of characters.
"""

import json
import re
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from gateway_house import Reply, Seen, events, stream, whole

CITIES = ("Paris", "Oslo", "Lima", "Kyoto")
MODEL = "gpt-4o-2024-08-06"


@dataclass
class Turn:
    """What the model says: a text, or tool calls as (name, arguments)."""

    text: str = ""
    calls: list[tuple[str, str]] = field(default_factory=list)


class Model:
    """`sent`: per request, the object sent or the objects of the stream. `pause`: seconds between pieces."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.pause = 0.0
        self._number = count(1)

    def __call__(self, seen: Seen) -> Reply:
        """The answer to a request."""
        path = seen.path.split("?")[0]
        if path.endswith("/chat/completions"):
            return self._chat(seen.json)
        if path.endswith("/responses"):
            return self._respond(seen.json)
        if path.endswith("/embeddings"):
            return self._whole(embedding(seen.json))
        one = {"id": MODEL, "object": "model", "created": 1, "owned_by": "openai"}
        return self._whole({"object": "list", "data": [one]})

    def _whole(self, value: Any) -> Reply:
        self.sent.append(value)
        return whole(value)

    def _chat(self, asked: dict[str, Any]) -> Reply:
        turn = decide(
            [(m["role"], text_of(m.get("content"))) for m in asked["messages"]],
            {t["function"]["name"] for t in asked.get("tools") or ()},
            (asked.get("response_format") or {}).get("type") == "json_schema",
        )
        number = next(self._number)
        head = {"id": f"chatcmpl-{number}", "created": 1_790_000_000, "model": MODEL}
        head |= {"system_fingerprint": "fp_1"}
        if not asked.get("stream"):
            return self._whole(chat_completion(head, turn, number, asked))
        chunks = chat_chunks(head, turn, number)
        if (asked.get("stream_options") or {}).get("include_usage"):
            chunks = [one | {"usage": None} for one in chunks]
            chunks.append(_chunk(head, []) | {"usage": chat_usage(asked, turn)})
        self.sent.append(chunks)
        return stream(events(*chunks), gap=self.pause)

    def _respond(self, asked: dict[str, Any]) -> Reply:
        said = asked["input"]
        messages = [("user", said)] if isinstance(said, str) else [_item(one) for one in said]
        form = ((asked.get("text") or {}).get("format") or {}).get("type")
        turn = decide(messages, {t.get("name") for t in asked.get("tools") or ()}, form == "json_schema")
        number = next(self._number)
        final = response_object(turn, number, asked)
        if not asked.get("stream"):
            return self._whole(final)
        parts = response_events(final)
        self.sent.append(parts)
        lines = [f"event: {p['type']}\ndata: {json.dumps(p)}\n\n".encode() for p in parts]
        return stream(lines, gap=self.pause)


def decide(messages: list[tuple[str, str]], tools: set[str], structured: bool) -> Turn:
    """What the model does next. `messages`: role and text, `tool` for results."""
    last = max((n for n, (role, _) in enumerate(messages) if role == "user"), default=0)
    asked = messages[last][1] if messages else ""
    results = [text for role, text in messages[last:] if role == "tool"]
    cities = [city for city in CITIES if city in asked]
    if "look_up" in tools and cities and not results:
        return Turn(calls=[("look_up", json.dumps({"city": city})) for city in cities])
    weather = json.dumps({"city": cities[0] if cities else "nowhere", "degrees": 21})
    if "final_result" in tools:
        return Turn(calls=[("final_result", weather)])
    if structured:
        return Turn(text=weather)
    return Turn(text=" ".join(results) if results else f"You said: {asked} ☂ é")


def text_of(content: Any) -> str:
    """The text of a message's content."""
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content or ())


def _item(item: dict[str, Any]) -> tuple[str, str]:
    if item.get("type") == "function_call_output":
        return "tool", text_of(item["output"])
    return item.get("role", item.get("type", "")), text_of(item.get("content"))


def _cut(text: str) -> list[str]:
    return re.findall(r".{1,7}", text, re.DOTALL)


def chat_usage(asked: dict[str, Any], turn: Turn) -> dict[str, Any]:
    """Token counts of a chat answer."""
    into = sum(len(text_of(m.get("content"))) for m in asked["messages"])
    out = len(turn.text) + sum(len(a) for _, a in turn.calls)
    return {
        "prompt_tokens": into,
        "completion_tokens": out,
        "total_tokens": into + out,
        "prompt_tokens_details": {"cached_tokens": into // 2, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": out // 2, "audio_tokens": 0},
    }


def chat_completion(head: dict[str, Any], turn: Turn, number: int, asked: dict[str, Any]) -> dict[str, Any]:
    """A whole chat answer."""
    message: dict[str, Any] = {"role": "assistant", "content": turn.text or None, "refusal": None}
    message["annotations"] = []
    if turn.calls:
        message["tool_calls"] = [
            {"id": f"call_{number}_{n}", "type": "function", "function": {"name": name, "arguments": given}}
            for n, (name, given) in enumerate(turn.calls)
        ]
    finish = "tool_calls" if turn.calls else "stop"
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
    body = head | {"object": "chat.completion", "choices": [choice], "usage": chat_usage(asked, turn)}
    return body | {"service_tier": "default"}


def _chunk(head: dict[str, Any], choices: list[dict[str, Any]]) -> dict[str, Any]:
    return head | {"object": "chat.completion.chunk", "choices": choices, "obfuscation": "x1Y"}


def chat_chunks(head: dict[str, Any], turn: Turn, number: int) -> list[dict[str, Any]]:
    """The chunks of a streamed chat answer; tool arguments come in fragments."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": None if turn.calls else ""}]
    deltas += [{"content": piece} for piece in _cut(turn.text)]
    for n, (name, arguments) in enumerate(turn.calls):
        opened = {"index": n, "id": f"call_{number}_{n}", "type": "function"}
        deltas.append({"tool_calls": [opened | {"function": {"name": name, "arguments": ""}}]})
        deltas += [
            {"tool_calls": [{"index": n, "function": {"arguments": piece}}]} for piece in _cut(arguments)
        ]
    choices = [{"index": 0, "delta": d, "logprobs": None, "finish_reason": None} for d in deltas]
    finish = "tool_calls" if turn.calls else "stop"
    choices.append({"index": 0, "delta": {}, "logprobs": None, "finish_reason": finish})
    return [_chunk(head, [choice]) for choice in choices]


def response_object(turn: Turn, number: int, asked: dict[str, Any]) -> dict[str, Any]:
    """A whole answer of the responses endpoint."""
    output: list[dict[str, Any]] = [
        {
            "id": f"fc_{number}_{n}",
            "type": "function_call",
            "status": "completed",
            "call_id": f"call_{number}_{n}",
            "name": name,
            "arguments": arguments,
        }
        for n, (name, arguments) in enumerate(turn.calls)
    ]
    if turn.text:
        part = {"type": "output_text", "text": turn.text, "annotations": [], "logprobs": []}
        message = {"id": f"msg_{number}", "type": "message", "role": "assistant", "status": "completed"}
        output.append(message | {"content": [part]})
    into, out = len(json.dumps(asked["input"])), len(turn.text) + sum(len(a) for _, a in turn.calls)
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 1_790_000_000,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": asked.get("instructions"),
        "model": MODEL,
        "output": output,
        "parallel_tool_calls": True,
        "previous_response_id": asked.get("previous_response_id"),
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": asked.get("tools") or [],
        "top_p": 1.0,
        "usage": {
            "input_tokens": into,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": out,
            "output_tokens_details": {"reasoning_tokens": out // 2},
            "total_tokens": into + out,
        },
        "metadata": {},
    }


def response_events(final: dict[str, Any]) -> list[dict[str, Any]]:
    """The events of a streamed answer, in the order and with the fields of the real ones."""
    opened = final | {"status": "in_progress", "output": [], "usage": None}
    out: list[dict[str, Any]] = [{"type": "response.created", "response": opened}]
    out.append({"type": "response.in_progress", "response": opened})
    for index, item in enumerate(final["output"]):
        out += _item_events(index, item)
    out.append({"type": "response.completed", "response": final})
    return [one | {"sequence_number": n} for n, one in enumerate(out)]


def _item_events(index: int, item: dict[str, Any]) -> list[dict[str, Any]]:
    place = {"item_id": item["id"], "output_index": index}
    if item["type"] == "function_call":
        begun = item | {"arguments": "", "status": "in_progress"}
        kind, whole_value = "response.function_call_arguments", item["arguments"]
        pieces = [{"type": f"{kind}.delta", "delta": d} | place for d in _cut(whole_value)]
        done = {"type": f"{kind}.done", "arguments": whole_value, "name": item["name"]} | place
        middle = [*pieces, done]
    else:
        begun = item | {"content": [], "status": "in_progress"}
        (part,) = item["content"]
        at = place | {"content_index": 0}
        empty = part | {"text": ""}
        middle = [{"type": "response.content_part.added", "part": empty} | at]
        kind = "response.output_text"
        middle += [{"type": f"{kind}.delta", "delta": d, "logprobs": []} | at for d in _cut(part["text"])]
        middle.append({"type": f"{kind}.done", "text": part["text"], "logprobs": []} | at)
        middle.append({"type": "response.content_part.done", "part": part} | at)
    added = {"type": "response.output_item.added", "output_index": index, "item": begun}
    return [added, *middle, {"type": "response.output_item.done", "output_index": index, "item": item}]


def embedding(asked: dict[str, Any]) -> dict[str, Any]:
    """An answer of the embeddings endpoint."""
    texts = asked["input"] if isinstance(asked["input"], list) else [asked["input"]]
    rows = [{"object": "embedding", "index": n, "embedding": [0.5, 0.25]} for n, _ in enumerate(texts)]
    used = sum(len(text) for text in texts if isinstance(text, str))
    usage = {"prompt_tokens": used, "total_tokens": used}
    return {"object": "list", "data": rows, "model": asked["model"], "usage": usage}
