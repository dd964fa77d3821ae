"""Intervals for means and paired differences, on the standard library where it suffices."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from prx.domain.answers import Interval


@dataclass(frozen=True, slots=True)
class Estimate:
    """Mean of `n` values with one-sided bounds on each side, in the unit of the values."""

    n: int
    mean: float
    low: float
    high: float

    def numbers(self) -> dict[str, float]:
        """For a proof step."""
        return {"n": self.n, "mean": self.mean, "low": self.low, "high": self.high}


def share_mean(values: Sequence[float], confidence: float) -> Estimate | None:
    """Mean of scores in 0..1; each bound holds with one-sided `confidence`. None for no values.

    A 0 and a 1 are added before mean and variance are taken, so that agreement in a small sample is not
    read as certainty (for scores of 0 and 1: Agresti and Coull 1998 with two added observations).
    """
    n = len(values)
    if n == 0:
        return None
    centre = (sum(values) + 1) / (n + 2)
    variance = max(0.0, (sum(v * v for v in values) + 1) / (n + 2) - centre**2)
    half = _t(confidence, n + 1) * math.sqrt(variance / (n + 2))
    return Estimate(n, sum(values) / n, max(0.0, centre - half), min(1.0, centre + half))


def paired_difference(values: Sequence[float], confidence: float) -> Estimate | None:
    """Mean of paired differences of scores in 0..1; bounds as in `share_mean`. None for no values.

    Half an observation is added to each cell of the paired table, that is 1 to the sum of squares and 2 to
    the count (Agresti and Min 2005, adjusted Wald interval for matched pairs).
    """
    n = len(values)
    if n == 0:
        return None
    centre = sum(values) / (n + 2)
    variance = max(0.0, (sum(v * v for v in values) + 1) / (n + 2) - centre**2)
    half = _t(confidence, n + 1) * math.sqrt(variance / (n + 2))
    return Estimate(n, sum(values) / n, max(-1.0, centre - half), min(1.0, centre + half))


def plain_mean(values: Sequence[float], confidence: float) -> Estimate | None:
    """Student interval for the mean of unbounded values; None for fewer than two."""
    n = len(values)
    if n < 2:
        return None
    mean = sum(values) / n
    half = _t(confidence, n - 1) * math.sqrt(sum((v - mean) ** 2 for v in values) / (n - 1) / n)
    return Estimate(n, mean, mean - half, mean + half)


def wilson(count: int, total: int, confidence: float) -> Interval:
    """Two-sided Wilson score interval of a share (Wilson 1927); all of [0, 1] when `total` is 0."""
    if total == 0:
        return Interval(0.0, 1.0)
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    p = count / total
    centre = (p + z * z / (2 * total)) / (1 + z * z / total)
    half = z / (1 + z * z / total) * math.sqrt(p * (1 - p) / total + z * z / (4 * total * total))
    return Interval(max(0.0, centre - half), min(1.0, centre + half))


def binomial_tail(count: int, total: int, rate: float) -> float:
    """P(X >= count) for X binomial(total, rate)."""
    return math.fsum(
        math.comb(total, k) * rate**k * (1 - rate) ** (total - k) for k in range(count, total + 1)
    )


def _t(confidence: float, df: float) -> float:
    """Quantile of Student's t; the normal one with Fisher's expansion (error below 1e-3 from df 20)."""
    if df < 20:
        from scipy.special import stdtrit

        return float(stdtrit(df, confidence))
    z = NormalDist().inv_cdf(confidence)
    return z + (z**3 + z) / (4 * df) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * df * df)
