"""The strategy layer in the engine: proof of a change on logs, steps from logs, and what people set."""

from collections.abc import Iterator
from typing import Any

import msgspec

from prx.domain.answers import Answer, NotEnoughData, Passed
from prx.domain.changes import StrategyPatch
from prx.domain.experiments import Experiment, ExperimentStatus
from prx.domain.layers import Layer
from prx.domain.parameters import Family, family_of
from prx.domain.proposals import ProofStep, Proposal
from prx.domain.records import PRODUCTION
from prx.domain.versions import Strategy, Version, VersionSource
from prx.engine.filing import Filing, file_proposal
from prx.engine.offline import scorer_of
from prx.engine.strategylog import WINDOW, choices, log_for, seen
from prx.engine.turn import Turn
from prx.engine.watching import freeze_baseline
from prx.propose.describe import describe
from prx.propose.draft import Draft, PastChange
from prx.propose.fingerprint import fingerprint
from prx.propose.risk import risk_of
from prx.propose.strategylogs import strategy_drafts
from prx.prove.applying import TOOL_ON, value_at
from prx.prove.modelpairs import collect_model_pairs
from prx.prove.offpolicy import ScreenRules, screen
from prx.prove.pairs import PairState
from prx.prove.rules import ShadowRules
from prx.prove.shadow import shadow_verdict
from prx.prove.steps import OFFLINE, proof_step
from prx.prove.strategyreplay import (
    StrategyReplayRules,
    replay_concurrency,
    replay_threshold,
    replay_timeout,
    replay_tool_off,
)
from prx.prove.tasks import Task, tasks_from
from prx.release.applied import current
from prx.release.promote import new_version
from prx.release.stop import cancel_experiment

OFFPOLICY, REPLAYED, PAIRED = "judge.offpolicy", "judge.replay", "judge.paired_models"
_ROUTED = (Family.ROUTER, Family.DEFAULT_MODEL, Family.EXPLORE)


def prove_strategy(turn: Turn, proposal: Proposal) -> tuple[Proposal, ProofStep]:
    """The offline proof of a strategy change, in place of shadow run and judge; its name says which it was.

    Routing is screened off-policy on logged choices; where nothing was explored, a change of a default
    model is tried on both models instead, when endpoints of both are configured. Limits, tools and the
    Automix threshold are replayed on logged calls.
    """
    change = proposal.change
    assert isinstance(change, StrategyPatch)
    family = family_of(change.path)
    if _only_live(change):
        # the gate lets only a person do this
        asked = Passed(
            "no log can speak of what was off until now; a person asked for it, live data will tell"
        )
        return proposal, proof_step(REPLAYED, asked, turn.now, evidence="human")
    if family not in _ROUTED:
        answer, numbers = _replay(turn, change, family)
        return proposal, proof_step(REPLAYED, answer, turn.now, numbers=numbers, evidence=OFFLINE)
    stable, candidate = _parts(turn, proposal)
    answer, numbers = screen(list(choices(turn, stable, candidate)), ScreenRules())
    step = proof_step(OFFPOLICY, answer, turn.now, numbers=numbers, evidence=OFFLINE)
    if family is Family.DEFAULT_MODEL and step.answer == "not_enough_data":
        return _paired(turn, proposal, change, stable, step)
    return proposal, step


def log_drafts(turn: Turn, strategy: Strategy, past: tuple[PastChange, ...]) -> tuple[Draft, ...]:
    """Drafts that the logs of the last weeks call for by rule, at most one per parameter."""
    return strategy_drafts(log_for(seen(turn), strategy), strategy, past)


def propose_strategy(turn: Turn, path: str, new: float | str, actor: str) -> Proposal:
    """File a person's change of one parameter; it takes the same path as the engine's own.

    Raises: InvalidInput when there is no such parameter or the value does not fit it.
    """
    with turn.transaction(actor) as tx:
        part = tx.part(current(tx, turn.agent).manifest.strategy)
        assert isinstance(part, Strategy)
        change = StrategyPatch(path=path, old=value_at(part, path), new=new)
        return file_proposal(
            tx,
            Filing(
                agent=turn.agent,
                change=change,
                description=describe(change),
                rationale=f"proposed by {actor}",
                trigger="person",
                author=actor,
                fingerprint=fingerprint(change),
                risk=risk_of(change),
                data_points=turn.context.records.counts().get("sessions", 0),
            ),
        )


def adopt_strategy(turn: Turn, strategy: Strategy, actor: str) -> Version:
    """Serve an operator's own strategy at once, as a version of its own; an experiment on the layer ends.

    Raises: InvalidInput when the agent has no version yet.
    """
    baseline = freeze_baseline(turn.context, turn.agent, turn.now)
    running = (ExperimentStatus.RUNNING, ExperimentStatus.EVALUATING)
    with turn.transaction(actor) as tx:
        current(tx, turn.agent)
        for experiment in tx.find(Experiment, agent=turn.agent, layer=Layer.STRATEGY, state=running):
            why = f"{actor} set the strategy"
            cancel_experiment(tx, experiment, reason="baseline_changed", why=why)
        return new_version(
            tx,
            turn.agent,
            Layer.STRATEGY,
            strategy,
            source=VersionSource.OPERATOR,
            note=f"strategy set by {actor}",
            baseline=baseline,
        )


def _only_live(change: StrategyPatch) -> bool:
    """More exploration, or a tool switched on: there is nothing logged to prove them on."""
    if change.path == Family.EXPLORE:
        return float(change.new) > float(change.old or 0.0)
    return family_of(change.path) is Family.TOOL and change.new == TOOL_ON


def _replay(turn: Turn, change: StrategyPatch, family: Family | None) -> tuple[Answer, dict[str, Any]]:
    found, rules, key = seen(turn), StrategyReplayRules(), change.path.partition(".")[2]
    if family is Family.TIMEOUT:
        return replay_timeout(found.waits[key], float(change.new), rules)
    if family is Family.CONCURRENCY:
        present, new = int(change.old or 0), int(change.new)
        return replay_concurrency(found.calls[key], found.throttled[key], present, new, rules)
    if family is Family.TOOL:
        worked, total = found.tools[key]
        return replay_tool_off(worked, total, rules)
    if family is Family.AUTOMIX:
        return replay_threshold(found.cheap, float(change.old or 0.0), float(change.new), rules)
    return NotEnoughData(f"no proof of {change.path!r} is known"), {}


def _paired(
    turn: Turn, proposal: Proposal, change: StrategyPatch, stable: Strategy, screened: ProofStep
) -> tuple[Proposal, ProofStep]:
    intent, named = change.path.partition(".")[2], str(change.new)
    tasks = list(_tasks(turn, intent))
    served = stable.default_models.get(intent) or stable.default_models.get("default") or _usual(tasks)
    models = turn.context.models.served
    scorer = scorer_of(turn)
    missing = [name for name in (served, named) if name not in models]
    if missing or scorer is None:
        lacks = f"endpoints of {', '.join(map(repr, missing))}" if missing else "a judge or checker"
        why = f"{screened.why}; a paired run of both models would need {lacks}, or set explore"
        return proposal, msgspec.structs.replace(screened, why=why)
    judge = turn.context.models.judge
    if judge is not None and not turn.settings.models.judge.checker and judge.name in (served, named):
        answer = NotEnoughData(f"judge {judge.name} would read its own answers; configure another one")
        return proposal, proof_step(PAIRED, answer, turn.now, evidence=OFFLINE)
    rules = ShadowRules(min_hours=0.0, min_pairs=turn.settings.shadow.min_pairs)
    kept: Any = proposal.work.get("pairs")
    state = msgspec.convert(kept, PairState) if kept else PairState(started_at=turn.now)
    state, stopped = collect_model_pairs(
        state,
        tasks,
        models[served],
        models[named],
        rules.run,
        scorer=scorer,
        limit=rules.max_pairs - len(state.pairs),
    )
    step = shadow_verdict(state, rules, turn.now, scored=True, exhausted=stopped is None)
    step = msgspec.structs.replace(step, name=PAIRED, numbers={**step.numbers, "offpolicy": screened.why})
    if stopped is not None and step.answer == "not_enough_data":
        step = msgspec.structs.replace(step, why=f"{step.why}; {stopped}")
    work = {**proposal.work, "pairs": msgspec.to_builtins(state)}
    return msgspec.structs.replace(proposal, work=work), step


def _tasks(turn: Turn, intent: str) -> Iterator[Task]:
    traces = turn.context.records.traces(
        agent=turn.agent, env=PRODUCTION, since=turn.now - WINDOW, until=turn.now, newest_first=True
    )
    for task in tasks_from(traces):
        if task.interaction.intent == intent:
            known = task.expected is not None or not task.success
            # an answer that people accepted is the truth of its task
            yield task if known else Task(task.interaction, task.tools, task.recorded, task.success)


def _usual(tasks: list[Task]) -> str:
    names = [task.interaction.model for task in tasks]
    return max(sorted(set(names)), key=names.count, default="")


def _parts(turn: Turn, proposal: Proposal) -> tuple[Strategy, Strategy]:
    with turn.view() as view:
        stable, candidate = view.part(proposal.base), view.part(proposal.treated)
    assert isinstance(stable, Strategy)
    assert isinstance(candidate, Strategy)
    return stable, candidate
