"""Intervals that stay valid however often one looks: exact for scores in [0, 1], and asymptotic.

The exact one needs one value in [0, 1] per independent unit, each counted once and when its value is
final (a unit's first scored session, or its mean at the look in which it first appears). It holds from the
first unit on and at any mean, 0 and 1 included. The asymptotic one takes any cluster-robust estimate; its
range is stated at `asymptotic_interval`.
"""

import math
from dataclasses import dataclass
from typing import Literal

from scipy.optimize import brentq
from scipy.special import betaln, log_ndtr

from prx.domain.answers import Interval, NotEnoughData
from prx.domain.errors import BadStatistics

_EDGE = 1e-12


@dataclass(frozen=True, slots=True)
class Tally:
    """Units with a value in [0, 1] and their sum; `+` pools disjoint units, in any order."""

    n: int = 0
    total: float = 0.0

    def __post_init__(self) -> None:
        if self.n < 0 or not -1e-9 <= self.total <= self.n + 1e-9:
            raise BadStatistics(
                f"{self.n} values in 0 to 1 cannot sum to {self.total}; check the score's range"
            )

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(self.n + other.n, self.total + other.total)


def exact_interval(arm: Tally, *, alpha: float = 0.05, best_at: int = 500) -> Interval | NotEnoughData:
    """Confidence sequence for the mean of independent values in [0, 1], at every sample size at once.

    All means p that the mixture of bets Beta(r / (1 - p), r / p), centred at p, has not rejected:
    B(r/(1-p) + S, r/p + n - S) / B(r/(1-p), r/p) < p^S (1-p)^(n-S) / alpha. alpha: error over all looks,
    both sides together. best_at: units at which it is tightest; fixed before the first look.
    Returns bounds in 0..1. Source: Howard, Ramdas, McAuliffe and Sekhon 2021 (Ann. Stat. 49,
    arXiv:1810.08240: two-sided beta-binomial mixture, sub-Bernoulli for any bounded value by convexity).
    """
    _check_alpha(alpha)
    if best_at < 1:
        raise BadStatistics(f"best_at is {best_at}; give the number of units at which it should be tightest")
    if arm.n == 0:
        return NotEnoughData("no unit of this arm has a score yet")
    limit = -math.log(alpha)
    mean = min(1.0, max(0.0, arm.total / arm.n))

    def excess(p: float) -> float:
        return _log_wealth(arm, p, alpha, best_at) - limit

    top = 1 - _EDGE
    inner = min(max(mean, _EDGE), top)
    low = 0.0 if mean <= _EDGE or excess(_EDGE) <= 0 else float(brentq(excess, _EDGE, inner, xtol=1e-12))
    high = 1.0 if mean >= top or excess(top) <= 0 else float(brentq(excess, inner, top, xtol=1e-12))
    return Interval(low, high)


def exact_difference(
    control: Tally, treatment: Tally, *, alpha: float = 0.05, best_at: int = 500
) -> Interval | NotEnoughData:
    """Confidence sequence for treatment mean minus control mean, alpha halved over the arms.

    Valid at any looks, also where the arms fill at different speeds. Returns bounds in -1..1.
    """
    before = exact_interval(control, alpha=alpha / 2, best_at=best_at)
    after = exact_interval(treatment, alpha=alpha / 2, best_at=best_at)
    if isinstance(before, NotEnoughData):
        return before
    if isinstance(after, NotEnoughData):
        return after
    return Interval(after.low - before.high, after.high - before.low)


def asymptotic_interval(
    estimate: float, se: float, *, planned_information: float, alpha: float = 0.05
) -> Interval:
    """Asymptotic confidence sequence around a cluster-robust estimate, unit of `estimate`.

    planned_information: 1 / se^2 at which it should be tightest, fixed before the first look.
    Range: looks from 100 sessions and 20 effective units per arm on, split within 0.4..0.6, scores whose
    smaller arm has 20 or more units away from its most common value; outside it use `exact_difference`.
    Source: Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas 2024 (Ann. Stat. 52,
    arXiv:2103.06476: Gaussian-mixture asymptotic confidence sequence).
    """
    if not math.isfinite(estimate):
        raise BadStatistics(f"the estimate is {estimate}; an interval needs a finite one")
    information = _positive(se) ** -2
    half = critical_z(information, planned_information=planned_information, alpha=alpha) * se
    return Interval(estimate - half, estimate + half)


def critical_z(
    information: float, *, planned_information: float, alpha: float = 0.05, sides: Literal[1, 2] = 2
) -> float:
    """The |z| (sides 2) or z (sides 1) that a confidence sequence asks for at this information, 1 / se^2.

    x = c information / planned_information, tightest there with c = -2 ln a + ln(1 - 2 ln a).
    Sides 2: sqrt((1 + 1/x)(ln(1 + x) - 2 ln alpha)), a = alpha. Sides 1:
    sqrt(2 (1 + 1/x) ln(1 + sqrt(1 + x) / (2 alpha))), a = 2 alpha.
    Source: Waudby-Smith et al. 2024 (Ann. Stat. 52), two-sided and one-sided Gaussian mixture.
    """
    x = _tuned(_level(alpha, sides)) * _positive(information) / _positive(planned_information)
    if sides == 2:
        return math.sqrt((1 + 1 / x) * (math.log1p(x) - 2 * math.log(alpha)))
    return math.sqrt(2 * (1 + 1 / x) * math.log1p(math.sqrt(1 + x) / (2 * alpha)))


def anytime_p(
    z: float, information: float, *, planned_information: float, alpha: float = 0.05, sides: Literal[1, 2] = 2
) -> float:
    """Always-valid p of one look, 0..1: the level at which `critical_z` would just be reached.

    The tuning stays that of `alpha`, so the running minimum over looks is an always-valid p too.
    """
    if not math.isfinite(z):
        raise BadStatistics(f"z is {z}; an estimate without spread decides nothing")
    x = _tuned(_level(alpha, sides)) * _positive(information) / _positive(planned_information)
    if sides == 2:
        return math.exp(min(0.0, 0.5 * (math.log1p(x) - z * z / (1 + 1 / x))))
    exponent = max(0.0, z) ** 2 / (2 * (1 + 1 / x))
    if exponent > 700:
        return math.exp(max(-745.0, 0.5 * math.log1p(x) - math.log(2) - exponent))
    return min(1.0, math.sqrt(1 + x) / (2 * math.expm1(exponent))) if exponent > 0 else 1.0


def normal_mixture_bound(v: float, *, alpha: float, rho: float, sides: Literal[1, 2] = 2) -> float:
    """Uniform boundary on a sum with variance process `v` under a normal mixture of variance 1 / rho.

    sides 2: sqrt((v + rho) ln((v + rho) / (rho alpha^2))); sides 1: half-normal mixture, by root search.
    Source: Howard et al. 2021, two-sided and one-sided normal mixture.
    """
    _check_alpha(alpha)
    spread = _positive(v) + _positive(rho)
    two_sided = math.sqrt(spread * math.log(spread / (rho * alpha**2)))
    if sides == 2:
        return two_sided

    def excess(s: float) -> float:
        return log_normal_mixture(s, v, rho=rho, sides=1) + math.log(alpha)

    return float(brentq(excess, 0.0, 2 * two_sided + 1.0, xtol=1e-10))


def log_normal_mixture(s: float, v: float, *, rho: float, sides: Literal[1, 2] = 2) -> float:
    """Log of the mixture supermartingale at sum `s` and variance `v`; 1 / alpha is its boundary."""
    spread = _positive(v) + _positive(rho)
    two_sided = 0.5 * math.log(rho / spread) + s * s / (2 * spread)
    if sides == 2:
        return two_sided
    return two_sided + math.log(2) + float(log_ndtr(s / math.sqrt(spread)))


def tightest_rho(v: float, *, alpha: float, sides: Literal[1, 2] = 2) -> float:
    """rho for which a normal mixture boundary is about lowest at variance `v`.

    v / (-2 ln a + ln(1 - 2 ln a)), a = alpha, or 2 alpha one-sided. Source: Howard et al. 2021, tuning.
    """
    return _positive(v) / _tuned(_level(alpha, sides))


def _log_wealth(arm: Tally, p: float, alpha: float, best_at: int) -> float:
    q = 1 - p
    # The mixture's spread follows the normal one, tightest at best_at units; kept above 0 near the ends.
    weight = max(tightest_rho(best_at * p * q, alpha=alpha) - p * q, 1e-3 * p * q)
    a, b = weight / q, weight / p
    total = min(max(arm.total, 0.0), float(arm.n))
    mixed = float(betaln(a + total, b + arm.n - total) - betaln(a, b))
    return mixed - total * math.log(p) - (arm.n - total) * math.log1p(-p)


def _level(alpha: float, sides: Literal[1, 2]) -> float:
    _check_alpha(alpha)
    level = alpha if sides == 2 else 2 * alpha
    if level >= 1:
        raise BadStatistics(f"a one-sided alpha is below 0.5, not {alpha}")
    return level


def _tuned(level: float) -> float:
    return -2 * math.log(level) + math.log1p(-2 * math.log(level))


def _positive(value: float) -> float:
    if not (math.isfinite(value) and value > 0):
        raise BadStatistics(f"{value} is no spread or information; it must be finite and above 0")
    return value


def _check_alpha(alpha: float) -> None:
    if not 0 < alpha < 1:
        raise BadStatistics(f"alpha is {alpha}; give a value between 0 and 1, such as 0.05")
