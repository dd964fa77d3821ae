"""What a sequence of looks costs and gains: power, inflation over the fixed sample, expected information."""

import math
from collections.abc import Callable, Sequence

from scipy.optimize import brentq
from scipy.special import ndtri

from prx.domain.errors import BadStatistics
from prx.stats.groupsequential import boundaries, checked_information, crossing, solve_lower
from prx.stats.spending import Spending, spent


def fixed_information(delta: float, *, alpha: float = 0.05, sides: int = 2, power: float = 0.8) -> float:
    """Return the information 1 / SE^2 at which one look sees an effect `delta` with `power`.

    ((z_{1 - alpha / sides} + z_power) / delta)^2, in 1 / (unit of delta)^2. With standard deviation s and n
    units in each of two arms the information is n / (2 s^2).
    """
    check_effect(delta)
    return (_shift(alpha, sides, power) / delta) ** 2


def power_of(
    information: Sequence[float], upper_z: Sequence[float], *, effect: float, sides: int = 2
) -> float:
    """Return the probability to stop above an upper bound when the true effect is `effect`."""
    lower = tuple(-z if sides == 2 else -math.inf for z in upper_z)
    return math.fsum(crossing(information, upper_z, lower, drift=effect).upper)


def drift_for_power(
    fractions: Sequence[float], upper_z: Sequence[float], *, sides: int = 2, power: float = 0.8
) -> float:
    """Return E Z at information fraction 1 at which the upper bounds are crossed with probability `power`."""
    check_power(power)

    def missing(drift: float) -> float:
        return power_of(fractions, upper_z, effect=drift, sides=sides) - power

    return root_of(missing, 0.0, 40.0, what=f"drift with power {power}")


def inflation(
    fractions: Sequence[float],
    *,
    alpha: float = 0.05,
    sides: int = 2,
    spending: Spending = "hsd:-4",
    power: float = 0.8,
    futility: str | None = None,
) -> float:
    """Return Phi: maximum information of the design over that of the one-look test with equal power.

    With `futility` (a spending family for 1 - power) stopping below the futility bounds is acted on, and the
    inflation also pays for the power that this costs; alpha is computed without it (non-binding).
    """
    bounds = boundaries(fractions, alpha=alpha, sides=sides, spending=spending)
    if futility is None:
        drift = drift_for_power(fractions, bounds.upper_z, sides=sides, power=power)
    else:
        drift = drift_with_futility(fractions, bounds.upper_z, beta=1.0 - power, spending=futility)
    return (drift / _shift(alpha, sides, power)) ** 2


def futility_bounds(
    information: Sequence[float],
    upper_z: Sequence[float],
    *,
    effect: float,
    beta: float,
    spending: str,
    spending_times: Sequence[float] | None = None,
) -> tuple[float, ...]:
    """Return z below which a look makes it unlikely to end above the last bound, were `effect` true.

    The lower bounds spend `beta` (the missed share at `effect`) over the looks while upper bounds hold; they
    never reach above the upper bound. Advice by default: alpha does not rely on them.
    Source: Pampallona, Tsiatis and Kim (2001), non-binding form.
    """
    info = checked_information(information)
    check_effect(effect)
    check_power(beta)
    times = [min(1.0, i) for i in info] if spending_times is None else list(spending_times)
    targets = [spent(spending, t, alpha=beta, sides=1) for t in times]
    return solve_lower(info, upper_z, targets, drift=effect)


def drift_with_futility(
    fractions: Sequence[float], upper_z: Sequence[float], *, beta: float, spending: str
) -> float:
    """Return E Z at fraction 1 at which, stopping for futility, power is 1 - `beta`."""

    def gap(drift: float) -> float:
        lower = futility_bounds(fractions, upper_z, effect=drift, beta=beta, spending=spending)
        exits = crossing(fractions, upper_z, (*lower[:-1], upper_z[-1]), drift=drift)
        return math.fsum(exits.upper) - (1.0 - beta)

    return root_of(gap, 0.5, 10.0, what=f"drift with power {1 - beta} under futility", tolerance=1e-7)


def root_of(
    function: Callable[[float], float], low: float, high: float, *, what: str, tolerance: float = 1e-10
) -> float:
    """Return the root in [low, high]; raises BadStatistics, naming `what`, when there is no sign change."""
    try:
        return float(brentq(function, low, high, xtol=tolerance, rtol=1e-12))
    except ValueError as error:
        raise BadStatistics(
            f"found no {what} between {low:g} and {high:g}; the inputs contradict it"
        ) from error


def check_effect(delta: float) -> None:
    """Raise BadStatistics unless `delta` is a finite effect above 0."""
    if not (math.isfinite(delta) and delta > 0.0):
        raise BadStatistics(f"the effect must be finite and above 0, got {delta!r}")


def check_power(power: float) -> None:
    """Raise BadStatistics unless `power` lies in (0, 1)."""
    if not 0.0 < power < 1.0:
        raise BadStatistics(f"power and its complement must lie in (0, 1), got {power!r}")


def _shift(alpha: float, sides: int, power: float) -> float:
    check_power(power)
    return float(ndtri(1.0 - alpha / sides) + ndtri(power))
