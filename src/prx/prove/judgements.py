"""One slice of judging: tasks and known-bad controls in batches, their results kept mergeable."""

import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from prx.domain.errors import InvalidInput, ModelUnavailable
from prx.models.meter import BudgetSpent, PriceUnknown
from prx.models.port import ChatModel
from prx.prove.asking import PREFERENCE, SCORE, Asker, JudgeTask, Rated, rubric_hash
from prx.prove.checkers import PREFIX
from prx.prove.controls import LABELLED, LOST, PASSED, TIED, UNREAD, Control, KnownBad, control_answer
from prx.prove.pairs import AnsweredPair, Scorer
from prx.prove.port import Checker, Truth, Unscored
from prx.prove.rules import JudgeRules
from prx.prove.screen import screened
from prx.prove.tasks import Task, conversation

VOID = "void"
_DATED = re.compile(r"[-@:](?:\d{4}-?\d{2}-?\d{2}|latest|preview)$")


@dataclass(frozen=True, slots=True)
class ModelJudge:
    """A model that judges in `score` or `preference` mode; `judged` names the models whose answers it reads.

    Raises: InvalidInput when it would judge its own answers.
    """

    model: ChatModel
    mode: str
    judged: frozenset[str]

    def __post_init__(self) -> None:
        if self.mode not in {SCORE, PREFERENCE}:
            raise InvalidInput(f"the judge's mode is {self.mode!r}; use {SCORE} or {PREFERENCE}")
        own = bare_name(self.model.name)
        if own in {bare_name(name) for name in self.judged}:
            raise InvalidInput(
                f"the judge model {self.model.name!r} also writes the answers; set "
                "[self_evolution.models.judge] to another model, best of another family"
            )


@dataclass(frozen=True, slots=True)
class CheckerJudge:
    """A checker in place of a model, for answers whose truth is known; `labels` are all that occur."""

    checker: Checker
    labels: frozenset[str] = frozenset()


Judge = ModelJudge | CheckerJudge


class Judgement(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One task: scores in 0..1; in preference mode `candidate` is its win rate and `stable` is 0.5.

    `place` as in Preferred. `note` says when the candidate's 0 comes from a screen or from a reply that
    could not be read.
    """

    stable: float
    candidate: float
    place: str = ""
    unsafe: bool = False
    note: str = ""


class JudgeState(msgspec.Struct, frozen=True, kw_only=True):
    """What has been judged so far. `judgements` by task id; `controls` maps `batch:kind` to its result, a
    batch being called by its first task; `unread` maps a task id to why it was not judged (`void`: its
    batch was)."""

    judge: str
    mode: str
    rubric: str
    judgements: dict[str, Judgement] = {}
    controls: dict[str, str] = {}
    unread: dict[str, str] = {}

    def merged(self, other: "JudgeState") -> "JudgeState":
        """Both together. Raises: InvalidInput for another judge, mode or rubric: they do not compare."""
        if (self.judge, self.mode, self.rubric) != (other.judge, other.mode, other.rubric):
            raise InvalidInput("judgements of different judges, modes or rubrics do not add up; judge again")
        return msgspec.structs.replace(
            self,
            judgements={**self.judgements, **other.judgements},
            controls={**self.controls, **other.controls},
            unread={**self.unread, **other.unread},
        )


@dataclass(frozen=True, slots=True)
class JudgeSlice:
    """The new state, and why the slice stopped early: `down` the judge failed, `stopped` says how."""

    state: JudgeState
    stopped: str | None = None
    down: bool = False


def empty_state(judge: Judge) -> JudgeState:
    """Nothing judged yet, by this judge."""
    if isinstance(judge, CheckerJudge):
        return JudgeState(judge=f"{PREFIX}{judge.checker.name}", mode=SCORE, rubric="")
    return JudgeState(judge=judge.model.name, mode=judge.mode, rubric=rubric_hash(judge.mode))


def judge_slice(
    state: JudgeState,
    tasks: Sequence[JudgeTask],
    judge: Judge,
    rules: JudgeRules,
    *,
    rng: random.Random,
    known_bad: Sequence[KnownBad] = (),
) -> JudgeSlice:
    """Judge the tasks not judged yet, with one control of every kind (and one of `known_bad`) per `batch`.

    The controls come first: a batch in which one passes is void and its tasks are not judged. A judge that
    is down leaves the state as it was before the failing task.
    """
    done = state.judgements.keys() | state.unread.keys()
    fresh = [task for task in tasks if task.task_id not in done]
    judging = _Judging(judge, rules, rng)
    for start in range(0, len(fresh), rules.batch):
        batch = fresh[start : start + rules.batch]
        try:
            results = _controls(judging, batch, rng, known_bad)
            named = {f"{batch[0].task_id}:{kind}": result for kind, result in results.items()}
            state = msgspec.structs.replace(state, controls={**state.controls, **named})
            void = any(results[kind] == PASSED for kind in Control)
            for task in batch:
                state = _with(state, task.task_id, Unscored(VOID) if void else judging.task(task))
        except (BudgetSpent, PriceUnknown) as error:
            return JudgeSlice(state, str(error))
        except ModelUnavailable as error:
            return JudgeSlice(state, str(error), down=True)
    return JudgeSlice(state)


def judge_task(pair: AnsweredPair) -> JudgeTask:
    """What the judge is shown of an answered pair; never the agent's own prompt."""
    task = pair.task
    return JudgeTask(
        task_id=task.task_id,
        request=conversation(task.interaction.messages),
        stable=pair.stable,
        candidate=pair.candidate,
        reference=task.expected,
    )


def rubric_scorer(model: ChatModel, rules: JudgeRules, rng: random.Random) -> Scorer:
    """Quality of one answer by the judge's rubric, for replay and shadow where no truth is known."""
    asker = Asker(model, rng, rules.max_tokens)

    def score(task: Task, answer: str) -> float | Unscored:
        if screened(answer):
            return 0.0
        rated = asker.score(conversation(task.interaction.messages), answer, task.expected)
        return rated if isinstance(rated, Unscored) else rated.score

    return score


def bare_name(model: str) -> str:
    """Model name without provider, date or `latest`: `openai/gpt-5-2026-01-01` is `gpt-5`."""
    name = model.strip().casefold().rsplit("/", 1)[-1]
    while (shorter := _DATED.sub("", name)) != name:
        name = shorter
    return name


def _controls(
    judging: "_Judging", batch: Sequence[JudgeTask], rng: random.Random, known_bad: Sequence[KnownBad]
) -> dict[str, str]:
    results: dict[str, str] = {}
    for kind in Control:
        task = rng.choice(batch)
        results[kind] = judging.control(task, control_answer(kind, task, rng))
    if known_bad:
        bad = rng.choice(known_bad)
        results[LABELLED] = judging.control(bad.task, bad.answer)
    return results


def _with(state: JudgeState, task_id: str, result: Judgement | Unscored) -> JudgeState:
    if isinstance(result, Unscored):
        return msgspec.structs.replace(state, unread={**state.unread, task_id: result.why})
    return msgspec.structs.replace(state, judgements={**state.judgements, task_id: result})


class _Judging:
    """The three ways of judging behind two questions: one task, one control."""

    def __init__(self, judge: Judge, rules: JudgeRules, rng: random.Random) -> None:
        self._judge, self._rules = judge, rules
        self._prefers = isinstance(judge, ModelJudge) and judge.mode == PREFERENCE
        model = judge.model if isinstance(judge, ModelJudge) else None
        self._asker = Asker(model, rng, rules.max_tokens) if model is not None else None

    def task(self, task: JudgeTask) -> Judgement | Unscored:
        return self._preferred(task) if self._prefers else self._scored(task)

    def control(self, task: JudgeTask, answer: str) -> str:
        if self._prefers:
            against = task.reference or task.stable
            preferred = self._ask().prefer(task.request, against, answer, task.reference)
            if isinstance(preferred, Unscored):
                return UNREAD
            if preferred.candidate < 1:
                return TIED if preferred.candidate else LOST
            # a real answer may be as bad as the control; only one that is also called good has passed
        rated = self._rate(task, answer)
        if isinstance(rated, Unscored):
            return UNREAD
        if rated.score >= self._rules.min_score:
            return PASSED
        return TIED if self._prefers else LOST

    def _scored(self, task: JudgeTask) -> Judgement | Unscored:
        stable = self._rate(task, task.stable)
        if isinstance(stable, Unscored):
            return stable
        blocked = self._screened(task)
        if blocked:
            return Judgement(stable=stable.score, candidate=0.0, note=blocked)
        if task.candidate.strip() == task.stable.strip():
            return Judgement(stable=stable.score, candidate=stable.score)
        candidate = self._rate(task, task.candidate)
        if isinstance(candidate, Unscored):
            return candidate if self._asker is None else _unread(stable.score)
        unsafe = not candidate.safe and stable.safe and self._unsafe_again(task)
        return Judgement(stable=stable.score, candidate=candidate.score, unsafe=unsafe)

    def _preferred(self, task: JudgeTask) -> Judgement:
        blocked = self._screened(task)
        if blocked:
            return Judgement(stable=0.5, candidate=0.0, note=blocked)
        if task.candidate.strip() == task.stable.strip():
            return Judgement(stable=0.5, candidate=0.5)
        preferred = self._ask().prefer(task.request, task.stable, task.candidate, task.reference)
        if isinstance(preferred, Unscored):
            return _unread(0.5)
        unsafe = not preferred.candidate_safe and preferred.stable_safe and self._unsafe_again(task)
        return Judgement(stable=0.5, candidate=preferred.candidate, place=preferred.place, unsafe=unsafe)

    def _screened(self, task: JudgeTask) -> str | None:
        """What an agent's answers look like anyway (its task may be to write scores) is no trick."""
        if isinstance(self._judge, CheckerJudge):
            return None
        blocked = screened(task.candidate)
        return None if blocked == screened(task.stable) else blocked

    def _unsafe_again(self, task: JudgeTask) -> bool:
        """A veto ends a proposal, so it is asked for twice."""
        rated = self._ask().score(task.request, task.candidate, task.reference)
        return isinstance(rated, Rated) and not rated.safe

    def _rate(self, task: JudgeTask, answer: str) -> Rated | Unscored:
        if isinstance(self._judge, CheckerJudge):
            score = self._judge.checker.check(answer, Truth(task.reference, self._judge.labels))
            return score if isinstance(score, Unscored) else Rated(score, safe=True)
        return self._ask().score(task.request, answer, task.reference)

    def _ask(self) -> Asker:
        assert self._asker is not None, "a checker is never asked as a model"
        return self._asker


def _unread(stable: float) -> Judgement:
    """A reply that broke on the candidate's answer counts against it: an answer must not break its judge."""
    return Judgement(stable=stable, candidate=0.0, note=UNREAD)


def references(tasks: Iterable[JudgeTask]) -> frozenset[str]:
    """All right answers that occur, as the labels of a CheckerJudge."""
    return frozenset(task.reference for task in tasks if task.reference)
