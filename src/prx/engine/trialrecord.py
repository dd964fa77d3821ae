"""What the record of an experiment says: its frozen plan, its looks so far, its conclusion in words."""

import math

from prx.domain.errors import StoreError
from prx.domain.experiments import Experiment, FitnessScore, Plan
from prx.domain.scores import DIMENSIONS
from prx.engine.trialdata import ArmRows
from prx.engine.trialplan import design_of
from prx.stats import stopping
from prx.stats.conclusions import Conclusion, Inconclusive, Rules


def state_of(experiment: Experiment) -> stopping.State:
    """The sequential state, rebuilt from the stored looks."""
    plan = plan_of(experiment)
    looks = tuple(
        stopping.Look(
            hours=(look.at - experiment.created_at).total_seconds() / 3600,
            information=look.information or 0.0,
            fraction=look.fraction or 0.0,
            z=look.z or 0.0,
            upper_z=math.inf if look.bound is None else look.bound,
            alpha_spent=look.alpha_spent or 0.0,
            final=look.final,
        )
        for look in experiment.looks
        if look.is_look
    )
    hours = max(
        ((k.at - experiment.created_at).total_seconds() / 3600 for k in experiment.looks), default=0.0
    )
    return stopping.State(design_of(plan).plan_id, looks, hours, len(experiment.looks))


def plan_of(experiment: Experiment) -> Plan:
    """The frozen plan. Raises: StoreError for a record without one."""
    if experiment.plan is None:
        raise StoreError(f"experiment {experiment.experiment_id} has no plan; cancel it and create another")
    return experiment.plan


def arm_fitness(arm: ArmRows, plan: Plan) -> FitnessScore:
    """Aggregated fitness of one arm over the plan's dimensions, with every dimension's mean beside it."""
    names = (*DIMENSIONS, *(metric.name for metric in plan.metrics))
    dimensions = {d: m for d in names if (m := arm.mean(d)) is not None}
    have = {d: w for d, w in plan.weights.items() if d in dimensions}
    total = sum(have.values())
    value = sum(w * dimensions[d] for d, w in have.items()) / total if total else None
    coverage = {d: arm.coverage(d) for d in dimensions}
    return FitnessScore(value=value, sessions=arm.sessions, dimensions=dimensions, coverage=coverage)


def conclusion_word(conclusion: Conclusion) -> str:
    """Name under which a conclusion is stored: promote, harmful, keep_control, equivalent ..."""
    name = type(conclusion).__name__
    return {"KeepControl": "keep_control"}.get(name, name.lower())


def conclusion_reason(conclusion: Conclusion) -> str:
    """Why, in the words of the conclusion."""
    if isinstance(conclusion, Inconclusive):
        blocked = f" (blocked by {'; '.join(conclusion.blocked_by)})" if conclusion.blocked_by else ""
        return f"{conclusion.reason}{blocked}"
    return str(getattr(conclusion, "why", "") or getattr(conclusion, "reason", "") or "")


def conclusion_rules(plan: Plan) -> Rules:
    """What the plan fixed for concluding."""
    return Rules(
        delta=plan.delta,
        min_duration_hours=plan.min_duration_hours,
        default_duration_hours=plan.default_duration_hours,
        act_on_futility=plan.act_on_futility,
    )
