"""Tests of two independent samples: Welch on means, Mann-Whitney and Brunner-Munzel on ranks."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Literal

import numpy as np
from scipy.special import ndtr, ndtri, stdtr

from prx.domain.answers import Interval, NotEnoughData
from prx.domain.errors import BadStatistics
from prx.stats.tails import t_interval
from prx.stats.unitsums import Floats, Ints

Alternative = Literal["two-sided", "greater", "less"]
Method = Literal["auto", "exact", "asymptotic"]
Numbers = Sequence[float] | Floats

LEAST = 3
_EXACT_BELOW = 50
_SAME = 1e-12
_LARGEST = 1e150


@dataclass(frozen=True, slots=True)
class Moments:
    """Size, mean and sample variance (n - 1 in the denominator) of one sample."""

    n: int
    mean: float
    variance: float


@dataclass(frozen=True, slots=True)
class Welch:
    """estimate: treatment mean minus control mean; interval: two-sided, around it; statistic: t."""

    statistic: float
    p_value: float
    df: float
    estimate: float
    interval: Interval
    se: float


@dataclass(frozen=True, slots=True)
class MannWhitney:
    """statistic: U, pairs in which the treatment is larger (ties half); superiority: U / pairs, 0..1.

    estimate: Hodges-Lehmann shift, the median of treatment minus control over pairs, with its interval.
    """

    statistic: float
    p_value: float
    estimate: float
    interval: Interval
    superiority: float
    method: Literal["exact", "asymptotic"]


@dataclass(frozen=True, slots=True)
class BrunnerMunzel:
    """estimate: P(control < treatment) + P(equal) / 2 in 0..1; interval: around it, within 0..1."""

    statistic: float
    p_value: float
    df: float
    estimate: float
    interval: Interval


def welch(
    control: Numbers, treatment: Numbers, *, confidence: float = 0.95, alternative: Alternative = "two-sided"
) -> Welch | NotEnoughData:
    """Welch's t test that the means are equal; positive when the treatment is higher.

    Not enough data below 3 values per arm or where an arm is constant. Raises: BadStatistics for NaN or
    infinity. Source: Welch 1947, Biometrika 34.
    """
    samples = _samples(control, treatment)
    if isinstance(samples, NotEnoughData):
        return samples
    before, after = (Moments(len(x), float(x.mean()), _variance(x)) for x in samples)
    return welch_from_moments(before, after, confidence=confidence, alternative=alternative)


def welch_from_moments(
    control: Moments,
    treatment: Moments,
    *,
    confidence: float = 0.95,
    alternative: Alternative = "two-sided",
) -> Welch | NotEnoughData:
    """`welch` from stored sizes, means and variances."""
    for name, arm in (("control", control), ("treatment", treatment)):
        if not (math.isfinite(arm.mean) and math.isfinite(arm.variance) and arm.variance >= 0):
            raise BadStatistics(
                f"the {name} arm has mean {arm.mean} and variance {arm.variance}; read it again"
            )
        if arm.n < LEAST:
            return NotEnoughData(f"{arm.n} of {LEAST} values in the {name} arm")
        if arm.variance <= (_SAME * max(1e-300, abs(arm.mean))) ** 2:
            return NotEnoughData(f"every value of the {name} arm is the same; its spread cannot be estimated")
    parts = control.variance / control.n, treatment.variance / treatment.n
    variance = parts[0] + parts[1]
    df = variance**2 / (parts[0] ** 2 / (control.n - 1) + parts[1] ** 2 / (treatment.n - 1))
    se = math.sqrt(variance)
    estimate = treatment.mean - control.mean
    return Welch(
        statistic=estimate / se,
        p_value=_t_p(estimate / se, df, alternative),
        df=df,
        estimate=estimate,
        interval=t_interval(estimate, se, df, confidence),
        se=se,
    )


def mann_whitney(
    control: Numbers,
    treatment: Numbers,
    *,
    method: Method = "auto",
    alternative: Alternative = "two-sided",
    continuity: bool = True,
    confidence: float = 0.95,
) -> MannWhitney | NotEnoughData:
    """Mann-Whitney U test that neither arm tends to be larger.

    method: "exact" (refused with ties), "asymptotic" (tie-corrected, `continuity` of 1/2), or "auto":
    exact below 50 values per arm without ties. It answers another question than a difference of means.
    Not enough data below 3 values per arm or where all values are equal. Raises: BadStatistics.
    Source: Mann and Whitney 1947; Hodges and Lehmann 1963 for the shift.
    """
    samples = _samples(control, treatment)
    if isinstance(samples, NotEnoughData):
        return samples
    before, after = samples
    constant = _both_constant(before, after)
    if constant is not None:
        return constant
    ties = np.unique(np.concatenate((before, after)), return_counts=True)[1]
    tied = len(ties) < len(before) + len(after)
    if method == "exact" and tied:
        raise BadStatistics("the exact Mann-Whitney law has no ties; use method='asymptotic'")
    small = max(len(before), len(after)) < _EXACT_BELOW
    chosen: Literal["exact", "asymptotic"] = (
        "exact" if method == "exact" or (method == "auto" and small and not tied) else "asymptotic"
    )
    u = float(_placements(after, before).sum())
    pairs = len(before) * len(after)
    if chosen == "exact":
        p_value = _exact_p(u, len(before), len(after), alternative)
        rank = _exact_rank(len(before), len(after), confidence)
    else:
        p_value = _asymptotic_p(u, len(before), len(after), ties, alternative, continuity=continuity)
        half = -float(ndtri((1 - confidence) / 2)) * _rank_sd(len(before), len(after), ties)
        rank = max(1, math.floor(pairs / 2 - half + 0.5))
    sides = np.sort(before), np.sort(after)
    middle = (_kth_difference(*sides, (pairs + 1) // 2) + _kth_difference(*sides, pairs // 2 + 1)) / 2
    interval = Interval(_kth_difference(*sides, rank), _kth_difference(*sides, pairs + 1 - rank))
    return MannWhitney(u, p_value, middle, interval, u / pairs, chosen)


def brunner_munzel(
    control: Numbers, treatment: Numbers, *, confidence: float = 0.95, alternative: Alternative = "two-sided"
) -> BrunnerMunzel | NotEnoughData:
    """Test that P(control < treatment) + P(equal) / 2 is 1/2, whatever the shapes and variances.

    Where the arms do not overlap at all the variance estimate is 0: it is then taken from the nearest
    sample with one tied pair, and p is not below the exact permutation value. Not enough data below 3
    values per arm or where each arm is constant. Raises: BadStatistics.
    Source: Brunner and Munzel 2000, Biom. J. 42.
    """
    samples = _samples(control, treatment)
    if isinstance(samples, NotEnoughData):
        return samples
    before, after = samples
    constant = _both_constant(before, after)
    if constant is not None:
        return constant
    sizes = len(before), len(after)
    below = _placements(after, before)
    above = sizes[1] - _placements(before, after)
    estimate = float(below.sum()) / (sizes[0] * sizes[1])
    apart = min(estimate, 1 - estimate) == 0
    if apart:
        below[0] += 0.5 if estimate == 0 else -0.5
        above[0] += 0.5 if estimate == 0 else -0.5
    parts = (
        float(above.var(ddof=1)) / sizes[0] / sizes[1] ** 2,
        float(below.var(ddof=1)) / sizes[1] / sizes[0] ** 2,
    )
    variance = parts[0] + parts[1]
    df = variance**2 / (parts[0] ** 2 / (sizes[0] - 1) + parts[1] ** 2 / (sizes[1] - 1))
    statistic = (estimate - 0.5) / math.sqrt(variance)
    p_value = _t_p(statistic, df, alternative)
    if apart:
        tails = 2 if alternative == "two-sided" else 1
        p_value = max(p_value, tails / math.comb(sizes[0] + sizes[1], sizes[0]))
    around = t_interval(estimate, math.sqrt(variance), df, confidence)
    interval = Interval(max(0.0, around.low), min(1.0, around.high))
    return BrunnerMunzel(statistic, p_value, df, estimate, interval)


def superiority(control: Floats, treatment: Floats) -> float:
    """P(control < treatment) + P(equal) / 2 over all pairs, 0..1, of two samples that are not empty."""
    return float(_placements(treatment, control).sum()) / (len(control) * len(treatment))


def _samples(control: Numbers, treatment: Numbers) -> tuple[Floats, Floats] | NotEnoughData:
    read: list[Floats] = []
    for name, values in (("control", control), ("treatment", treatment)):
        try:
            sample = np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise BadStatistics(f"the {name} arm holds something that is no number: {error}") from error
        if sample.ndim != 1:
            raise BadStatistics(f"the {name} arm must be one flat sequence of numbers")
        if np.ma.is_masked(values) or not np.isfinite(sample).all():
            raise BadStatistics(f"the {name} arm holds NaN or infinity; leave missing values out")
        if len(sample) and float(np.abs(sample).max()) > _LARGEST:
            raise BadStatistics(f"the {name} arm holds values beyond {_LARGEST:g}, whose squares overflow")
        read.append(sample)
    for name, sample in zip(("control", "treatment"), read, strict=True):
        if len(sample) < LEAST:
            return NotEnoughData(f"{len(sample)} of {LEAST} values in the {name} arm")
    return read[0], read[1]


def _both_constant(before: Floats, after: Floats) -> NotEnoughData | None:
    if np.ptp(before) == 0 and np.ptp(after) == 0:
        return NotEnoughData("every value within each arm is the same; ranks carry no spread")
    return None


def _variance(sample: Floats) -> float:
    return float(sample.var(ddof=1)) if len(sample) > 1 and np.ptp(sample) > 0 else 0.0


def _t_p(t: float, df: float, alternative: Alternative) -> float:
    if alternative == "greater":
        return float(stdtr(df, -t))
    if alternative == "less":
        return float(stdtr(df, t))
    return min(1.0, 2 * float(stdtr(df, -abs(t))))


def _placements(of: Floats, among: Floats) -> Floats:
    """How many of `among` lie below each of `of`, ties counted half."""
    ordered = np.sort(among)
    low, high = np.searchsorted(ordered, of, "left"), np.searchsorted(ordered, of, "right")
    return np.asarray((low + high) / 2, dtype=np.float64)


@lru_cache(maxsize=64)
def _u_counts(n: int, m: int) -> tuple[int, ...]:
    """Cumulative number of arrangements with U <= u, u = 0..nm: partial sums of a Gaussian binomial."""
    degree = n * m
    counts = [1] + [0] * degree
    for i in range(1, n + 1):
        for u in range(degree, m + i - 1, -1):
            counts[u] -= counts[u - m - i]
        for u in range(i, degree + 1):
            counts[u] += counts[u - i]
    return tuple(accumulate(counts))


def _exact_p(u: float, n: int, m: int, alternative: Alternative) -> float:
    cumulative = _u_counts(n, m)
    every, whole = cumulative[-1], round(u)
    less = cumulative[whole] / every
    greater = cumulative[n * m - whole] / every
    if alternative == "two-sided":
        return min(1.0, 2 * min(less, greater))
    return greater if alternative == "greater" else less


def _exact_rank(n: int, m: int, confidence: float) -> int:
    """Order of the pair difference that bounds the shift: smallest with tail above (1 - confidence) / 2."""
    cumulative = _u_counts(n, m)
    tail = (1 - confidence) / 2 * cumulative[-1]
    return max(1, next(u for u, c in enumerate(cumulative) if c >= tail))


def _rank_sd(n: int, m: int, ties: Ints) -> float:
    every = n + m
    tied = float((ties.astype(np.float64) ** 3 - ties).sum()) / (every * (every - 1))
    return math.sqrt(n * m / 12 * (every + 1 - tied))


def _asymptotic_p(
    u: float, n: int, m: int, ties: Ints, alternative: Alternative, *, continuity: bool
) -> float:
    sd, shift = _rank_sd(n, m, ties), 0.5 if continuity else 0.0
    centred = u - n * m / 2
    if alternative == "greater":
        return float(ndtr(-(centred - shift) / sd))
    if alternative == "less":
        return float(ndtr((centred + shift) / sd))
    return min(1.0, 2 * float(ndtr(-(abs(centred) - shift) / sd)))


def _kth_difference(before: Floats, after: Floats, k: int) -> float:
    """k-th smallest of after_j - before_i over all pairs (both sorted), by bisection over the value."""
    low, high = float(after[0] - before[-1]), float(after[-1] - before[0])
    if k <= 1:
        return low
    if k >= len(before) * len(after):
        return high
    stop = 1e-13 * max(abs(low), abs(high), 1e-300)
    while high - low > stop:
        middle = (low + high) / 2
        if int(np.searchsorted(after, before + middle, "right").sum()) >= k:
            high = middle
        else:
            low = middle
    following = np.searchsorted(after, before + low, "right")
    inside = following < len(after)
    return float((after[following[inside]] - before[inside]).min())
