"""A session's scores: the small, numeric value that fitness and experiments work on."""

from datetime import datetime

import msgspec

DIMENSIONS = (
    "response_relevance",
    "task_completion",
    "response_latency",
    "token_efficiency",
    "memory_precision",
    "user_satisfaction",
)


class Arm(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The session's part in one experiment; `served` None when nothing of it was shown."""

    experiment_id: str
    assigned: str
    served: str | None = None


class OwnMetric(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A metric of the operator's own, fed by feedback of its name, in its own unit.

    `type`: mean or rate (of sessions with a value above 0); `better`: higher or lower; `window_hours` from
    the session's start; `role`: primary (tested instead of the composite), guardrail (`margin`: how much
    worse is still accepted, in the metric's unit) or report.
    """

    name: str
    type: str = "mean"
    better: str = "higher"
    window_hours: float = 24.0
    role: str = "report"
    margin: float = 0.05

    @property
    def decides(self) -> bool:
        """Whether experiments depend on it."""
        return self.role != "report"


class SessionScore(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Derived from one trace; a dimension without data is absent from `dimensions` (never 0).

    `tokens`: total of the session, None when a call did not tell. `failed`: at least one agent failure
    (external ones are not counted); None when unknowable. `metrics`: values of own metrics, each in its own
    unit. `ttft_ms`: one entry per call that has a latency, `ttft_flagged` when a total stood in for one.
    """

    session_id: str
    agent: str
    env: str
    started_at: datetime
    closes_at: datetime
    closed: bool
    dimensions: dict[str, float]
    unit: str | None = None
    unit_source: str = "none"
    tenant: str | None = None
    user: str | None = None
    channel: str | None = None
    intent: str | None = None
    model: str | None = None
    version: str | None = None
    arms: tuple[Arm, ...] = ()
    calls: int = 0
    failed: bool | None = None
    external_failures: int = 0
    success: bool | None = None
    tokens: int | None = None
    cost_usd: float | None = None
    ttft_ms: tuple[float, ...] = ()
    ttft_flagged: bool = False
    source: str = "sdk"
    metrics: dict[str, float] = {}

    def arm(self, experiment_id: str) -> Arm | None:
        """The session's part in that experiment, if it has one."""
        return next((arm for arm in self.arms if arm.experiment_id == experiment_id), None)
