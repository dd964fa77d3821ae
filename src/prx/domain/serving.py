"""What the hot path needs to know of one agent, prepared so that a request needs no store."""

import msgspec

from prx.domain.holdback import Holdback
from prx.domain.layers import Layer
from prx.domain.records import DEFAULT_AGENT
from prx.domain.routing import ModelFacts
from prx.domain.versions import Strategy


class ServedExperiment(msgspec.Struct, frozen=True, kw_only=True):
    """A running experiment as the hot path sees it; the treated part replaces the champion's own."""

    experiment_id: str
    layer: Layer
    ramp: float
    traffic_split: float
    ramp_salt: str
    variant_salt: str
    randomization_unit: str = "auto"
    prompts: dict[str, str] | None = None
    strategy: Strategy | None = None


class ServedHoldback(msgspec.Struct, frozen=True, kw_only=True):
    """A holdback as the hot path sees it, with the content of the previous part."""

    plan: Holdback
    prompts: dict[str, str] | None = None
    strategy: Strategy | None = None


class Serving(msgspec.Struct, frozen=True, kw_only=True):
    """Champion and running experiments of one agent; `version` None before anything was registered.

    `baselines` maps a prompt name to the content hashes of the app's own texts that the champion stands for;
    `earlier` to those that the app has replaced since: whoever still sends one, or sends it again, is served
    it as sent. `killed`: every request gets the champion, no experiment runs. `memory` is
    the hash of the memory part that recall works under, empty before the first version.
    """

    agent: str = DEFAULT_AGENT
    revision: int = 0
    version: str | None = None
    prompts: dict[str, str] = {}
    strategy: Strategy = Strategy()
    experiments: tuple[ServedExperiment, ...] = ()
    holdbacks: tuple[ServedHoldback, ...] = ()
    killed: bool = False
    memory: str = ""
    baselines: dict[str, tuple[str, ...]] = {}
    earlier: dict[str, tuple[str, ...]] = {}
    models: tuple[ModelFacts, ...] = ()
