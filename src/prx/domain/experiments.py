"""Experiments: the record of the source documents, the frozen plan and every look."""

from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec

from prx.domain.layers import Layer
from prx.domain.scores import OwnMetric
from prx.domain.versions import Manifest

CONTROL = "control"
TREATMENT = "treatment"


class ExperimentStatus(StrEnum):
    """`evaluating`: stopped, waiting for late feedback."""

    RUNNING = "running"
    EVALUATING = "evaluating"
    CONVERGED = "converged"
    CANCELLED = "cancelled"


class Variant(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One arm: the version it serves and what that is in words."""

    name: str
    description: str
    manifest: Manifest
    version: str | None = None


class FitnessScore(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Aggregated fitness of one arm; `value` None means not enough data."""

    value: float | None = None
    sessions: int = 0
    dimensions: dict[str, float] = {}
    coverage: dict[str, float] = {}


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is fixed before the first session is assigned.

    `delta` is the smallest effect of interest in absolute fitness points, whatever `effect_scale` says;
    `max_information` is in 1 / points^2, or in sessions per arm where the sample was given as a number;
    `weights` are those of the dimensions in the composite, `reported` the dimensions left out of it.
    `metrics` are the own metrics as they were defined; with a primary one among them `weights` names it
    alone, and `delta` is in its unit.
    """

    traffic_split: float
    ramp: float
    confidence_level: float
    min_effect_size: float
    effect_scale: str
    min_sample_size: int
    min_units: float
    default_duration_hours: float
    min_duration_hours: float
    max_duration_hours: float
    check_interval_hours: float
    outcome_window_hours: float
    randomization_unit: str
    spending: str
    planned_sample: str
    planned_looks: int
    act_on_futility: bool
    weights: dict[str, float]
    rho: float
    max_regression: float
    ramp_salt: str
    variant_salt: str
    test: str = "auto"
    token_targets: tuple[float, float] | None = None
    fdr_alpha: float | None = None
    forecast: dict[str, Any] = {}
    aa: bool = False
    delta: float = 0.02
    max_information: float = 0.0
    inflation: float = 1.0
    information_unit: str = "inverse_variance"
    reported: tuple[str, ...] = ()
    metrics: tuple[OwnMetric, ...] = ()

    @property
    def primary(self) -> OwnMetric | None:
        """The own metric that is tested; None where the composite is."""
        return next((metric for metric in self.metrics if metric.role == "primary"), None)


class Look(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One evaluation; numbers that a look could not compute are absent, `note` says why.

    Differences are improvements: where an own metric is tested of which less is better, above 0 is less.
    """

    number: int
    at: datetime
    control_sessions: int
    treatment_sessions: int
    is_look: bool = True
    final: bool = False
    control_mean: float | None = None
    treatment_mean: float | None = None
    difference: float | None = None
    se: float | None = None
    df: float | None = None
    z: float | None = None
    information: float | None = None
    fraction: float | None = None
    alpha_spent: float | None = None
    bound: float | None = None
    p_naive: float | None = None
    p_value: float | None = None
    low: float | None = None
    high: float | None = None
    median_unbiased: float | None = None
    conclusion: str = ""
    note: str = ""
    extra: dict[str, Any] = {}


class Experiment(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A live comparison. The first twelve fields are those of the source documents."""

    experiment_id: str
    decision_id: str
    layer: Layer
    status: ExperimentStatus
    created_at: datetime
    control: Variant
    treatment: Variant
    converged_at: datetime | None = None
    control_sessions: int = 0
    treatment_sessions: int = 0
    control_fitness: FitnessScore = FitnessScore()
    treatment_fitness: FitnessScore = FitnessScore()
    p_value: float | None = None
    winner: str | None = None
    agent: str = "default"
    proposal_id: str | None = None
    plan: Plan | None = None
    looks: tuple[Look, ...] = ()
    conclusion: str = ""
    reason: str = ""
    extended: bool = False
    next_look_at: datetime | None = None
    state: dict[str, Any] = {}
