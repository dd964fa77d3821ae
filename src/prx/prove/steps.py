"""Proof steps from answers, and one answer from many steps."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from prx.domain.answers import Answer, Broken, Failed, NotEnoughData, Passed
from prx.domain.proposals import ProofStep

PASS, FAIL, NO_DATA, ERROR = "pass", "fail", "not_enough_data", "error"
OFFLINE = "paired_offline"
# failures that pass with time: the change waits, nothing is wrong with it
TRANSIENT_CODES = frozenset({"layer_busy", "experiment_running", "rate_limited", "cooldown", "open_incident"})


def proof_step(
    name: str,
    answer: Answer,
    at: datetime,
    *,
    numbers: dict[str, Any] | None = None,
    evidence: str | None = None,
    code: str | None = None,
) -> ProofStep:
    """The stored form of one check's answer."""
    words = {Passed: PASS, Failed: FAIL, NotEnoughData: NO_DATA, Broken: ERROR}
    return ProofStep(
        name=name,
        answer=words[type(answer)],
        why=answer.why,
        at=at,
        numbers=numbers or {},
        code=answer.code if isinstance(answer, Failed) else code,
        evidence=evidence,
    )


def overall(steps: Iterable[ProofStep]) -> Answer:
    """One answer for all steps: a failure outweighs an error, an error outweighs missing data.

    Failures whose code is in TRANSIENT_CODES count as not enough data: the change is deferred. Steps whose
    numbers say `required` False are shown but decide nothing. No step at all is not enough data.
    """
    counted = [step for step in steps if step.numbers.get("required", True)]
    if not counted:
        return NotEnoughData("no check has run yet")
    final = [step for step in counted if step.answer == FAIL and step.code not in TRANSIENT_CODES]
    broken = [step for step in counted if step.answer == ERROR]
    waiting = [step for step in counted if step.answer in {NO_DATA, FAIL}]
    if final:
        return Failed(_listed(final), final[0].code or final[0].name)
    if broken:
        return Broken(_listed(broken))
    return NotEnoughData(_listed(waiting)) if waiting else Passed(f"{len(counted)} checks passed")


def _listed(steps: list[ProofStep]) -> str:
    return "; ".join(f"{step.name}: {step.why}" for step in steps)
