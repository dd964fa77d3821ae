"""What a judge's pass rate means, given how often it agrees with people."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

from prx.domain.answers import Interval, NotEnoughData
from prx.prove.intervals import binomial_tail, wilson

_MIN_SUM = 1.3


@dataclass(frozen=True, slots=True)
class Calibration:
    """Counts over answers that both a person and the judge called good or bad.

    `good`, `good_passed`: answers that people call good, and those of them that the judge passed; `bad`,
    `bad_failed`: answers that people call bad, and those that the judge failed.
    """

    good: int
    good_passed: int
    bad: int
    bad_failed: int

    @property
    def labels(self) -> int:
        """Human labels in all."""
        return self.good + self.bad

    @property
    def sensitivity(self) -> float | None:
        """Share of good answers that the judge passes; None without good answers."""
        return self.good_passed / self.good if self.good else None

    @property
    def specificity(self) -> float | None:
        """Share of bad answers that the judge fails; None without bad answers."""
        return self.bad_failed / self.bad if self.bad else None

    def numbers(self) -> dict[str, Any]:
        """For a proof step, each rate with its 95 % Wilson interval."""
        se, sp = wilson(self.good_passed, self.good, 0.95), wilson(self.bad_failed, self.bad, 0.95)
        return {
            "labels": self.labels,
            "sensitivity": self.sensitivity,
            "sensitivity_interval": [se.low, se.high],
            "specificity": self.specificity,
            "specificity_interval": [sp.low, sp.high],
        }


@dataclass(frozen=True, slots=True)
class Corrected:
    """Share of truly good answers, corrected for the judge's errors, with a two-sided interval."""

    rate: float
    interval: Interval


def calibrate(labels: Iterable[tuple[bool, bool]]) -> Calibration:
    """Counts from pairs (the judge passed it, a person calls it good)."""
    pairs = list(labels)
    return Calibration(
        good=sum(good for _, good in pairs),
        good_passed=sum(passed and good for passed, good in pairs),
        bad=sum(not good for _, good in pairs),
        bad_failed=sum(not passed and not good for passed, good in pairs),
    )


def corrected_rate(
    passed: int, judged: int, calibration: Calibration, *, confidence: float = 0.95, min_labels: int = 100
) -> Corrected | NotEnoughData:
    """True share of good answers from `passed` of `judged`, in 0..1.

    theta = (p + sp - 1) / (se + sp - 1) (Rogan and Gladen 1978); its variance is the sum over the three
    samples of p(1-p)/n, (1-theta)^2 sp(1-sp)/bad and theta^2 se(1-se)/good, over (se + sp - 1)^2
    (arXiv:2511.21140). Two observations are added to each sample's variance so that a rate of 0 or 1 is not
    read as certain. NotEnoughData with too few labels, or where se + sp is at most 1.3: such a judge says
    too little about the truth.
    """
    se, sp = calibration.sensitivity, calibration.specificity
    if judged == 0 or se is None or sp is None or calibration.labels < min_labels:
        return NotEnoughData(
            f"{calibration.labels} human labels ({calibration.good} good, {calibration.bad} bad), "
            f"{min_labels} of both kinds needed; label more with `prx evolution judge label`"
        )
    if se + sp <= _MIN_SUM:
        return NotEnoughData(
            f"the judge finds {se:.0%} of good and {sp:.0%} of bad answers; "
            "that is too near to chance to correct for, use another judge model"
        )
    power = se + sp - 1
    theta = (passed / judged + sp - 1) / power
    variance = (
        _variance(passed, judged)
        + (1 - theta) ** 2 * _variance(calibration.bad_failed, calibration.bad)
        + theta**2 * _variance(calibration.good_passed, calibration.good)
    ) / power**2
    half = NormalDist().inv_cdf(0.5 + confidence / 2) * math.sqrt(variance)
    clip = _clip(theta)
    return Corrected(clip, Interval(_clip(theta - half), _clip(theta + half)))


def control_passes_allowed(calibration: Calibration, controls: int, *, alpha: float = 0.01) -> int:
    """Most known-bad answers that may pass before the calibrated specificity is in doubt.

    The largest k with P(X >= k) above `alpha` at the lower 95 % bound of the specificity.
    """
    rate = 1 - wilson(calibration.bad_failed, calibration.bad, 0.95).low
    allowed = 0
    while allowed < controls and binomial_tail(allowed + 1, controls, rate) > alpha:
        allowed += 1
    return allowed


def _variance(count: int, total: int) -> float:
    p = (count + 1) / (total + 2)
    return p * (1 - p) / (total + 2)


def _clip(value: float) -> float:
    return min(1.0, max(0.0, value))
