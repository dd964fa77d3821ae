"""Student t tails on the normal scale, exact where ordinary tail functions underflow to 0."""

import math

from scipy.special import betaln, ndtri, ndtri_exp, stdtr, stdtrit

from prx.domain.answers import Interval
from prx.domain.errors import BadStatistics

_UNDERFLOW = 1e-290


def t_to_z(t: float, df: float) -> float:
    """Normal deviate with the same tail as `t` under Student's law with `df` > 0 degrees of freedom.

    Keeps the sign and stays finite and monotone for any finite `t`. Raises: BadStatistics.
    """
    if not (math.isfinite(t) and df > 0):
        raise BadStatistics(
            f"a t of {t} with {df} degrees of freedom has no tail; give a finite t and df above 0"
        )
    tail = float(stdtr(df, -abs(t)))
    z = -float(ndtri(tail)) if tail > _UNDERFLOW else -float(ndtri_exp(_log_tail(abs(t), df)))
    return math.copysign(z, t)


def two_sided_p(t: float, df: float) -> float:
    """P(|T| >= |t|) in 0..1 under Student's law; 0.0 only where the value is below the smallest float."""
    return min(1.0, 2 * float(stdtr(df, -abs(t))))


def upper_p(t: float, df: float) -> float:
    """P(T >= t) in 0..1 under Student's law."""
    return float(stdtr(df, -t))


def t_interval(estimate: float, se: float, df: float, confidence: float) -> Interval:
    """Central interval `estimate` +- t quantile x `se`, unit of `estimate`; `confidence` in (0, 1)."""
    if not 0 < confidence < 1:
        raise BadStatistics(f"confidence is {confidence}; give a value between 0 and 1, such as 0.95")
    half = float(stdtrit(df, 0.5 + confidence / 2)) * se
    return Interval(estimate - half, estimate + half)


def _log_tail(t: float, df: float) -> float:
    """log P(T >= t), t > 0: continued fraction of the incomplete beta function (NIST DLMF 8.17.22)."""
    a, b = df / 2, 0.5
    log_x = -math.log1p(t * t / df)
    x = math.exp(log_x)
    log_1mx = 2 * math.log(t) - math.log(df + t * t)
    front = a * log_x + b * log_1mx - float(betaln(a, b)) - math.log(a)
    return math.log(0.5) + front - math.log(_continued_fraction(a, b, x))


def _continued_fraction(a: float, b: float, x: float) -> float:
    """Denominator 1 + d1/(1 + d2/(1 + ...)) of DLMF 8.17.22, evaluated from the tail inward."""
    value = 1.0
    for m in range(2000, 0, -1):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m - 1) * (a + b + m - 1) * x / ((a + 2 * m - 2) * (a + 2 * m - 1))
        value = 1.0 + odd / (1.0 + even / value)
    return value
