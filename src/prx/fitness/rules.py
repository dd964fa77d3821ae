"""What the fitness of an agent is measured with: weights, windows and curve ends."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from types import MappingProxyType

from prx.domain.errors import SettingsError
from prx.domain.scores import DIMENSIONS, OwnMetric

DEFAULT_WEIGHTS: Mapping[str, float] = MappingProxyType(
    {
        "response_relevance": 0.30,
        "task_completion": 0.25,
        "response_latency": 0.15,
        "token_efficiency": 0.10,
        "memory_precision": 0.10,
        "user_satisfaction": 0.10,
    }
)
_SUM_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class FitnessRules:
    """Rules of one agent's fitness.

    `weights` maps dimension names to shares in 0..1 that sum to 1; a dimension left out has weight 0.
    `target_ms`, `ceiling_ms`: time to first token scored 1 and 0. `target_tokens`, `ceiling_tokens`:
    tokens of a successful task scored 1 and 0; both None ("auto") until they are frozen from the first
    sessions, and until then no session has a token efficiency. Thresholds are in fitness points.
    `metrics`: the operator's own. Raises: SettingsError, naming the sum of weights that do not sum to 1.
    """

    weights: Mapping[str, float] = field(default_factory=lambda: DEFAULT_WEIGHTS)
    evaluation_window_hours: float = 24.0
    min_sessions_for_score: int = 10
    minimum_acceptable: float = 0.50
    regression_delta: float = 0.05
    target_ms: float = 500.0
    ceiling_ms: float = 10_000.0
    target_tokens: float | None = None
    ceiling_tokens: float | None = None
    session_idle_minutes: float = 30.0
    outcome_window_hours: float = 24.0
    metrics: tuple[OwnMetric, ...] = ()

    def __post_init__(self) -> None:
        check_weights(self.weights)
        _check_curve("ms", self.target_ms, self.ceiling_ms)
        if (self.target_tokens is None) != (self.ceiling_tokens is None):
            raise SettingsError(
                "one of target_tokens and ceiling_tokens is auto and the other a number; "
                "give both as numbers or both as auto"
            )
        if self.target_tokens is not None and self.ceiling_tokens is not None:
            _check_curve("tokens", self.target_tokens, self.ceiling_tokens)
        for name in ("evaluation_window_hours", "session_idle_minutes", "outcome_window_hours"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise SettingsError(f"{name} is {value}; give a number above 0")
        if self.min_sessions_for_score < 1:
            raise SettingsError(
                f"min_sessions_for_score is {self.min_sessions_for_score}; give a whole number from 1 on"
            )
        for name in ("minimum_acceptable", "regression_delta"):
            value = getattr(self, name)
            if not 0 <= value <= 1:
                raise SettingsError(f"{name} is {value}; give a number from 0 to 1")

    @property
    def window(self) -> timedelta:
        """Length of the window over which a deployment is scored."""
        return timedelta(hours=self.evaluation_window_hours)

    @property
    def idle(self) -> timedelta:
        """Silence after which a session has ended."""
        return timedelta(minutes=self.session_idle_minutes)

    @property
    def outcome_window(self) -> timedelta:
        """Time after a session's end during which its outcome may still change."""
        return timedelta(hours=self.outcome_window_hours)


def check_weights(weights: Mapping[str, float]) -> None:
    """Nothing, when `weights` name known dimensions and sum to 1. Raises: SettingsError naming the fault."""
    unknown = sorted(set(weights) - set(DIMENSIONS))
    if unknown:
        raise SettingsError(
            f"fitness has no dimension {unknown[0]!r}; the dimensions are {', '.join(DIMENSIONS)}"
        )
    bad = next((name for name, w in weights.items() if not (math.isfinite(w) and 0 <= w <= 1)), None)
    if bad is not None:
        raise SettingsError(f"the fitness weight of {bad} is {weights[bad]}; give a number from 0 to 1")
    total = math.fsum(weights.values())
    if abs(total - 1.0) > _SUM_TOLERANCE:
        raise SettingsError(
            f"the fitness weights sum to {total:.6g}, they must sum to 1; "
            "change [self_evolution.fitness.weights] so that they do"
        )


def _check_curve(unit: str, target: float, ceiling: float) -> None:
    if not (math.isfinite(ceiling) and 0 < target < ceiling):
        raise SettingsError(
            f"target_{unit} is {target} and ceiling_{unit} is {ceiling}; "
            "give a target above 0 and a ceiling above the target"
        )
