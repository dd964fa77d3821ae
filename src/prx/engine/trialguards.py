"""Metrics that a change may not hurt: every dimension, and cost per session."""

from collections.abc import Mapping

import numpy as np

from prx.domain.answers import Answer, NotEnoughData, Passed
from prx.domain.experiments import Plan
from prx.domain.scores import DIMENSIONS
from prx.engine.trialdata import COST, TrialRows
from prx.engine.trialmetrics import Tables, guardrail_of, metric_tables
from prx.fitness.metrics import RATE
from prx.stats.anytime import Tally, exact_difference
from prx.stats.estimator import Composite, Floor, composite
from prx.stats.guardrails import Guardrail, gate
from prx.stats.unitsums import ArmTable, summed_by

_ONE_SIDED = 0.05
Results = Mapping[str, Composite | NotEnoughData]


def per_metric_results(rows: TrialRows, plan: Plan, tables: Tables) -> Results:
    """The difference in every metric that any session of the experiment has, and in every own guardrail."""
    floor = Floor(plan.min_sample_size, plan.min_units)
    found: dict[str, Composite | NotEnoughData] = {}
    for dimension in DIMENSIONS:
        if any(rows.control.known[dimension]) or any(rows.treatment.known[dimension]):
            found[dimension] = composite(*tables, weights={dimension: 1.0}, rho=plan.rho, floor=floor)
    if any(c > 0 for c in rows.control.scores[COST]):
        costs = rows.control.table((COST,), None), rows.treatment.table((COST,), None)
        found[COST] = composite(*costs, weights={COST: 1.0}, rho=plan.rho, floor=floor)
    for metric in plan.metrics:
        if metric.role == "guardrail":
            both = metric_tables(rows, metric)
            found[metric.name] = composite(*both, weights={metric.name: 1.0}, rho=plan.rho, floor=floor)
    return found


def shown_results(rows: TrialRows, plan: Plan) -> Results:
    """The difference in every own metric that guards nothing, for the record."""
    floor = Floor(plan.min_sample_size, plan.min_units)
    return {
        metric.name: composite(
            *metric_tables(rows, metric), weights={metric.name: 1.0}, rho=plan.rho, floor=floor
        )
        for metric in plan.metrics
        if metric.role != "guardrail"
    }


def guard_rules(plan: Plan) -> dict[str, Guardrail]:
    """Margins: fitness points for a dimension, a share of control for cost, an own metric's in its unit."""
    rules = {dimension: Guardrail(margin=plan.max_regression) for dimension in DIMENSIONS}
    rules[COST] = Guardrail(margin=plan.max_regression, better="lower", scale="relative")
    return rules | {m.name: guardrail_of(m) for m in plan.metrics if m.role == "guardrail"}


def guard_answers(results: Results, plan: Plan, rows: TrialRows, tables: Tables) -> dict[str, Answer]:
    """Whether each metric is shown to be non-inferior; see `prx.stats.guardrails.gate`.

    A dimension, or a rate, in which every unit of both arms scores the same has no spread to estimate;
    there the exact bound for scores in 0..1 answers, which needs none. A mean has no such bound.
    """
    rules = guard_rules(plan)
    answers = gate(results, rules)
    exact = dict.fromkeys(DIMENSIONS, tables)
    exact |= {metric.name: metric_tables(rows, metric) for metric in plan.metrics if metric.type == RATE}
    for name, answer in answers.items():
        if isinstance(answer, NotEnoughData) and isinstance(results[name], NotEnoughData) and name in exact:
            answers[name] = _exact(name, rules[name], plan.min_units, exact[name]) or answer
    return answers


def behavioural(plan: Plan) -> tuple[str, ...]:
    """Dimensions whose gaps an arm's own behaviour can cause.

    Judge sampling is a keyed hash, equal in both arms: relevance is not among them.
    """
    return tuple(d for d in plan.weights if d != "response_relevance")


def _exact(name: str, rule: Guardrail, min_units: float, tables: Tables) -> Answer | None:
    control, treatment = (_tally(table, name) for table in tables)
    if min(control.n, treatment.n) < min_units:
        return None
    bounds = exact_difference(control, treatment, alpha=2 * _ONE_SIDED)
    if isinstance(bounds, NotEnoughData):
        return None
    worst = bounds.low if rule.better == "higher" else -bounds.high
    if worst <= -rule.margin:
        return None
    return Passed(f"{name} changed by {bounds.low:+.4g} to {bounds.high:+.4g} (exact bound, no spread)")


def _tally(table: ArmTable, name: str) -> Tally:
    n = summed_by(table.unit, table.n[name], table.units)
    total = summed_by(table.unit, table.total[name], table.units)
    scored = n > 0
    means = np.clip(total[scored] / n[scored], 0.0, 1.0)
    return Tally(int(scored.sum()), float(means.sum()))
