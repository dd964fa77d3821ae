"""One look at an experiment: from session scores to a conclusion, every number kept."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import msgspec

from prx.domain.answers import Answer, Failed, Interval, NotEnoughData, Passed
from prx.domain.experiments import Experiment, FitnessScore, Look, Plan
from prx.engine.trialdata import TrialRows
from prx.engine.trialdetails import answer_words, dimension_details, missing_details, rank_details
from prx.engine.trialguards import (
    behavioural,
    guard_answers,
    guard_rules,
    per_metric_results,
    shown_results,
)
from prx.engine.trialmetrics import Tested, dimension_tables, tested, worst_case
from prx.engine.trialplan import design_of
from prx.engine.trialrecord import (
    arm_fitness,
    conclusion_reason,
    conclusion_rules,
    conclusion_word,
    plan_of,
    state_of,
)
from prx.engine.trialvalid import losses
from prx.engine.trialvalid import validity as checked
from prx.engine.trialvariety import variety_answer
from prx.stats import stopping
from prx.stats.conclusions import Conclusion, Evidence, conclude, rank_test_needed
from prx.stats.estimator import Composite, Floor, composite
from prx.stats.guardrails import harm
from prx.stats.inference import Inference, futility_z, infer
from prx.stats.missing import MissingBound
from prx.stats.twosample import brunner_munzel
from prx.stats.unitsums import Floats
from prx.stats.unitvalues import blinded_skewness, unit_deviations


@dataclass(frozen=True, slots=True)
class Looked:
    """The result of one tick: the look to store, what it concludes, and both arms' fitness."""

    look: Look
    conclusion: Conclusion
    control: FitnessScore
    treatment: FitnessScore
    p_upper: float | None


def take_look(experiment: Experiment, rows: TrialRows, now: datetime) -> Looked:
    """Evaluate all closed sessions so far. The plan is read from the experiment, never from settings."""
    tick = _Tick.of(experiment, rows, now)
    if not rows.control.sessions or not rows.treatment.sessions:
        return tick.undecided(NotEnoughData("an arm has no closed session yet"))
    plan = tick.plan
    what = tested(rows, plan)
    guarded = per_metric_results(rows, plan, dimension_tables(rows))
    tripped = tuple(harm(guarded, guard_rules(plan)).values())
    floor = Floor(plan.min_sample_size, plan.min_units)
    found = composite(*what.tables, weights=plan.weights, rho=plan.rho, floor=floor)
    if isinstance(found, NotEnoughData):
        return tick.undecided(found, tripped)
    return _measured(replace(tick, look=_numbers(tick.look, found, what)), what, found, guarded, tripped)


@dataclass(frozen=True, slots=True)
class _Tick:
    """What is known before the statistics: the plan, the age, validity, both arms' fitness."""

    experiment: Experiment
    plan: Plan
    rows: TrialRows
    hours: float
    last: bool
    look: Look
    validity: tuple[Answer, ...]
    arms: tuple[FitnessScore, FitnessScore]
    counts: dict[str, Any]

    @classmethod
    def of(cls, experiment: Experiment, rows: TrialRows, now: datetime) -> "_Tick":
        plan = plan_of(experiment)
        hours = (now - experiment.created_at).total_seconds() / 3600
        last = hours >= plan.max_duration_hours
        look = Look(
            number=len(experiment.looks) + 1,
            at=now,
            control_sessions=rows.control.sessions,
            treatment_sessions=rows.treatment.sessions,
            is_look=False,
            final=last,
        )
        arms = (arm_fitness(rows.control, plan), arm_fitness(rows.treatment, plan))
        counts = {"units": list(rows.units()), **losses(rows)}
        return cls(experiment, plan, rows, hours, last, look, checked(experiment, rows), arms, counts)

    def undecided(self, why: NotEnoughData, tripped: tuple[Answer, ...] = ()) -> Looked:
        """A tick that is no look; validity and harm may still end the experiment."""
        evidence = Evidence(
            age_hours=self.hours,
            interval=why,
            median_unbiased=why,
            missingness_bound=why,
            validity=self.validity,
            guardrails=(),
            harm=tripped,
            ending="max_duration" if self.last else None,
        )
        conclusion = conclude(evidence, conclusion_rules(self.plan))
        shown = {
            **self.counts,
            "validity": [answer_words(a) for a in self.validity],
            "harm": [answer_words(a) for a in tripped],
        }
        look = msgspec.structs.replace(
            self.look, note=why.why, conclusion=conclusion_word(conclusion), extra=shown
        )
        return Looked(look, conclusion, *self.arms, None)


def _measured(
    tick: _Tick,
    what: Tested,
    found: Composite,
    guarded: Mapping[str, Composite | NotEnoughData],
    tripped: tuple[Answer, ...],
) -> Looked:
    plan, rows = tick.plan, tick.rows
    values = unit_deviations(*what.tables, weights=plan.weights)
    varied = variety_answer(plan, values)
    if isinstance(varied, NotEnoughData):
        return tick.undecided(varied, tripped)
    design, state = design_of(plan), state_of(tick.experiment)
    by_sample = plan.information_unit == "sessions_per_arm"
    smaller = min(rows.control.sessions, rows.treatment.sessions)
    information = float(smaller) if by_sample else found.information
    after = stopping.look(design, state, information, found.z, hours=tick.hours, final=tick.last)
    if len(after.looks) == len(state.looks):
        return tick.undecided(NotEnoughData(after.note), tripped)
    taken = after.looks[-1]
    read = infer(design, after, estimate=found.delta, standard_error=found.se, df=found.df)
    hidden = worst_case(found, what, plan, behavioural(plan))
    guards = guard_answers(guarded, plan, rows, dimension_tables(rows))
    planned = plan.max_information if by_sample else plan.max_information / found.information * smaller
    evidence = Evidence(
        age_hours=tick.hours,
        interval=read.interval if isinstance(read, Inference) else read,
        median_unbiased=read.median_unbiased if isinstance(read, Inference) else read,
        missingness_bound=_worst_case(hidden, taken.upper_z),
        validity=tick.validity,
        guardrails=tuple(guards.values()),
        harm=tripped,
        rank_test=_rank_answer(plan, values, planned),
        futile=found.z <= futility_z(design, after, standard_error=found.se),
        ending=("max_duration" if tick.last else "max_information") if taken.final else None,
    )
    conclusion = conclude(evidence, conclusion_rules(plan))
    shown = {
        **_shown(tick, found, guards, evidence),
        "dimensions": dimension_details(
            {**guarded, **shown_results(rows, plan)},
            design,
            after.looks,
            [k.extra.get("dimensions", {}) for k in tick.experiment.looks if k.is_look],
        ),
        "missing_bound": missing_details(hidden, taken.upper_z),
        **_effects(what, found, values),
        "winner": conclusion.winner,
    }
    look = _with_inference(tick.look, taken, read, conclusion, shown)
    return Looked(look, conclusion, *tick.arms, read.p_upper if isinstance(read, Inference) else None)


def _shown(tick: _Tick, found: Composite, guards: Mapping[str, Answer], evidence: Evidence) -> dict[str, Any]:
    """What a look keeps of the answers beside the composite's own numbers."""
    plan, rank = tick.plan, evidence.rank_test
    return {
        **tick.counts,
        "guardrails": {name: answer_words(a) for name, a in guards.items()},
        "harm": [answer_words(a) for a in evidence.harm],
        "validity": [answer_words(a) for a in evidence.validity],
        "rank_test": None if rank is None else answer_words(rank),
        "effective_units": [found.control.effective_units, found.treatment.effective_units],
        "futile": evidence.futile,
        "primary": None if plan.primary is None else msgspec.to_builtins(plan.primary),
    }


def _effects(what: Tested, found: Composite, values: tuple[Floats, Floats]) -> dict[str, Any]:
    """Effect sizes; a share of a turned mean would have the wrong sign, the difference is the improvement."""
    shown = rank_details(found, values)
    if what.sign < 0:
        shown = {
            **shown,
            "effects": {name: size for name, size in shown["effects"].items() if name != "relative"},
        }
    return shown


def _worst_case(hidden: MissingBound | NotEnoughData, bound_z: float) -> float | NotEnoughData:
    """Lower bound of the lift when every missing session is read against the treatment.

    The point value alone would let an equal agent that hides a fifth of its failures win four times in ten.
    """
    if isinstance(hidden, NotEnoughData):
        return hidden
    if math.isinf(bound_z):
        return NotEnoughData("this look cannot stop, so what missing sessions hide is not bounded yet")
    return hidden.lower(bound_z)


def _rank_answer(plan: Plan, values: tuple[Floats, Floats], planned: float) -> Answer | None:
    if plan.test != "auto":
        return None
    skew = blinded_skewness(*values)
    if isinstance(skew, NotEnoughData):
        return skew
    if not rank_test_needed(
        planned_per_arm=max(planned, 1.0), blinded_skewness=skew, traffic_split=plan.traffic_split
    ):
        return None
    ranks = brunner_munzel(*values)
    if isinstance(ranks, NotEnoughData):
        return ranks
    said = f"Brunner-Munzel p {ranks.p_value:.4f}, superiority {ranks.estimate:.3f}"
    if ranks.p_value <= 1.0 - plan.confidence_level and ranks.estimate > 0.5:
        return Passed(said)
    return Failed(f"{said}: the mean test alone does not promote skewed scores", "rank")


def _numbers(base: Look, found: Composite, what: Tested) -> Look:
    return msgspec.structs.replace(
        base,
        control_mean=what.sign * found.control.mean,
        treatment_mean=what.sign * found.treatment.mean,
        difference=found.delta,
        se=found.se,
        df=found.df,
        z=found.z,
        p_naive=found.p_value,
    )


def _with_inference(
    look: Look,
    taken: stopping.Look,
    read: Inference | NotEnoughData,
    conclusion: Conclusion,
    extra: dict[str, Any],
) -> Look:
    known: dict[str, Any] = {}
    if isinstance(read, Inference):
        known = {"p_value": read.p_value, "median_unbiased": read.median_unbiased}
        if isinstance(read.interval, Interval):
            known |= {"low": read.interval.low, "high": read.interval.high}
        extra = {
            **extra,
            "p_upper": read.p_upper,
            "p_stagewise": read.p_stagewise,
            "stagewise_low": read.stagewise_interval.low,
            "stagewise_high": read.stagewise_interval.high,
        }
    return msgspec.structs.replace(
        look,
        is_look=True,
        final=taken.final,
        information=taken.information,
        fraction=taken.fraction,
        bound=None if math.isinf(taken.upper_z) else taken.upper_z,
        alpha_spent=taken.alpha_spent,
        conclusion=conclusion_word(conclusion),
        note=conclusion_reason(conclusion),
        extra=extra,
        **known,
    )
