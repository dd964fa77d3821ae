"""The stable and the candidate prompt run on the same recorded inputs, in slices that can be resumed."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

import msgspec

from prx.domain.codec import encode
from prx.domain.errors import ModelUnavailable
from prx.models.meter import BudgetSpent, PriceUnknown
from prx.models.port import ChatModel
from prx.prove.port import Checker, Truth, Unscored
from prx.prove.rebuild import NotReplayable, PromptSwap, rebuild
from prx.prove.rules import RunRules
from prx.prove.running import Diverged, Ran, run
from prx.prove.tasks import Task

Scorer = Callable[[Task, str], float | Unscored]
DIVERGED, NOT_REPLAYABLE, MODEL_ERROR = "diverged", "not_replayable", "model_error"
_TRIES = 3


class Sample(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Numbers of one answer: quality in 0..1, milliseconds, dollars, tokens; None where not known."""

    quality: float | None = None
    latency_ms: float | None = None
    cost_usd: float | None = None
    tokens: int | None = None


class PairNumbers(msgspec.Struct, frozen=True, kw_only=True):
    """One input, three answers: as recorded, by the stable prompt run again, by the candidate.

    `stable_differs`, `candidate_differs`: whether that answer's text differs from the recorded one.
    """

    recorded: Sample
    stable: Sample
    candidate: Sample
    stable_differs: bool
    candidate_differs: bool


class PairState(msgspec.Struct, frozen=True, kw_only=True):
    """What has been collected so far, small and mergeable; no text is kept.

    `pairs` by task id; `skipped` task id to reason; `errors` task id to failed tries.
    """

    started_at: datetime
    pairs: dict[str, PairNumbers] = {}
    skipped: dict[str, str] = {}
    errors: dict[str, int] = {}

    def merged(self, other: "PairState") -> "PairState":
        """Both together; the order of merging does not matter and merging twice changes nothing."""
        pairs = {**self.pairs, **other.pairs}
        for task_id in self.pairs.keys() & other.pairs.keys():
            pairs[task_id] = min(self.pairs[task_id], other.pairs[task_id], key=encode)
        skipped = {**self.skipped, **other.skipped}
        for task_id in self.skipped.keys() & other.skipped.keys():
            skipped[task_id] = min(self.skipped[task_id], other.skipped[task_id])
        errors = {**self.errors, **other.errors}
        for task_id in self.errors.keys() & other.errors.keys():
            errors[task_id] = max(self.errors[task_id], other.errors[task_id])
        return PairState(
            started_at=min(self.started_at, other.started_at),
            pairs=pairs,
            skipped={key: why for key, why in skipped.items() if key not in pairs},
            errors=errors,
        )

    @property
    def failing(self) -> int:
        """Inputs on which the model failed and has not answered since."""
        return len(self.errors.keys() - self.pairs.keys())

    def count(self, reason: str) -> int:
        """How many inputs were skipped for `reason`."""
        return sum(why == reason for why in self.skipped.values())


@dataclass(frozen=True, slots=True)
class AnsweredPair:
    """A task with both fresh answers, for the judge; nothing of it is ever sent."""

    task: Task
    stable: str
    candidate: str


@dataclass(frozen=True, slots=True)
class Slice:
    """What one slice of work gave: the new state, its pairs, and why it stopped early (None: it did not)."""

    state: PairState
    answered: tuple[AnsweredPair, ...]
    stopped: str | None = None


def collect_pairs(
    state: PairState,
    tasks: Iterable[Task],
    swap: PromptSwap,
    agent: ChatModel,
    rules: RunRules,
    *,
    scorer: Scorer | None = None,
    limit: int,
    may_go_on: Callable[[], bool] = lambda: True,
) -> Slice:
    """Run at most `limit` new pairs. Stops, keeping what it has, when `may_go_on` says no (load), when the
    budget is spent, or when the model fails three times in a row; inputs done before are not run again.
    """
    answered: list[AnsweredPair] = []
    failures = 0
    for task in tasks:
        if len(answered) >= limit:
            break
        if task.task_id in state.pairs or task.task_id in state.skipped:
            continue
        if not may_go_on():
            return Slice(state, tuple(answered), "shed under load")
        try:
            outcome = _pair(task, swap, agent, rules, scorer)
        except (BudgetSpent, PriceUnknown) as error:
            return Slice(state, tuple(answered), str(error))
        except ModelUnavailable as error:
            failures += 1
            state = _failed(state, task)
            if failures == _TRIES:
                return Slice(state, tuple(answered), str(error))
            continue
        failures = 0
        if isinstance(outcome, str):
            state = _replace(state, skipped={**state.skipped, task.task_id: outcome})
            continue
        pair, numbers = outcome
        answered.append(pair)
        state = _replace(state, pairs={**state.pairs, task.task_id: numbers})
    return Slice(state, tuple(answered))


def checker_scorer(checker: Checker, labels: Iterable[str] = ()) -> Scorer:
    """Quality by a checker: 1 right, 0 wrong, unscored where the truth is not known."""
    known = frozenset(labels)
    return lambda task, answer: checker.check(answer, Truth(task.expected, known))


def _pair(
    task: Task, swap: PromptSwap, agent: ChatModel, rules: RunRules, scorer: Scorer | None
) -> tuple[AnsweredPair, PairNumbers] | str:
    request = rebuild(task.interaction, swap)
    if isinstance(request, NotReplayable):
        return NOT_REPLAYABLE
    stable = run(task, request.stable, agent, rules)
    if isinstance(stable, Diverged):
        return NOT_REPLAYABLE
    candidate = run(task, request.candidate, agent, rules)
    if isinstance(candidate, Diverged):
        return DIVERGED
    call = task.interaction
    recorded = Ran(task.recorded, call.latency_ms or 0.0, call.tokens.total, call.cost_usd)
    numbers = PairNumbers(
        recorded=msgspec.structs.replace(_sample(task, recorded, scorer), latency_ms=call.latency_ms),
        stable=_sample(task, stable, scorer),
        candidate=_sample(task, candidate, scorer),
        stable_differs=stable.text.strip() != task.recorded.strip(),
        candidate_differs=candidate.text.strip() != task.recorded.strip(),
    )
    return AnsweredPair(task, stable.text, candidate.text), numbers


def _sample(task: Task, ran: Ran, scorer: Scorer | None) -> Sample:
    score = Unscored("no scorer") if scorer is None else scorer(task, ran.text)
    quality = None if isinstance(score, Unscored) else score
    return Sample(quality=quality, latency_ms=ran.latency_ms, cost_usd=ran.cost_usd, tokens=ran.tokens)


def _failed(state: PairState, task: Task) -> PairState:
    tries = state.errors.get(task.task_id, 0) + 1
    skipped = {**state.skipped, task.task_id: MODEL_ERROR} if tries >= _TRIES else state.skipped
    return _replace(state, errors={**state.errors, task.task_id: tries}, skipped=skipped)


def _replace(state: PairState, **fields: object) -> PairState:
    return msgspec.structs.replace(state, **fields)
