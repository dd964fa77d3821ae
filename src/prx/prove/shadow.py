"""Shadow run: the candidate answers the inputs of live traffic; nobody sees it and no tool acts."""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any

from prx.domain.answers import Answer, Broken, Failed, NotEnoughData
from prx.domain.proposals import ProofStep
from prx.models.port import ChatModel
from prx.prove.looks import look_at
from prx.prove.pairs import DIVERGED, NOT_REPLAYABLE, PairState, Scorer, Slice, collect_pairs
from prx.prove.pairverdict import compare_quality, first_pairs, guardrail, quality_answer
from prx.prove.rebuild import PromptSwap
from prx.prove.rules import ShadowRules
from prx.prove.steps import OFFLINE, proof_step
from prx.prove.tasks import Task

NAME = "shadow"


def shadow_slice(
    state: PairState,
    tasks: Iterable[Task],
    swap: PromptSwap,
    agent: ChatModel,
    rules: ShadowRules,
    *,
    scorer: Scorer | None = None,
    limit: int,
    may_go_on: Callable[[], bool] = lambda: True,
) -> Slice:
    """Run at most `limit` more pairs on inputs recorded since the shadow run began."""
    room = max(0, rules.max_pairs - len(state.pairs))
    fresh = (task for task in tasks if task.interaction.at >= state.started_at)
    return collect_pairs(
        state, fresh, swap, agent, rules.run, scorer=scorer, limit=min(limit, room), may_go_on=may_go_on
    )


def shadow_verdict(
    state: PairState, rules: ShadowRules, now: datetime, *, scored: bool, exhausted: bool = False
) -> ProofStep:
    """Whether the candidate holds up beside production.

    `scored`: a scorer was given, so that quality must be shown non-inferior here. `exhausted`: the run is
    not to be extended; what cannot be decided then stays not enough data.
    """
    counts: dict[str, Any] = {
        "hours": (now - state.started_at) / timedelta(hours=1),
        "not_replayable": state.count(NOT_REPLAYABLE),
        "diverged": state.count(DIVERGED),
        "model_errors": state.failing,
    }
    early = _unusable(state, rules, counts)
    if early is not None:
        return proof_step(NAME, early, now, numbers={**counts, "pairs": len(state.pairs)}, evidence=OFFLINE)
    look = look_at(len(state.pairs), rules.min_pairs, rules.max_pairs, exhausted=exhausted)
    if look is None or counts["hours"] < rules.min_hours:
        why = (
            f"{len(state.pairs)} of at least {rules.min_pairs} pairs in {counts['hours']:.1f} of at least "
            f"{rules.min_hours:g} hours ({counts['not_replayable']} inputs could not be rebuilt)"
        )
        numbers = {**counts, "pairs": len(state.pairs)}
        return proof_step(NAME, NotEnoughData(why), now, numbers=numbers, evidence=OFFLINE)
    size, final = look
    confidence = rules.confidence if final else rules.interim_confidence
    pairs = first_pairs(state.pairs, size)
    compared = compare_quality(
        pairs, margin=rules.margin, confidence=confidence, code="shadow_worse", final=final
    )
    answer: Answer = (
        guardrail(pairs, "latency_ms", rules.max_latency_growth, confidence, "shadow_slower")
        or guardrail(pairs, "cost_usd", rules.max_cost_growth, confidence, "shadow_dearer")
        or quality_answer(compared, scored=scored)
    )
    numbers = {**counts, **compared.numbers, "final": final}
    return proof_step(NAME, answer, now, numbers=numbers, evidence=OFFLINE)


def _unusable(state: PairState, rules: ShadowRules, counts: dict[str, Any]) -> Answer | None:
    tried = len(state.pairs) + counts["diverged"] + counts["model_errors"]
    if tried < rules.min_pairs:
        return None
    if counts["model_errors"] > rules.max_errors * tried:
        return Broken(f"the agent's model failed on {counts['model_errors']} of {tried} inputs")
    if counts["diverged"] > rules.max_diverged * tried:
        return Failed(
            f"on {counts['diverged']} of {tried} inputs the candidate called tools in ways that were never "
            "recorded; its answers there are unknown",
            "shadow_diverged",
        )
    return None
