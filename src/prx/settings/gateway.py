"""Keys of `[self_evolution.gateway]`."""

from dataclasses import dataclass

from prx.settings import keys
from prx.settings.keys import key


@dataclass(frozen=True, slots=True)
class GatewayUpstream:
    """One more provider than that of `prx serve --upstream`, for the models that name it."""

    name: str = key("", "Name that models refer to", keys.NOT_EMPTY)
    url: str = key("", "Base URL of an OpenAI-compatible provider", keys.URL)
    key: str = keys.key(
        "",
        "Its API key; write it as env:NAME or file:PATH. A client's own key never goes there",
        secret=True,
        required=True,
    )


@dataclass(frozen=True, slots=True)
class GatewayModel:
    """Where requests for a model go and what they cost; literal names are what `prx/auto` chooses from."""

    name: str = key("", "Model name as clients send it; a * stands for any characters", keys.NOT_EMPTY)
    upstream: str = key("", "Name of the upstream; empty: that of prx serve --upstream")
    price_input: float = key(
        -1.0, "Dollars per 1M input tokens; below 0: the built-in list price", keys.Between(-1)
    )
    price_output: float = key(
        -1.0, "Dollars per 1M output tokens; below 0: the built-in list price", keys.Between(-1)
    )
    price_cache_read: float = key(
        -1.0, "Dollars per 1M cached input tokens; below 0: the input price", keys.Between(-1)
    )


@dataclass(frozen=True, slots=True)
class GatewayPolicy:
    """How the gateway treats providers and clients that fail, and which model goes where."""

    retries: int = key(2, "Times that a call is tried again before its answer has begun", keys.Between(0, 10))
    retry_wait_seconds: float = key(
        60.0, "Seconds that a request may wait for its retries in all", keys.HOURS_OR_ZERO
    )
    continue_after_disconnect: tuple[str, ...] = key(
        (), 'Paths, such as "/v1/responses" or "/a/batch/*", whose calls go on when their client leaves'
    )
    auto_model: str = key("", "What prx/auto means while the strategy has no say; empty: the first model")
    upstreams: tuple[GatewayUpstream, ...] = ()
    models: tuple[GatewayModel, ...] = ()
