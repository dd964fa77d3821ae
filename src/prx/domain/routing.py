"""What is known of each model that a request can be routed to."""

from datetime import datetime

import msgspec

from prx.domain.records import DEFAULT_AGENT

START_ELO = 1000.0


class ModelFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One model; what is not known is None or absent, never 0.

    `capability`: success rate 0..1 by intent. `elo`: 1000 is average, 400 points are odds of 10 to 1.
    `price_usd`: US dollars of a typical call. `latency_ms`: of a typical call. `context_limit`: tokens.
    `sessions`: how many sessions the measured values rest on.
    """

    model: str
    capability: dict[str, float] = {}
    elo: float = START_ELO
    price_usd: float | None = None
    latency_ms: float | None = None
    context_limit: int | None = None
    sessions: int = 0


class ModelTable(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Facts of an agent's models, measured from its records at `at`; one table per agent."""

    agent: str = DEFAULT_AGENT
    at: datetime | None = None
    models: tuple[ModelFacts, ...] = ()
