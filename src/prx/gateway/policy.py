"""What the configuration says of providers, models, retries and clients that leave."""

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache

from prx.domain.errors import SettingsError
from prx.domain.prices import Price, provider_of
from prx.domain.routing import ModelFacts
from prx.settings.gateway import GatewayModel, GatewayPolicy, GatewayUpstream

AUTO = "prx/auto"
# Of a call as it comes most often, to compare prices: tokens in and out.
_TYPICAL = (1_000, 300)
_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Target:
    """A provider. `authorization`: None lets the client's own key pass, "" sends none, else the key."""

    url: str
    provider: str
    authorization: str | None


class Policy:
    """Decides by path and model. Raises: SettingsError for a configuration that cannot be used."""

    def __init__(self, given: GatewayPolicy | None = None) -> None:
        given = given or GatewayPolicy()
        self.retries, self.retry_wait = given.retries, given.retry_wait_seconds
        self._continued = given.continue_after_disconnect
        self._models = given.models
        self._targets = {one.name: Target(one.url, _provider(one), one.key) for one in given.upstreams}
        if len(self._targets) < len(given.upstreams):
            raise SettingsError("gateway.upstreams: two upstreams have the same name; give each its own")
        for model in given.models:
            self._check(model)
        literal = [model.name for model in given.models if "*" not in model.name]
        self.auto_model = given.auto_model or (literal[0] if literal else "")
        self.candidates = tuple(
            ModelFacts(model=model.name, price_usd=_typical(model))
            for model in given.models
            if model.name in literal
        )
        self.continues = lru_cache(maxsize=1024)(self._continues)
        self.target = lru_cache(maxsize=1024)(self._target)

    def prices(self, default: str) -> Mapping[str, Price]:
        """Own prices by `provider/model`; `default`: the provider of models that name no upstream."""
        return {
            f"{self._of(model, default)}/{model.name}": price
            for model in self._models
            if (price := _price(model))
        }

    def _continues(self, path: str) -> bool:
        """Whether a call on this path goes on when its client leaves."""
        return any(fnmatchcase(path, pattern) for pattern in self._continued)

    def _target(self, model: str) -> Target | None:
        """Where requests for a model go; None: to the upstream of `prx serve`."""
        for one in self._models:
            if fnmatchcase(model, one.name):
                return self._targets.get(one.upstream)
        return None

    def _of(self, model: GatewayModel, default: str) -> str:
        return self._targets[model.upstream].provider if model.upstream else default

    def _check(self, model: GatewayModel) -> None:
        where = f"gateway.models: {model.name!r}"
        if model.upstream and model.upstream not in self._targets:
            known = ", ".join(self._targets) or "none"
            raise SettingsError(f"{where} names the upstream {model.upstream!r}; known: {known}")
        if (model.price_input < 0) is not (model.price_output < 0):
            raise SettingsError(f"{where} has one of price_input and price_output; give both or none")
        if "*" in model.name and model.price_input >= 0:
            raise SettingsError(f"{where} is a pattern and cannot have a price; name each model")
        if model.name == AUTO:
            raise SettingsError(f"{where} is what the router stands for; name the models it may choose")


def _provider(upstream: GatewayUpstream) -> str:
    if not upstream.url:
        raise SettingsError(f"gateway.upstreams: {upstream.name!r} has no url")
    return provider_of(upstream.url)


def _price(model: GatewayModel) -> Price | None:
    if model.price_input < 0:
        return None
    cached = None if model.price_cache_read < 0 else model.price_cache_read
    return Price(model.price_input, model.price_output, cached)


def _typical(model: GatewayModel) -> float | None:
    price = _price(model)
    return None if price is None else (_TYPICAL[0] * price.input + _TYPICAL[1] * price.output) / _MILLION
