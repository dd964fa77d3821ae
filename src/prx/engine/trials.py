"""Running experiments: looks when they are due, strata when other layers move."""

from datetime import datetime, timedelta
from functools import partial

import msgspec

from prx.domain.errors import InvalidInput
from prx.domain.experiments import Experiment, ExperimentStatus, Plan
from prx.domain.records import PRODUCTION
from prx.engine.admission import frozen_since
from prx.engine.attempt import attempt
from prx.engine.context import Context
from prx.engine.trialdata import collect
from prx.engine.trialend import converge
from prx.engine.triallook import Looked, take_look
from prx.engine.trialrecord import conclusion_reason, conclusion_word, plan_of
from prx.engine.trialstart import other_parts
from prx.engine.turn import Turn
from prx.engine.watching import freeze_baseline
from prx.release.applied import current
from prx.stats.conclusions import Conclusion, Harmful, Invalid, KeepControl, Promote


def tick_experiments(turn: Turn) -> None:
    """Look at every running experiment whose time has come."""
    with turn.view() as view:
        running = view.find(Experiment, agent=turn.agent, state=ExperimentStatus.RUNNING)
    for experiment in running:
        attempt(turn, "look", experiment.experiment_id, partial(_tick, turn, experiment))


def _tick(turn: Turn, experiment: Experiment) -> None:
    refreshed = _note_other_layers(turn, experiment)
    if refreshed.next_look_at is None or refreshed.next_look_at > turn.now:
        return
    with turn.view() as view:
        frozen = frozen_since(view, turn.agent)
    if frozen:
        turn.report.add("look", experiment.experiment_id, "not_enough_data", f"waits: {frozen}")
        return
    look_at(turn, refreshed)


def look_at(turn: Turn, experiment: Experiment) -> Conclusion:
    """Take one look, store it, and act on its conclusion where the engine may."""
    now = turn.now
    looked = _look(turn.context, experiment, now)
    plan = plan_of(experiment)
    age = (now - experiment.created_at).total_seconds() / 3600
    stored = msgspec.structs.replace(
        experiment,
        looks=(*experiment.looks, looked.look),
        control_sessions=looked.look.control_sessions,
        treatment_sessions=looked.look.treatment_sessions,
        control_fitness=looked.control,
        treatment_fitness=looked.treatment,
        p_value=looked.look.p_value if looked.look.p_value is not None else experiment.p_value,
        conclusion=conclusion_word(looked.conclusion),
        reason=conclusion_reason(looked.conclusion),
        extended=age >= plan.default_duration_hours,
        next_look_at=_next_look(experiment, plan, now),
        state={**experiment.state, **({} if looked.p_upper is None else {"p_upper": looked.p_upper})},
    )
    acts = looked.conclusion.ends and (
        turn.settings.experiments.auto_converge.enabled or isinstance(looked.conclusion, Invalid | Harmful)
    )
    baseline = freeze_baseline(turn.context, turn.agent, turn.now) if acts else None
    with turn.transaction() as tx:
        tx.put(stored)
        tx.audit(
            "experiment.look",
            experiment.experiment_id,
            {"number": looked.look.number, "conclusion": stored.conclusion, "reason": stored.reason},
        )
        if acts:
            converge(tx, turn.context, stored, looked.conclusion, baseline=baseline)
    answer = {Promote: "pass", Harmful: "fail", KeepControl: "fail", Invalid: "error"}.get(
        type(looked.conclusion), "not_enough_data"
    )
    turn.report.add("look", experiment.experiment_id, answer, f"{stored.conclusion} {stored.reason}".strip())
    return looked.conclusion


def conclude_by_hand(context: Context, experiment: Experiment, now: datetime) -> Looked:
    """The conclusion of the newest data, for a person who converges.

    Raises: InvalidInput while it is open.
    """
    looked = _look(context, experiment, now)
    if not looked.conclusion.ends:
        raise InvalidInput(
            f"experiment {experiment.experiment_id} is still open ({conclusion_reason(looked.conclusion)}); "
            "let it run, or cancel it with `prx evolution experiments cancel`"
        )
    return looked


def _look(context: Context, experiment: Experiment, now: datetime) -> Looked:
    scores = context.records.scores(
        agent=experiment.agent,
        env=PRODUCTION,
        since=experiment.created_at,
        experiment_id=experiment.experiment_id,
        closed_only=True,
    )
    strata = tuple(datetime.fromisoformat(text) for text in experiment.state.get("strata", ()))
    metrics = tuple(metric.name for metric in plan_of(experiment).metrics)
    return take_look(experiment, collect(scores, experiment.experiment_id, strata, metrics), now)


def _note_other_layers(turn: Turn, experiment: Experiment) -> Experiment:
    """Open a stratum when another layer moved under both arms."""
    with turn.view() as view:
        manifest = current(view, experiment.agent).manifest
    others = other_parts(manifest, experiment.layer)
    if others == experiment.state.get("others"):
        return experiment
    strata = [*experiment.state.get("strata", []), turn.now.isoformat()]
    control = msgspec.structs.replace(experiment.control, manifest=manifest)
    treated = experiment.treatment.manifest.part(experiment.layer)
    treatment = msgspec.structs.replace(
        experiment.treatment, manifest=manifest.with_part(experiment.layer, treated)
    )
    moved = msgspec.structs.replace(
        experiment,
        control=control,
        treatment=treatment,
        state={**experiment.state, "others": others, "strata": strata},
    )
    with turn.transaction() as tx:
        tx.put(moved)
        tx.audit("experiment.rebased", experiment.experiment_id, {"others": others})
    return moved


def _next_look(experiment: Experiment, plan: Plan, now: datetime) -> datetime:
    every = timedelta(hours=plan.check_interval_hours)
    planned = experiment.next_look_at or now
    end = experiment.created_at + timedelta(hours=plan.max_duration_hours)
    following = planned + every * (max(0, (now - planned) // every) + 1)
    return min(following, end) if now < end else following
