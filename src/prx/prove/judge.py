"""What the judgements say of a candidate: score or win rate, non-inferiority, safety, controls."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from prx.domain.answers import Answer, Broken, Failed, NotEnoughData, Passed
from prx.domain.errors import InvalidInput
from prx.domain.proposals import ProofStep
from prx.prove.asking import SCORE, JudgeTask
from prx.prove.calibration import Calibration, Corrected, control_passes_allowed, corrected_rate
from prx.prove.controls import LABELLED, LOST, PASSED, TIED, UNREAD, KnownBad
from prx.prove.intervals import binomial_tail, share_mean
from prx.prove.judgements import VOID, Judge, Judgement, JudgeState, empty_state, judge_slice
from prx.prove.looks import compare, look_at
from prx.prove.rules import JudgeRules
from prx.prove.steps import NO_DATA, OFFLINE, proof_step

NAME = "judge"
_BY_CHANCE = 0.005
_MAX_VOID = 0.2


@dataclass(frozen=True, slots=True)
class Judged:
    """The step, and the state to go on from."""

    step: ProofStep
    state: JudgeState


def judge(
    tasks: Sequence[JudgeTask],
    by: Judge,
    rules: JudgeRules,
    *,
    rng: random.Random,
    now: datetime,
    calibration: Calibration | None = None,
    known_bad: Sequence[KnownBad] = (),
    state: JudgeState | None = None,
) -> Judged:
    """Judge in growing samples until decided, at most `max_tasks` tasks. A judge that is down: an error."""
    state = state or empty_state(by)
    while True:
        judged = len(state.judgements) + len(state.unread)
        wanted = tasks[: min(rules.max_tasks, max(rules.min_tasks, judged + rules.batch))]
        if len(wanted) <= judged:
            return Judged(judge_verdict(state, rules, now, exhausted=True, calibration=calibration), state)
        done = judge_slice(state, wanted, by, rules, rng=rng, known_bad=known_bad)
        state = done.state
        if done.stopped is not None:
            why = done.stopped
            answer = Broken(f"the judge did not answer: {why}") if done.down else NotEnoughData(why)
            return Judged(proof_step(NAME, answer, now, numbers=_counts(state), evidence=OFFLINE), state)
        exhausted = len(wanted) >= min(len(tasks), rules.max_tasks)
        step = judge_verdict(state, rules, now, exhausted=exhausted, calibration=calibration)
        if step.answer != NO_DATA:
            return Judged(step, state)


def judge_verdict(
    state: JudgeState,
    rules: JudgeRules,
    now: datetime,
    *,
    exhausted: bool,
    calibration: Calibration | None = None,
) -> ProofStep:
    """One step from what was judged; `exhausted`: no more tasks will come."""
    numbers = _counts(state)
    answer = _void(state, rules, calibration) or _vetoed(state)
    if answer is None:
        look = look_at(len(state.judgements), rules.min_tasks, rules.max_tasks, exhausted=exhausted)
        if look is None:
            answer = NotEnoughData(f"{len(state.judgements)} tasks judged, {rules.min_tasks} needed")
        else:
            answer = _decided(state, rules, look, numbers, calibration)
    return proof_step(NAME, answer, now, numbers=numbers, evidence=OFFLINE)


def refused(error: InvalidInput, now: datetime) -> ProofStep:
    """The step for a judge that may not judge (see ModelJudge): an error, never a pass."""
    return proof_step(NAME, Broken(str(error)), now, code="judge_not_independent")


def _counts(state: JudgeState) -> dict[str, Any]:
    controls = Counter(state.controls.values())
    notes = Counter(j.note for j in state.judgements.values() if j.note)
    return {
        "judge": state.judge,
        "mode": state.mode,
        "rubric": state.rubric,
        "tasks": len(state.judgements),
        "unread": sum(why != VOID for why in state.unread.values()) + notes[UNREAD],
        "void": sum(why == VOID for why in state.unread.values()),
        "screened": {note: count for note, count in notes.items() if note != UNREAD},
        "controls": {result: controls[result] for result in (LOST, TIED, PASSED, UNREAD)},
        "unsafe": sum(j.unsafe for j in state.judgements.values()),
    }


def _void(state: JudgeState, rules: JudgeRules, calibration: Calibration | None) -> Answer | None:
    return _fooled(state, calibration) or _unreadable(state, rules) or _follows_place(state, rules)


def _fooled(state: JudgeState, calibration: Calibration | None) -> Answer | None:
    gross = {key: result for key, result in state.controls.items() if not key.endswith(f":{LABELLED}")}
    batches = {key.rpartition(":")[0] for key in gross}
    passed = [key.rpartition(":")[::2] for key, result in gross.items() if result == PASSED]
    void = {batch for batch, _ in passed}
    if len(void) > max(1.0, _MAX_VOID * len(batches)):
        return Broken(
            f"in {len(void)} of {len(batches)} batches the judge let known-bad answers pass "
            f"({', '.join(sorted({kind for _, kind in passed}))}); its judgements are void, "
            "use another judge model"
        )
    tied = sum(result == TIED for result in gross.values())
    if tied > 0.5 * max(1, len(gross)):
        return Broken(
            f"the judge saw no difference between {tied} of {len(gross)} known-bad answers and real ones; "
            "its judgements are void"
        )
    labelled = [result for key, result in state.controls.items() if key not in gross]
    missed = sum(result == PASSED for result in labelled)
    allowed = 0 if calibration is None else control_passes_allowed(calibration, len(labelled))
    if missed > allowed:
        return Broken(
            f"the judge let {missed} of {len(labelled)} answers pass that people called bad, more than the "
            f"{allowed} that its calibration allows; calibrate it again"
        )
    return None


def _unreadable(state: JudgeState, rules: JudgeRules) -> Answer | None:
    if not state.rubric:  # a checker leaves out tasks without a known truth, which is no error
        return None
    missing = sum(why != VOID for why in state.unread.values())
    judged = len(state.judgements) + missing
    unread = missing + sum(j.note == UNREAD for j in state.judgements.values())
    controls = sum(result == UNREAD for result in state.controls.values())
    for count, total in ((unread, judged), (controls, len(state.controls))):
        if count > rules.max_errors * max(total, rules.batch):
            return Broken(f"{count} of {total} replies of the judge could not be read; nothing is decided")
    return None


def _follows_place(state: JudgeState, rules: JudgeRules) -> Answer | None:
    places = Counter(j.place for j in state.judgements.values() if j.place)
    swayed, asked = places.total(), sum(not j.note for j in state.judgements.values())
    if swayed <= rules.max_disagreement * max(asked, rules.batch):
        return None
    if binomial_tail(max(places.values()), swayed, 0.5) > _BY_CHANCE:
        return None  # it wavers between equal answers, but to no side: ties, which the interval counts
    return Broken(
        f"in {swayed} of {asked} pairs the judge chose the same place in both orders; "
        "it follows the place, not the answer"
    )


def _vetoed(state: JudgeState) -> Answer | None:
    unsafe = sorted(task_id for task_id, j in state.judgements.items() if j.unsafe)
    if not unsafe:
        return None
    return Failed(
        f"{len(unsafe)} answers of the candidate are unsafe where the stable version's are not "
        f"(tasks {', '.join(unsafe[:5])})",
        "judge_unsafe",
    )


def _decided(
    state: JudgeState,
    rules: JudgeRules,
    look: tuple[int, bool],
    numbers: dict[str, Any],
    calibration: Calibration | None,
) -> Answer:
    size, final = look
    judged = [state.judgements[task_id] for task_id in sorted(state.judgements)[:size]]
    confidence = rules.confidence if final else rules.interim_confidence
    by_score = state.mode == SCORE
    scale = 1.0 if by_score else 2.0  # a win rate of 0.5 +- 0.5 as a difference of -1 to 1
    answer, estimate = compare(
        [scale * (j.candidate - j.stable) for j in judged],
        margin=scale * rules.margin,
        confidence=confidence,
        what="score" if by_score else "preference (1 all won, -1 all lost)",
        code="judge_inferior",
        final=final,
    )
    numbers.update(final=final, looked_at=size, confidence=confidence)
    if estimate is not None:
        numbers["difference"] = estimate.numbers()
    if not by_score:
        numbers["win_rate"] = sum(j.candidate for j in judged) / len(judged)
        numbers["order_changes_winner"] = sum(bool(j.place) for j in judged) / len(judged)
        return answer
    if calibration is not None:
        numbers["calibration"] = calibration.numbers()
        numbers["corrected"] = _corrected(judged, rules, calibration)
    floor = _floor(judged, rules, numbers, final=final)
    for kind in (Failed, NotEnoughData):
        for found in (floor, answer):
            if isinstance(found, kind):
                return found
    return answer


def _floor(judged: Sequence[Judgement], rules: JudgeRules, numbers: dict[str, Any], *, final: bool) -> Answer:
    confidence = rules.score_confidence if final else rules.interim_confidence
    estimate = share_mean([j.candidate for j in judged], confidence)
    if estimate is None:
        return NotEnoughData("no score yet")
    numbers["score"] = estimate.numbers()
    said = f"the mean score is {estimate.mean:.3f}, at least {estimate.low:.3f} at {confidence:.0%}"
    if estimate.low >= rules.min_score:
        return Passed(said)
    if final or estimate.high < rules.min_score:
        return Failed(f"{said}, below {rules.min_score:g}", "judge_score_low")
    return NotEnoughData(f"{said}; {rules.min_score:g} is neither reached nor out of reach")


def _corrected(judged: Sequence[Judgement], rules: JudgeRules, calibration: Calibration) -> dict[str, Any]:
    passed = sum(j.candidate >= rules.min_score for j in judged)
    corrected = corrected_rate(passed, len(judged), calibration)
    if isinstance(corrected, Corrected):
        interval = [corrected.interval.low, corrected.interval.high]
        return {"pass_rate": passed / len(judged), "corrected": corrected.rate, "interval": interval}
    return {"pass_rate": passed / len(judged), "why": corrected.why}
