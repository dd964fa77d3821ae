"""Offline proof of a prompt change on recorded traffic: replay, shadow run, judge."""

import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import msgspec

from prx.domain.answers import Broken, NotEnoughData
from prx.domain.changes import PromptPatch
from prx.domain.codec import content_hash
from prx.domain.errors import InvalidInput
from prx.domain.proposals import ProofStep, Proposal
from prx.domain.records import PRODUCTION
from prx.domain.versions import PromptSet, Version
from prx.engine.turn import Turn
from prx.live.prompts import render
from prx.models.port import ChatModel
from prx.prove.asking import SCORE
from prx.prove.checkers import find_checker
from prx.prove.judge import judge_verdict, refused
from prx.prove.judgements import (
    CheckerJudge,
    Judge,
    JudgeState,
    ModelJudge,
    empty_state,
    judge_slice,
    judge_task,
    rubric_scorer,
)
from prx.prove.pairs import PairState, Scorer, checker_scorer, collect_pairs
from prx.prove.rebuild import PromptSwap
from prx.prove.replay import replay_slice, replay_verdict
from prx.prove.rules import JudgeRules, ReplayRules, ShadowRules
from prx.prove.shadow import shadow_slice, shadow_verdict
from prx.prove.steps import OFFLINE, proof_step
from prx.prove.tasks import Task, tasks_from
from prx.settings import Settings

REPLAY_WINDOW = timedelta(days=7)


def replay_more(turn: Turn, proposal: Proposal) -> tuple[Proposal, ProofStep | None]:
    """Replay more recent successes; the step is None while more are to come."""
    agent, scorer = turn.context.models.agent, scorer_of(turn)
    assert agent is not None
    if scorer is None:
        return proposal, None
    rules = ReplayRules()
    state = _state(proposal, "replay", turn.now)
    tasks = _tasks(turn, turn.now - REPLAY_WINDOW)
    done = replay_slice(
        state, tasks, swap_of(turn, proposal), agent, rules, scorer=scorer, limit=rules.max_cases
    )
    verdict = replay_verdict(done.state, rules, turn.now, exhausted=done.stopped is None)
    return _keep(proposal, "replay", done.state), verdict


def shadow_more(turn: Turn, proposal: Proposal, *, exhausted: bool) -> tuple[Proposal, ProofStep]:
    """Run the candidate on inputs recorded since the shadow run began."""
    agent, scorer = turn.context.models.agent, scorer_of(turn)
    assert agent is not None
    given = turn.settings.shadow
    rules = ShadowRules(min_hours=given.min_hours, min_pairs=given.min_pairs)
    state = _state(proposal, "shadow", datetime.fromisoformat(proposal.work["shadow_since"]))
    tasks = _tasks(turn, state.started_at)
    done = shadow_slice(
        state, tasks, swap_of(turn, proposal), agent, rules, scorer=scorer, limit=rules.max_pairs
    )
    verdict = shadow_verdict(done.state, rules, turn.now, scored=scorer is not None, exhausted=exhausted)
    return _keep(proposal, "shadow", done.state), verdict


def judge_more(turn: Turn, proposal: Proposal, *, exhausted: bool) -> tuple[Proposal, ProofStep | None]:
    """Let the configured judge compare stable and candidate; None when no judge is configured."""
    agent = turn.context.models.agent
    assert agent is not None
    try:
        by = _judge_of(turn, agent)
    except InvalidInput as error:
        return proposal, refused(error, turn.now)
    if by is None:
        return proposal, None
    rules = _judge_rules(turn.settings)
    since = datetime.fromisoformat(proposal.work["shadow_since"])
    kept: Any = proposal.work.get("judge")
    state = msgspec.convert(kept, JudgeState) if kept else empty_state(by)
    rng = random.Random(f"{turn.context.seed}/{proposal.proposal_id}/{len(state.judgements)}")
    while True:
        seen = dict.fromkeys((*state.judgements, *state.unread), "judged")
        room = min(max(rules.min_tasks - len(seen), rules.batch), rules.max_tasks - len(seen))
        pairs = collect_pairs(
            PairState(started_at=since, skipped=seen),
            _tasks(turn, since),
            swap_of(turn, proposal),
            agent,
            ShadowRules().run,
            limit=max(0, room),
        )
        done = judge_slice(state, [judge_task(pair) for pair in pairs.answered], by, rules, rng=rng)
        state = done.state
        out = len(pairs.answered) < room or len(state.judgements) + len(state.unread) >= rules.max_tasks
        stopped = done.stopped or pairs.stopped
        if stopped is not None:
            answer = Broken(f"the judge did not answer: {stopped}") if done.down else NotEnoughData(stopped)
            step = proof_step("judge", answer, turn.now, evidence=OFFLINE)
        else:
            step = judge_verdict(state, rules, turn.now, exhausted=out and exhausted)
        if step.answer != "not_enough_data" or out or stopped is not None:
            work = {**proposal.work, "judge": msgspec.to_builtins(state)}
            return msgspec.structs.replace(proposal, work=work), step


def scorer_of(turn: Turn) -> Scorer | None:
    """How one answer is scored: by the configured checker, else by the judge model, else not at all."""
    name = turn.settings.models.judge.checker
    if name:
        return checker_scorer(find_checker(name, turn.context.checkers))
    if turn.context.models.judge is not None:
        rng = random.Random(turn.context.seed)
        return rubric_scorer(turn.context.models.judge, _judge_rules(turn.settings), rng)
    return None


def _judge_of(turn: Turn, agent: ChatModel) -> Judge | None:
    """Raises: InvalidInput when the judge would read its own answers."""
    name, model = turn.settings.models.judge.checker, turn.context.models.judge
    if name:
        return CheckerJudge(find_checker(name, turn.context.checkers))
    return None if model is None else ModelJudge(model, SCORE, frozenset({agent.name}))


def _judge_rules(settings: Settings) -> JudgeRules:
    given = settings.judge
    return JudgeRules(
        min_score=given.min_score,
        margin=given.non_inferiority_margin,
        min_tasks=given.min_tasks,
        max_tasks=given.max_tasks,
    )


def swap_of(turn: Turn, proposal: Proposal) -> PromptSwap:
    """The prompt's stable and candidate text, and every text that recorded calls may have been served."""
    change = proposal.change
    assert isinstance(change, PromptPatch)
    with turn.view() as view:
        stable, candidate = view.part(proposal.base), view.part(proposal.treated)
        assert isinstance(stable, PromptSet)
        assert isinstance(candidate, PromptSet)
        earlier: dict[str, str] = {}
        for version in view.find(Version, agent=proposal.agent):
            part = view.part(version.manifest.prompt)
            if isinstance(part, PromptSet) and change.prompt in part.texts:
                earlier[content_hash(part.texts[change.prompt])] = part.texts[change.prompt]
    return PromptSwap(
        name=change.prompt,
        stable=stable.texts[change.prompt],
        candidate=candidate.texts[change.prompt],
        earlier=earlier,
        render=render,
    )


def _tasks(turn: Turn, since: datetime) -> Iterator[Task]:
    traces = turn.context.records.traces(
        agent=turn.agent, env=PRODUCTION, since=since, until=turn.now, newest_first=True
    )
    for task in tasks_from(traces):
        # an answer that people accepted is the truth of its task
        known = task.expected is not None or not task.success
        yield task if known else replace(task, expected=task.recorded)


def _state(proposal: Proposal, name: str, started: datetime) -> PairState:
    kept: Any = proposal.work.get(name)
    return msgspec.convert(kept, PairState) if kept else PairState(started_at=started)


def _keep(proposal: Proposal, name: str, state: PairState) -> Proposal:
    work = {**proposal.work, name: msgspec.to_builtins(state)}
    return msgspec.structs.replace(proposal, work=work)
