"""The OpenAI chat protocol: a request as JSON, and a reply from JSON that may be anything."""

import json
from typing import Any

import msgspec

from prx.domain.errors import ModelUnavailable
from prx.domain.records import Message, Tokens, ToolCall
from prx.models.port import ChatReply, ChatRequest


class _Function(msgspec.Struct):
    name: str
    arguments: Any = None


class _Call(msgspec.Struct):
    function: _Function
    id: str | None = None


class _Reply(msgspec.Struct):
    content: Any = None
    tool_calls: list[_Call] | None = None
    refusal: str | None = None


class _Choice(msgspec.Struct):
    message: _Reply
    finish_reason: str | None = None


class _Details(msgspec.Struct):
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None
    completion_tokens_details: _Details | None = None


class _Body(msgspec.Struct):
    choices: list[_Choice]
    model: str | None = None
    usage: _Usage | None = None


def encode_request(request: ChatRequest, *, model: str, limit_field: str) -> bytes:
    """JSON body of `POST chat/completions`; `limit_field` is what the server calls the output limit."""
    body: dict[str, Any] = {
        "model": request.model or model,
        "messages": [_message(m) for m in request.messages],
    }
    optional = {
        "temperature": request.temperature,
        "seed": request.seed,
        limit_field: request.max_tokens,
        "response_format": request.response_format,
        "tools": list(request.tools) or None,
    }
    body.update({name: value for name, value in optional.items() if value is not None})
    return json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")


def decode_reply(body: bytes, *, latency_ms: float, asked: str) -> ChatReply:
    """The reply in `body`. Raises: ModelUnavailable when it is not a chat completion."""
    try:
        parsed = msgspec.json.decode(body, type=_Body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ModelUnavailable(
            f"model {asked} answered with something that is no chat completion ({error}); "
            "check that base_url is an OpenAI-compatible API (it usually ends in /v1)"
        ) from error
    if not parsed.choices:
        raise ModelUnavailable(
            f"model {asked} answered without any choice; nothing was decided, try again later"
        )
    choice = parsed.choices[0]
    return ChatReply(
        text=_text(choice.message, asked),
        model=parsed.model or asked,
        tool_calls=tuple(_tool_call(call) for call in choice.message.tool_calls or ()),
        tokens=_tokens(parsed.usage),
        latency_ms=latency_ms,
        finish_reason=choice.finish_reason,
    )


def _message(message: Message) -> dict[str, Any]:
    out: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.name is not None:
        out["name"] = message.name
    if message.tool_call_id is not None:
        out["tool_call_id"] = message.tool_call_id
    if message.tool_calls:
        out["tool_calls"] = [
            {
                "id": call.call_id or f"call_{index}",
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments or "{}"},
            }
            for index, call in enumerate(message.tool_calls)
        ]
    return out


def _text(reply: _Reply, asked: str) -> str:
    content = reply.content
    if content is None:
        return reply.refusal or ""
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(isinstance(part, dict) for part in content):
        return "".join(str(part.get("text", "")) for part in content)
    raise ModelUnavailable(
        f"model {asked} answered with content of type {type(content).__name__}; "
        "only text is understood, check the endpoint"
    )


def _tool_call(call: _Call) -> ToolCall:
    arguments = call.function.arguments
    if arguments is not None and not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False, sort_keys=True)
    return ToolCall(name=call.function.name, call_id=call.id, arguments=arguments)


def _tokens(usage: _Usage | None) -> Tokens:
    if usage is None:
        return Tokens()
    prompt, completion = usage.prompt_tokens_details, usage.completion_tokens_details
    return Tokens(
        input=usage.prompt_tokens,
        output=usage.completion_tokens,
        cache_read=prompt.cached_tokens if prompt else None,
        reasoning=completion.reasoning_tokens if completion else None,
    )
