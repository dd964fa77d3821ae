"""Regression replay: recent successes must stay successes under the candidate prompt."""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime

from prx.domain.answers import Answer, Broken, NotEnoughData
from prx.domain.proposals import ProofStep
from prx.models.port import ChatModel
from prx.prove.looks import look_at
from prx.prove.pairs import DIVERGED, NOT_REPLAYABLE, PairState, Scorer, Slice, collect_pairs
from prx.prove.pairverdict import compare_quality, first_pairs
from prx.prove.port import Unscored
from prx.prove.rebuild import PromptSwap
from prx.prove.rules import ReplayRules
from prx.prove.steps import OFFLINE, proof_step
from prx.prove.tasks import Task

NAME = "gate.replay"


def successes(tasks: Iterable[Task], scorer: Scorer) -> Iterator[Task]:
    """Tasks whose recorded answer was good: as feedback says, else as the scorer says (0.5 and above)."""
    for task in tasks:
        if task.success is not None:
            good = task.success
        else:
            score = scorer(task, task.recorded)
            good = not isinstance(score, Unscored) and score >= 0.5
        if good:
            yield task


def replay_slice(
    state: PairState,
    tasks: Iterable[Task],
    swap: PromptSwap,
    agent: ChatModel,
    rules: ReplayRules,
    *,
    scorer: Scorer,
    limit: int | None = None,
    may_go_on: Callable[[], bool] = lambda: True,
) -> Slice:
    """Replay up to `limit` more recent successes (all that `max_cases` allows when None)."""
    room = max(0, rules.max_cases - len(state.pairs))
    wanted = room if limit is None else min(limit, room)
    good = successes(tasks, scorer)
    run = rules.run
    return collect_pairs(state, good, swap, agent, run, scorer=scorer, limit=wanted, may_go_on=may_go_on)


def replay_verdict(state: PairState, rules: ReplayRules, now: datetime, *, exhausted: bool) -> ProofStep:
    """Whether the candidate keeps what the stable prompt gets right.

    Both are run anew on cases that once succeeded: the recorded successes alone would make even an
    unchanged prompt look worse, since they were chosen for having succeeded. `exhausted`: no more cases.
    """
    counts = {
        "cases": len(state.pairs),
        "not_replayable": state.count(NOT_REPLAYABLE),
        "diverged": state.count(DIVERGED),
        "model_errors": state.failing,
    }
    tried = counts["cases"] + counts["diverged"] + counts["model_errors"]
    look = look_at(counts["cases"], rules.min_cases, rules.max_cases, exhausted=exhausted)
    answer: Answer
    if tried and counts["model_errors"] > rules.max_errors * tried:
        answer = Broken(f"the agent's model failed on {counts['model_errors']} of {tried} cases")
    elif tried and counts["diverged"] > rules.max_diverged * tried:
        answer = NotEnoughData(
            f"{counts['diverged']} of {tried} cases took tool calls that were never recorded; "
            "replay cannot say, the shadow run decides"
        )
    elif look is None:
        answer = NotEnoughData(
            f"{counts['cases']} successes could be replayed ({counts['not_replayable']} could not), "
            f"{rules.min_cases} needed"
        )
    else:
        size, final = look
        confidence = rules.confidence if final else rules.interim_confidence
        compared = compare_quality(
            first_pairs(state.pairs, size),
            margin=rules.margin,
            confidence=confidence,
            code="replay_regressed",
            final=final,
        )
        numbers = {**counts, **compared.numbers, "final": final}
        return proof_step(NAME, compared.quality, now, numbers=numbers, evidence=OFFLINE)
    return proof_step(NAME, answer, now, numbers=counts, evidence=OFFLINE)
