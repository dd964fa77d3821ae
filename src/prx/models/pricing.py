"""The most that a call can cost, before it is made."""

from prx.domain.prices import FREE, Price
from prx.models.port import ChatRequest

_MILLION = 1_000_000
_TOKENS_PER_MESSAGE = 16
DEFAULT_OUTPUT_TOKENS = 4096

__all__ = ["DEFAULT_OUTPUT_TOKENS", "FREE", "Price", "at_most"]


def at_most(price: Price, request: ChatRequest) -> float:
    """Dollars that no answer to `request` exceeds.

    A token is at least one byte of UTF-8, so the bytes sent bound the input; `max_tokens` bounds the
    output (4096 when the request does not say).
    """
    sent = sum(len(m.content.encode()) + _TOKENS_PER_MESSAGE for m in request.messages)
    sent += sum(len(repr(m.tool_calls).encode()) for m in request.messages if m.tool_calls)
    sent += len(repr(request.tools).encode()) if request.tools else 0
    output = DEFAULT_OUTPUT_TOKENS if request.max_tokens is None else request.max_tokens
    dearest = max(price.input, price.cache_read or 0.0, price.cache_write or 0.0)
    return (sent * dearest + output * price.output) / _MILLION
