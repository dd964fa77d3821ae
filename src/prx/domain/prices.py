"""What a call costs, from its tokens and a dated table of list prices."""

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from prx.domain.errors import InvalidInput
from prx.domain.records import Tokens

PRICES_AS_OF: Final = "2025-10"
LOCAL: Final = "local"
_MILLION = 1_000_000
_DATED = re.compile(r"-(?:\d{4}-\d{2}-\d{2}|\d{8}|latest)$")


@dataclass(frozen=True, slots=True)
class Price:
    """USD per 1M tokens; without a price of its own, a cached token costs what an input token costs.

    Raises: InvalidInput for a price below 0.
    """

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None

    def __post_init__(self) -> None:
        if min(self.input, self.output, self.cache_read or 0.0, self.cache_write or 0.0) < 0:
            raise InvalidInput(f"a price is below 0 ({self}); give dollars per million tokens, 0 for local")

    def cost(self, tokens: Tokens) -> float | None:
        """Dollars for a call that used `tokens`; None when input or output were not told."""
        if tokens.input is None or tokens.output is None:
            return 0.0 if self == FREE else None
        read, written = tokens.cache_read or 0, tokens.cache_write or 0
        plain = max(0, tokens.input - read - written)
        return (
            plain * self.input
            + read * (self.input if self.cache_read is None else self.cache_read)
            + written * (self.input if self.cache_write is None else self.cache_write)
            + tokens.output * self.output
        ) / _MILLION


FREE: Final = Price(0.0, 0.0)


LIST_PRICES: Final[dict[str, Price]] = {
    "openai/gpt-5": Price(1.25, 10.0, 0.125),
    "openai/gpt-5-mini": Price(0.25, 2.0, 0.025),
    "openai/gpt-5-nano": Price(0.05, 0.40, 0.005),
    "openai/gpt-4.1": Price(2.0, 8.0, 0.50),
    "openai/gpt-4.1-mini": Price(0.40, 1.60, 0.10),
    "openai/gpt-4.1-nano": Price(0.10, 0.40, 0.025),
    "openai/gpt-4o": Price(2.50, 10.0, 1.25),
    "openai/gpt-4o-mini": Price(0.15, 0.60, 0.075),
    "openai/o1": Price(15.0, 60.0, 7.50),
    "openai/o3": Price(2.0, 8.0, 0.50),
    "openai/o3-mini": Price(1.10, 4.40, 0.55),
    "openai/o4-mini": Price(1.10, 4.40, 0.275),
    "openai/text-embedding-3-small": Price(0.02, 0.0),
    "openai/text-embedding-3-large": Price(0.13, 0.0),
    "anthropic/claude-opus-4-1": Price(15.0, 75.0, 1.50, 18.75),
    "anthropic/claude-sonnet-4-5": Price(3.0, 15.0, 0.30, 3.75),
    "anthropic/claude-haiku-4-5": Price(1.0, 5.0, 0.10, 1.25),
    "anthropic/claude-3-5-haiku": Price(0.80, 4.0, 0.08, 1.0),
    "google/gemini-2.5-pro": Price(1.25, 10.0),
    "google/gemini-2.5-flash": Price(0.30, 2.50),
    "google/gemini-2.5-flash-lite": Price(0.10, 0.40),
}
_HOSTS: Final = {
    "api.openai.com": "openai",
    "api.anthropic.com": "anthropic",
    "generativelanguage.googleapis.com": "google",
    "api.mistral.ai": "mistral",
    "api.deepseek.com": "deepseek",
    "api.groq.com": "groq",
    "api.x.ai": "xai",
    "openrouter.ai": "openrouter",
    "api.together.xyz": "together",
}


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices by `provider/model`; `own` holds the operator's and comes first."""

    own: Mapping[str, Price] = field(default_factory=dict)

    def cost(self, provider: str, model: str, tokens: Tokens) -> float | None:
        """USD of one call; 0 for a local model without a price, None when price or tokens are unknown."""
        price = self.of(provider, model)
        if price is None:
            return 0.0 if provider == LOCAL else None
        return price.cost(tokens)

    def of(self, provider: str, model: str) -> Price | None:
        """Price of a model; a dated name (`gpt-4o-2024-08-06`) falls back to the undated one."""
        undated = _DATED.sub("", model)
        for table in (self.own, LIST_PRICES if provider != LOCAL else {}):
            for key in (f"{provider}/{model}", f"{provider}/{undated}", model, undated):
                if key in table:
                    return table[key]
        return None


def provider_of(base_url: str) -> str:
    """Provider behind an endpoint: a known one by name, `local` on this machine or network, else the host."""
    host = (urlsplit(base_url).hostname or "").lower()
    if host in _HOSTS:
        return _HOSTS[host]
    if host == "localhost" or host.endswith((".localhost", ".local", ".internal")):
        return LOCAL
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    return LOCAL if address.is_private or address.is_loopback else host
