"""The frozen plan of an experiment, and what it was expected to find, as text."""

from collections.abc import Mapping, Sequence
from typing import Any

from prx.cli.output import blocks, pairs
from prx.cli.text.words import (
    number,
    percent,
    titled,
)
from prx.domain.experiments import Plan


def plan_text(plan: Plan | None, width: int | None) -> str:
    """The frozen plan."""
    if plan is None:
        return ""
    scale = "fitness points" if plan.effect_scale == "absolute" else "of the control's fitness"
    rows = (
        (
            "Traffic",
            f"{percent(plan.ramp)} takes part, {percent(plan.traffic_split)} of it gets the treatment",
        ),
        ("Assigned by", plan.randomization_unit),
        (
            "Smallest effect",
            f"{plan.min_effect_size:g} {scale} at {percent(plan.confidence_level)} confidence",
        ),
        (
            "Planned sample",
            f"{plan.planned_sample}, {plan.planned_looks} looks, alpha spent by {plan.spending}",
        ),
        ("First look", f"{plan.min_sample_size} sessions and {plan.min_units:g} effective units per arm"),
        (
            "Hours",
            f"{plan.default_duration_hours:g} planned, {plan.min_duration_hours:g} to "
            f"{plan.max_duration_hours:g}, a look every {plan.check_interval_hours:g}, "
            f"outcomes read {plan.outcome_window_hours:g} after a session's end",
        ),
        ("Weights", ", ".join(f"{name} {weight:.2f}" for name, weight in plan.weights.items())),
        ("Reported only", ", ".join(plan.reported)),
        ("Correlation", f"{plan.rho:.2f} within a unit"),
        ("Unattended", f"at p below {plan.fdr_alpha:.4f}" if plan.fdr_alpha is not None else ""),
        ("A/A", "both arms are equal" if plan.aa else ""),
    )
    return blocks(
        titled("Plan (frozen at creation)", pairs(rows, width)), forecast_text(plan.forecast, width)
    )


def forecast_text(forecast: Mapping[str, Any], width: int | None) -> str:
    """What the plan could find out, with the traffic seen before."""
    if not forecast:
        return ""
    if "not_enough_data" in forecast:
        return f"Forecast\nnot enough data: {forecast['not_enough_data']}"
    hours = forecast.get("hours_to_maximum")
    smallest = forecast.get("smallest_effect_at_minimum")
    rows = [
        ("Information", _reach(forecast)),
        ("Full information", "never at this traffic" if hours is None else f"after {number(hours, 0)} h"),
        ("Sessions at most", number(forecast.get("max_sessions"), 0)),
        ("Visible at minimum", f"{number(smallest)} fitness points" if smallest is not None else "unknown"),
    ]
    chances = forecast.get("chances")
    if isinstance(chances, Sequence) and not isinstance(chances, str):
        told = ", ".join(f"{percent(c['promote'])} at +{c['lift']:g}" for c in chances)
        rows.append(("P(promote)", told))
    if forecast.get("equivalence_sessions") is not None:
        rows.append(("Equivalence", f"shown after {number(forecast['equivalence_sessions'], 0)} sessions"))
    before = forecast.get("pre_period")
    if isinstance(before, Mapping):
        rows.append(("Reckoned from", _basis(before)))
    if forecast.get("worth_starting") is False:
        rows.append(("Start", "not by itself: less than 0.3 of the information can be reached in time"))
    return titled("Forecast", pairs(rows, width))


def _basis(before: Mapping[str, Any]) -> str:
    origin = "measured" if before.get("rho_measured") else "assumed"
    return (
        f"{number(before.get('sessions'), 0)} sessions of {number(before.get('units'), 0)} units, "
        f"{number(before.get('sessions_per_hour'), 1)} an hour, spread {number(before.get('sd'))}, "
        f"correlation within a unit {number(before.get('rho'), 2)} ({origin})"
    )


def _reach(forecast: Mapping[str, Any]) -> str:
    return (
        f"{percent(forecast.get('fraction_at_default'))} at the planned end, "
        f"{percent(forecast.get('fraction_at_maximum'))} at the latest end"
    )
