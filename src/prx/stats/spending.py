"""Alpha-spending functions: how much of the error rate may be used by a given share of the information."""

import math
from collections.abc import Callable

from scipy.special import ndtr, ndtri

from prx.domain.errors import BadStatistics

Spending = str | Callable[[float], float]
"""`"hsd:GAMMA"`, `"obf"`, `"pocock"`, `"power:RHO"`, or a function of the information fraction t in [0, 1].

A function may return either the share of alpha spent by t (so that f(1) = 1) or the alpha itself
(so that f(1) = alpha, over all sides together); which of the two is read from f(1).
"""


def spent(spending: Spending, t: float, *, alpha: float, sides: int = 2) -> float:
    """Return the alpha spent by information fraction `t`, over all sides together, in [0, alpha].

    The named families apply to each side with alpha / sides: Hwang, Shih and DeCani (1990)
    a (1 - exp(-gamma t)) / (1 - exp(-gamma)); Lan and DeMets (1983), O'Brien-Fleming type
    2 - 2 Phi(z_{1 - a/2} / sqrt t) and Pocock type a ln(1 + (e - 1) t); Kim and DeMets (1987) a t^rho.

    Raises: BadStatistics for an unknown family, a parameter or `t` out of range, or a function whose
    value at 1 is neither 1 nor alpha.
    """
    if not 0.0 <= t <= 1.0:
        raise BadStatistics(
            f"spending time {t!r} is outside [0, 1]; give the share of the planned information"
        )
    if callable(spending):
        return _spent_by_function(spending, t, alpha)
    family, _, text = str(spending).partition(":")
    if family in ("obf", "pocock") and not text:
        return sides * _lan_demets(family, t, alpha / sides)
    if family in ("hsd", "power"):
        return alpha * _share(family, _parameter(spending, text), t)
    raise BadStatistics(
        f"unknown spending {spending!r}; use hsd:GAMMA (hsd:-4), obf, pocock, power:RHO (power:2) or f(t)"
    )


def _lan_demets(family: str, t: float, alpha_side: float) -> float:
    if t == 0.0:
        return 0.0
    if family == "obf":
        return float(2.0 * ndtr(ndtri(alpha_side / 2.0) / math.sqrt(t)))
    return alpha_side * math.log1p((math.e - 1.0) * t)


def _share(family: str, parameter: float, t: float) -> float:
    if family == "hsd":
        return t if parameter == 0.0 else math.expm1(-parameter * t) / math.expm1(-parameter)
    if parameter <= 0.0:
        raise BadStatistics(
            f"power:{parameter:g} would spend alpha before any data; the exponent must be above 0"
        )
    return math.pow(t, parameter)


def _parameter(spending: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not abs(value) <= 50.0:
        raise BadStatistics(
            f"spending {spending!r} needs a number between -50 and 50 after the colon, as in hsd:-4"
        )
    return value


def _spent_by_function(spending: Callable[[float], float], t: float, alpha: float) -> float:
    try:
        total, value = float(spending(1.0)), float(spending(t))
    except (TypeError, ValueError) as error:
        raise BadStatistics(f"the spending function must give a number: {error}") from error
    if math.isclose(total, 1.0, rel_tol=1e-9):
        value *= alpha
    elif not math.isclose(total, alpha, rel_tol=1e-9):
        raise BadStatistics(
            f"the spending function gives {total!r} at t = 1; it must give 1 (a share) or alpha = {alpha!r}"
        )
    if not 0.0 <= value <= alpha * (1.0 + 1e-9):
        raise BadStatistics(f"the spending function spends {value!r} at t = {t!r}, outside [0, {alpha!r}]")
    return min(value, alpha)
