"""What collected pairs say: quality first, then latency, cost and tokens, with the noise floor beside."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from prx.domain.answers import Answer, Failed, NotEnoughData, Passed
from prx.prove.intervals import Estimate, paired_difference, plain_mean
from prx.prove.looks import compare
from prx.prove.pairs import PairNumbers, Sample

_MEASURES = ("latency_ms", "cost_usd", "tokens")


@dataclass(frozen=True, slots=True)
class Compared:
    """Answer on quality and all numbers of a look at the first pairs (in order of task id)."""

    quality: Answer
    numbers: dict[str, Any]


def first_pairs(pairs: dict[str, PairNumbers], size: int) -> list[PairNumbers]:
    """The first `size` pairs by task id, so that a look does not depend on the order of collection."""
    return [pairs[task_id] for task_id in sorted(pairs)[:size]]


def compare_quality(
    pairs: Sequence[PairNumbers], *, margin: float, confidence: float, code: str, final: bool
) -> Compared:
    """Candidate against the stable prompt run under the same conditions, paired."""
    differences = [_minus(p.candidate.quality, p.stable.quality) for p in pairs]
    known = [d for d in differences if d is not None]
    answer, estimate = compare(
        known, margin=margin, confidence=confidence, what="quality", code=code, final=final
    )
    numbers: dict[str, Any] = {"pairs": len(pairs), "confidence": confidence, "margin": margin}
    if estimate is not None:
        numbers["quality"] = estimate.numbers()
    numbers["noise"] = noise_floor(pairs, confidence)
    for measure in _MEASURES:
        difference = _measured(pairs, measure, confidence)
        if difference is not None:
            numbers[measure] = {**difference.numbers(), "stable_mean": _mean(pairs, measure)}
    return Compared(answer, numbers)


def noise_floor(pairs: Sequence[PairNumbers], confidence: float) -> dict[str, Any]:
    """How much the stable prompt differs from its own recorded answers, beside the candidate's share.

    `stable_changed`, `candidate_changed`: shares of answers whose text differs from the recorded one;
    `excess`: their difference with bounds; `quality`: stable run again minus recorded, score points.
    """
    n = len(pairs)
    if n == 0:
        return {}
    excess = paired_difference([p.candidate_differs - p.stable_differs for p in pairs], confidence)
    drifts = [_minus(p.stable.quality, p.recorded.quality) for p in pairs]
    quality = paired_difference([d for d in drifts if d is not None], confidence)
    return {
        "stable_changed": sum(p.stable_differs for p in pairs) / n,
        "candidate_changed": sum(p.candidate_differs for p in pairs) / n,
        "excess": excess.numbers() if excess else {},
        "quality": quality.numbers() if quality else {},
    }


def guardrail(
    pairs: Sequence[PairNumbers], measure: str, growth: float, confidence: float, code: str
) -> Failed | None:
    """Failed when the candidate is shown to need over `growth` (a share) more of `measure`."""
    difference, mean = _measured(pairs, measure, confidence), _mean(pairs, measure)
    if difference is None or mean is None or difference.low <= growth * mean:
        return None
    return Failed(
        f"{measure} rises by {difference.mean:.4g} on a mean of {mean:.4g} (at least {difference.low:.4g}), "
        f"more than the {growth:.0%} allowed",
        code,
    )


def quality_answer(compared: Compared, *, scored: bool) -> Answer:
    """The answer on quality; where nothing could be scored it is left to the judge, and said so."""
    if scored or not isinstance(compared.quality, NotEnoughData):
        return compared.quality
    return Passed("quality is not scored here, the judge decides on it")


def _minus(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a - b


def _measured(pairs: Sequence[PairNumbers], measure: str, confidence: float) -> Estimate | None:
    differences = [_minus(_value(p.candidate, measure), _value(p.stable, measure)) for p in pairs]
    return plain_mean([d for d in differences if d is not None], confidence)


def _mean(pairs: Sequence[PairNumbers], measure: str) -> float | None:
    values = [v for p in pairs if (v := _value(p.stable, measure)) is not None]
    return sum(values) / len(values) if values else None


def _value(sample: Sample, measure: str) -> float | None:
    value: float | None = getattr(sample, measure)
    return value
