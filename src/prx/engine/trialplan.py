"""The plan of an experiment: everything frozen before the first session is assigned."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from prx.domain.answers import NotEnoughData
from prx.domain.experiments import Experiment, Plan
from prx.domain.scores import DIMENSIONS, OwnMetric
from prx.engine.preperiod import PrePeriod
from prx.settings import Settings
from prx.stats.dimensions import FrozenDimensions, choose_dimensions
from prx.stats.onlinefdr import AutomaticExperiment, promotion_level
from prx.stats.planning import Forecast, Traffic, forecast
from prx.stats.stopping import Design, design_by_power, design_by_sample

LIFTS = (0.02, 0.03, 0.04)
LEAST_COVERAGE = 0.25


def make_plan(
    settings: Settings,
    before: PrePeriod,
    *,
    confidence: float,
    token_targets: tuple[float, float] | None,
    fdr_alpha: float | None,
    aa: bool,
    salts: tuple[str, str],
    metrics: tuple[OwnMetric, ...] = (),
) -> Plan | NotEnoughData:
    """Freeze the design, the dimensions with their weights, the correlation, the salts and the forecast."""
    chosen = _tested(before, settings, metrics)
    if isinstance(chosen, NotEnoughData):
        return chosen
    given = settings.experiments
    if given.effect_scale == "relative" and before.mean <= 0:
        return NotEnoughData(f"the mean before is {before.mean:g}; a relative effect needs one above 0")
    delta = given.min_effect_size * (before.mean if given.effect_scale == "relative" else 1.0)
    design = _design(settings, delta, confidence)
    return Plan(
        traffic_split=given.traffic_split,
        ramp=given.ramp,
        confidence_level=confidence,
        min_effect_size=given.min_effect_size,
        effect_scale=given.effect_scale,
        min_sample_size=given.min_sample_size,
        min_units=given.min_units,
        default_duration_hours=given.default_duration_hours,
        min_duration_hours=given.min_duration_hours,
        max_duration_hours=given.auto_converge.max_duration_hours,
        check_interval_hours=given.auto_converge.check_interval_hours,
        outcome_window_hours=given.outcome_window_hours,
        randomization_unit=given.randomization_unit,
        spending=given.spending,
        planned_sample=str(given.planned_sample),
        planned_looks=design.planned_looks,
        act_on_futility=given.act_on_futility,
        weights=dict(chosen.weights),
        reported=chosen.reported,
        rho=before.rho,
        max_regression=settings.safety.max_regression_threshold,
        ramp_salt=salts[0],
        variant_salt=salts[1],
        test=given.test,
        token_targets=token_targets,
        fdr_alpha=fdr_alpha,
        forecast=describe(forecast_for(design, settings, before, chosen), before),
        aa=aa,
        delta=delta,
        max_information=design.max_information,
        inflation=design.inflation,
        information_unit=design.unit,
        metrics=metrics,
    )


def _tested(
    before: PrePeriod, settings: Settings, metrics: tuple[OwnMetric, ...]
) -> FrozenDimensions | NotEnoughData:
    """The dimensions of the composite, or the primary metric alone."""
    primary = next((metric for metric in metrics if metric.role == "primary"), None)
    if primary is None:
        return choose_dimensions(before.coverage, settings.fitness.weights.as_dict())
    covered = before.coverage.get(primary.name, 0.0)
    if covered < LEAST_COVERAGE:
        return NotEnoughData(
            f"the primary metric {primary.name} is known of {covered:.0%} of the sessions before, "
            f"{LEAST_COVERAGE:.0%} needed"
        )
    return FrozenDimensions({primary.name: 1.0}, DIMENSIONS)


def design_of(plan: Plan) -> Design:
    """The running design that the plan froze."""
    return Design(
        max_information=plan.max_information,
        delta=plan.delta,
        alpha=round(1.0 - plan.confidence_level, 12),
        spending=plan.spending,
        planned_looks=plan.planned_looks,
        inflation=plan.inflation,
        unit="sessions_per_arm" if plan.information_unit == "sessions_per_arm" else "inverse_variance",
        act_on_futility=plan.act_on_futility,
    )


def forecast_for(
    design: Design, settings: Settings, before: PrePeriod, chosen: FrozenDimensions
) -> Forecast | NotEnoughData:
    """What the design can be expected to find with the traffic of the pre-period."""
    if before.sd <= 0:
        return NotEnoughData("all sessions before score the same; nothing can be forecast")
    given = settings.experiments
    covered = sum(weight * before.coverage.get(d, 0.0) for d, weight in chosen.weights.items())
    traffic = Traffic(
        sessions_per_hour=before.sessions_per_hour,
        sd=before.sd,
        icc=min(before.rho, 0.99),
        sessions_per_unit=before.sessions_per_unit,
        split=given.traffic_split,
        ramp=given.ramp,
        coverage=min(1.0, max(covered, 0.01)),
    )
    return forecast(
        design,
        traffic,
        min_sample_size=given.min_sample_size,
        default_duration_hours=given.default_duration_hours,
        max_duration_hours=given.auto_converge.max_duration_hours,
        check_interval_hours=given.auto_converge.check_interval_hours,
        outcome_window_hours=given.outcome_window_hours,
        lifts=tuple(lift / 0.02 * design.delta for lift in LIFTS) if _own(chosen) else LIFTS,
    )


def _own(chosen: FrozenDimensions) -> bool:
    """Whether an own metric is tested: its lifts are multiples of the smallest effect, in its unit."""
    return not set(chosen.weights) & set(DIMENSIONS)


def describe(result: Forecast | NotEnoughData, before: PrePeriod) -> dict[str, Any]:
    """The forecast as plain values, for the record, the command line and JSON."""
    basis = {
        "sessions": before.sessions,
        "units": before.units,
        "sessions_per_hour": before.sessions_per_hour,
        "sd": before.sd,
        "rho": before.rho,
        "rho_measured": before.rho_measured,
    }
    if isinstance(result, NotEnoughData):
        return {"not_enough_data": result.why, "pre_period": basis}
    found = asdict(result)
    chances = result.chances
    found["chances"] = (
        {"not_enough_data": chances.why}
        if isinstance(chances, NotEnoughData)
        else [asdict(chance) for chance in chances]
    )
    smallest = result.smallest_effect_at_minimum
    found["smallest_effect_at_minimum"] = None if isinstance(smallest, NotEnoughData) else smallest
    hours = result.hours_to_maximum
    found["hours_to_maximum"] = None if hours == float("inf") else hours
    return {**found, "pre_period": basis}


def fdr_level(earlier: Sequence[Experiment], *, alpha: float, q: float) -> float:
    """Level at which the next experiment may promote unattended, after all automatic ones before it."""
    started = [
        AutomaticExperiment(
            level=past.plan.fdr_alpha,
            p_upper=past.state.get("p_upper") if past.converged_at is not None else None,
        )
        for past in earlier
        if past.plan is not None and past.plan.fdr_alpha is not None
    ]
    return promotion_level(started, alpha=alpha, q=q)


def now_in_hours(experiment: Experiment, now: datetime) -> float:
    """Age of an experiment in hours."""
    return (now - experiment.created_at).total_seconds() / 3600


def _design(settings: Settings, delta: float, confidence: float) -> Design:
    given = settings.experiments
    alpha = round(1.0 - confidence, 12)
    if given.planned_sample != "power":
        return design_by_sample(int(float(given.planned_sample)), delta, alpha=alpha, spending=given.spending)
    looks = max(1, int(given.auto_converge.max_duration_hours // given.auto_converge.check_interval_hours))
    return design_by_power(
        delta,
        alpha=alpha,
        spending=given.spending,
        planned_looks=looks,
        act_on_futility=given.act_on_futility,
    )
