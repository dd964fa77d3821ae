"""How the engine talks to a language model: one request, one reply, metered."""

from typing import Any, Protocol

import msgspec

from prx.domain.records import Message, Tokens, ToolCall


class ChatRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One chat completion. `tools` and `response_format` as in the OpenAI protocol."""

    model: str
    messages: tuple[Message, ...]
    temperature: float | None = None
    seed: int | None = None
    max_tokens: int | None = None
    tools: tuple[dict[str, Any], ...] = ()
    response_format: dict[str, Any] | None = None


class ChatReply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the model answered; latencies in milliseconds, `cost_usd` None when no price is known.

    `finish_reason` as the endpoint said it (`stop`, `length`, `tool_calls`, ...); None when not told.
    """

    text: str
    model: str
    tool_calls: tuple[ToolCall, ...] = ()
    tokens: Tokens = Tokens()
    latency_ms: float = 0.0
    ttft_ms: float | None = None
    cost_usd: float | None = None
    finish_reason: str | None = None


class ChatModel(Protocol):
    """A model endpoint in one role (agent, judge, proposer)."""

    @property
    def name(self) -> str:
        """Model name as recorded, such as `gpt-5`."""
        ...

    def complete(self, request: ChatRequest) -> ChatReply:
        """One completion. Raises: ModelUnavailable; nothing is retried for ever."""
        ...
