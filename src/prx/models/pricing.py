"""What a call costs, from a price per million tokens."""

from dataclasses import dataclass

from prx.domain.errors import InvalidInput
from prx.domain.records import Tokens
from prx.models.port import ChatRequest

_MILLION = 1_000_000
_TOKENS_PER_MESSAGE = 16
DEFAULT_OUTPUT_TOKENS = 4096


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per million tokens; cached input costs the input price unless told otherwise."""

    input_usd: float
    output_usd: float
    cache_read_usd: float | None = None

    def __post_init__(self) -> None:
        if min(self.input_usd, self.output_usd, self.cache_read_usd or 0.0) < 0:
            raise InvalidInput(f"a price is below 0 ({self}); give dollars per million tokens, 0 for local")

    def cost(self, tokens: Tokens) -> float | None:
        """Dollars for a call that used `tokens`; None when input or output were not told."""
        if tokens.input is None or tokens.output is None:
            return 0.0 if self == FREE else None
        cached = min(tokens.cache_read or 0, tokens.input)
        cached_usd = self.input_usd if self.cache_read_usd is None else self.cache_read_usd
        fresh = tokens.input - cached
        return (fresh * self.input_usd + cached * cached_usd + tokens.output * self.output_usd) / _MILLION

    def at_most(self, request: ChatRequest) -> float:
        """Dollars that no answer to `request` exceeds.

        A token is at least one byte of UTF-8, so the bytes sent bound the input; `max_tokens` bounds the
        output (4096 when the request does not say).
        """
        sent = sum(len(m.content.encode()) + _TOKENS_PER_MESSAGE for m in request.messages)
        sent += sum(len(repr(m.tool_calls).encode()) for m in request.messages if m.tool_calls)
        sent += len(repr(request.tools).encode()) if request.tools else 0
        output = DEFAULT_OUTPUT_TOKENS if request.max_tokens is None else request.max_tokens
        return (sent * max(self.input_usd, self.cache_read_usd or 0.0) + output * self.output_usd) / _MILLION


FREE = Price(input_usd=0.0, output_usd=0.0)
