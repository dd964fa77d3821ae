"""Exact tests and intervals for rates of independent units."""

import math
from collections.abc import Mapping
from functools import lru_cache
from statistics import NormalDist
from typing import TypeVar

from prx.domain.answers import Interval

K = TypeVar("K")
_Z95 = NormalDist().inv_cdf(0.975)


def wilson(count: int, total: int, z: float = _Z95) -> Interval:
    """Score interval of a rate, 0..1; 0..1 whole without data. Source: Wilson 1927, JASA 22, eq. 4."""
    if total == 0:
        return Interval(0.0, 1.0)
    rate, square = count / total, z * z / total
    centre = (rate + square / 2) / (1 + square)
    half = z * math.sqrt(rate * (1 - rate) / total + square / (4 * total)) / (1 + square)
    return Interval(max(0.0, centre - half), min(1.0, centre + half))


def fisher_upper(count: int, total: int, rest_count: int, rest_total: int) -> float:
    """P of at least `count` bad ones among `total` when both groups share one rate (one-sided exact).

    Source: Fisher 1935; hypergeometric upper tail, conditional on both margins.
    """
    bad, every = count + rest_count, total + rest_total
    highest = min(total, bad)
    whole = _log_choose(every, total)
    terms = [
        math.exp(_log_choose(bad, k) + _log_choose(every - bad, total - k) - whole)
        for k in range(count, highest + 1)
        if total - k <= every - bad
    ]
    return min(1.0, math.fsum(terms))


def benjamini_hochberg(p_values: Mapping[K, float], q: float) -> frozenset[K]:
    """Keys called significant at false discovery rate `q`. Source: Benjamini and Hochberg 1995."""
    ordered = sorted(p_values.items(), key=lambda item: item[1])
    passing = [rank for rank, (_, p) in enumerate(ordered, 1) if p <= q * rank / len(ordered)]
    return frozenset(key for key, _ in ordered[: max(passing, default=0)])


def difference_lower(count: int, total: int, rest_count: int, rest_total: int, alpha: float) -> float:
    """One-sided lower bound of rate minus rest rate. Source: Newcombe 1998, Stat. Med. 17, method 10."""
    z = NormalDist().inv_cdf(1 - alpha)
    rate, rest = count / total, rest_count / rest_total
    below, above = rate - wilson(count, total, z).low, wilson(rest_count, rest_total, z).high - rest
    return rate - rest - math.hypot(below, above)


@lru_cache(maxsize=65536)
def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
