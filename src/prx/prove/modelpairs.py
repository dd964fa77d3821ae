"""Two models on the same recorded inputs, for a change of the default model that no log can speak for."""

from collections.abc import Iterable

import msgspec

from prx.domain.errors import ModelUnavailable
from prx.models.meter import BudgetSpent, PriceUnknown
from prx.models.port import ChatModel
from prx.prove.pairs import DIVERGED, NOT_REPLAYABLE, PairNumbers, PairState, Sample, Scorer
from prx.prove.port import Unscored
from prx.prove.rules import RunRules
from prx.prove.running import Diverged, Ran, run
from prx.prove.tasks import Task

_TRIES = 3


def collect_model_pairs(
    state: PairState,
    tasks: Iterable[Task],
    stable: ChatModel,
    candidate: ChatModel,
    rules: RunRules,
    *,
    scorer: Scorer | None,
    limit: int,
) -> tuple[PairState, str | None]:
    """Run both models on at most `limit` new inputs; the new state, and why it stopped early if it did.

    Stops when the budget is spent or when a model fails three times in a row.
    """
    done, failures = 0, 0
    for task in tasks:
        if done >= limit:
            break
        if task.task_id in state.pairs or task.task_id in state.skipped:
            continue
        try:
            outcome = _pair(task, stable, candidate, rules, scorer)
        except (BudgetSpent, PriceUnknown) as error:
            return state, str(error)
        except ModelUnavailable as error:
            failures += 1
            tries = {**state.errors, task.task_id: state.errors.get(task.task_id, 0) + 1}
            state = msgspec.structs.replace(state, errors=tries)
            if failures == _TRIES:
                return state, str(error)
            continue
        failures = 0
        if isinstance(outcome, str):
            state = msgspec.structs.replace(state, skipped={**state.skipped, task.task_id: outcome})
            continue
        done += 1
        state = msgspec.structs.replace(state, pairs={**state.pairs, task.task_id: outcome})
    return state, None


def _pair(
    task: Task, stable: ChatModel, candidate: ChatModel, rules: RunRules, scorer: Scorer | None
) -> PairNumbers | str:
    messages = task.interaction.messages
    if not messages:
        return NOT_REPLAYABLE
    first = run(task, messages, stable, rules)
    if isinstance(first, Diverged):
        return NOT_REPLAYABLE
    second = run(task, messages, candidate, rules)
    if isinstance(second, Diverged):
        return DIVERGED
    call = task.interaction
    recorded = Ran(task.recorded, call.latency_ms or 0.0, call.tokens.total, call.cost_usd)
    return PairNumbers(
        recorded=_sample(task, recorded, scorer),
        stable=_sample(task, first, scorer),
        candidate=_sample(task, second, scorer),
        stable_differs=first.text.strip() != task.recorded.strip(),
        candidate_differs=second.text.strip() != task.recorded.strip(),
    )


def _sample(task: Task, ran: Ran, scorer: Scorer | None) -> Sample:
    score = Unscored("no scorer") if scorer is None else scorer(task, ran.text)
    quality = None if isinstance(score, Unscored) else score
    return Sample(quality=quality, latency_ms=ran.latency_ms, cost_usd=ran.cost_usd, tokens=ran.tokens)
