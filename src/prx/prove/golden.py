"""Golden cases: answers that must stay right, one by one."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from prx.domain.answers import Answer, Broken, Failed, NotEnoughData, Passed
from prx.domain.errors import EvolutionError
from prx.domain.proposals import ProofStep
from prx.domain.records import Message
from prx.models.port import ChatModel, ChatRequest
from prx.prove.port import Checker, Truth, Unscored
from prx.prove.rebuild import PromptSwap
from prx.prove.rules import RunRules
from prx.prove.steps import OFFLINE, proof_step

NAME = "gate.golden"
_REPEATS = 3


@dataclass(frozen=True, slots=True)
class GoldenCase:
    """One case of the operator: a user text, the values of the prompt's placeholders, the right answer."""

    case_id: str
    user: str
    expected: str
    values: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Exam:
    swap: PromptSwap
    agent: ChatModel
    checker: Checker
    labels: frozenset[str]
    rules: RunRules

    def holds(self, case: GoldenCase) -> bool | None:
        """False when the candidate misses what the stable prompt gets right, both by most of three tries;
        None when the case cannot be checked."""
        candidate = [self._right(case, self.swap.candidate)]
        if candidate[0] is not False:
            return candidate[0]
        stable = [self._right(case, self.swap.stable)]
        if stable[0] is False:
            return True
        candidate += [self._right(case, self.swap.candidate) for _ in range(_REPEATS - 1)]
        stable += [self._right(case, self.swap.stable) for _ in range(_REPEATS - 1)]
        majority = _REPEATS // 2 + 1
        return sum(map(bool, candidate)) >= majority or sum(map(bool, stable)) < majority

    def _right(self, case: GoldenCase, text: str) -> bool | None:
        request = ChatRequest(
            model="",
            messages=(
                Message(role="system", content=self.swap.render(text, case.values)),
                Message(role="user", content=case.user),
            ),
            temperature=self.rules.temperature,
            seed=self.rules.seed,
            max_tokens=self.rules.max_tokens,
        )
        score = self.checker.check(self.agent.complete(request).text, Truth(case.expected, self.labels))
        return None if isinstance(score, Unscored) else score >= 0.5


def golden(
    cases: Sequence[GoldenCase],
    swap: PromptSwap,
    agent: ChatModel,
    checker: Checker,
    *,
    rules: RunRules,
    now: datetime,
) -> ProofStep:
    """Passes when no case that the stable prompt gets right is lost.

    A case that the candidate misses is asked twice more on both sides, and the majority counts: one unlucky
    answer of a model that varies is no regression.
    """
    exam = _Exam(swap, agent, checker, frozenset(case.expected for case in cases), rules)
    lost: list[str] = []
    kept, unscored = 0, 0
    try:
        for case in cases:
            outcome = exam.holds(case)
            if outcome is None:
                unscored += 1
            elif outcome:
                kept += 1
            else:
                lost.append(case.case_id)
        answer = _answer(len(cases), lost, unscored)
    except EvolutionError as error:
        answer = Broken(f"golden cases could not be run: {error}")
    numbers = {"cases": len(cases), "kept": kept, "lost": lost, "unscored": unscored, "checker": checker.name}
    return proof_step(NAME, answer, now, numbers=numbers, evidence=OFFLINE)


def _answer(total: int, lost: Sequence[str], unscored: int) -> Answer:
    if lost:
        return Failed(f"{len(lost)} golden cases are lost: {', '.join(lost[:10])}", "golden_regressed")
    if unscored:
        return NotEnoughData(f"{unscored} of {total} golden cases could not be checked")
    return Passed(f"all {total} golden cases are kept" if total else "no golden cases are given")
