"""Exit probabilities of a score process at a few looks, and the boundaries that spend alpha over them."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real

from scipy.optimize import brentq
from scipy.special import ndtr

from prx.domain.errors import BadStatistics
from prx.stats.paths import Paths
from prx.stats.spending import Spending, spent

_FARTHEST = 8.0  # a bound beyond it is no bound
_NEGLIGIBLE = 1e-12  # alpha below it is kept for the next look: its bound could not be told from none


@dataclass(frozen=True, slots=True)
class Boundaries:
    """Stopping bounds, one entry per look.

    `upper_z`: reject upwards at z at or above it (`inf`: cannot stop at this look); for two sides the
    lower bound is its negative. `alpha_spent`: cumulative, over all sides. `nominal_p`: the p-value, over
    all sides, that equals the bound at this look alone.
    """

    fractions: tuple[float, ...]
    upper_z: tuple[float, ...]
    alpha_spent: tuple[float, ...]
    sides: int

    @property
    def nominal_p(self) -> tuple[float, ...]:
        return tuple(float(self.sides * ndtr(-z)) for z in self.upper_z)

    @property
    def lower_z(self) -> tuple[float, ...]:
        return tuple(-z if self.sides == 2 else -math.inf for z in self.upper_z)


@dataclass(frozen=True, slots=True)
class Crossing:
    """Probability that the first exit is at this look, upwards or downwards; `inside`: of none at all."""

    information: tuple[float, ...]
    upper: tuple[float, ...]
    lower: tuple[float, ...]

    @property
    def inside(self) -> float:
        return max(0.0, 1.0 - math.fsum(self.upper) - math.fsum(self.lower))

    @property
    def expected_information(self) -> float:
        """Mean information at the stop, or at the last look without one, in the unit of `information`."""
        stops = math.fsum(
            i * (u + d) for i, u, d in zip(self.information, self.upper, self.lower, strict=True)
        )
        return stops + self.inside * self.information[-1]


def boundaries(
    fractions: Sequence[float],
    *,
    alpha: float = 0.05,
    sides: int = 2,
    spending: Spending = "hsd:-4",
    spending_times: Sequence[float] | None = None,
    final: bool = False,
) -> Boundaries:
    """Return the bounds at which looks after the given `fractions` of the planned information may stop.

    Args:
        fractions: increasing, above 0; unequal steps, few or many looks, and a last one above 1 (an over-run,
            where all of alpha is spent) are fine. They set the correlation of the looks.
        alpha: error over all looks and sides together, in (0, 1) for two sides, (0, 0.5) for one.
        sides: 2 (symmetric) or 1 (upper).
        spending: see `prx.stats.Spending`.
        spending_times: share of alpha's clock per look, in [0, 1], where it differs from the information.
        final: the last look ends the experiment early: it spends whatever alpha is left.

    Raises: BadStatistics.
    """
    information = checked_information(fractions)
    check_level(alpha, sides)
    times = _spending_times(information, spending_times, final)
    if any(t >= 1.0 for t in times[:-1]):
        raise BadStatistics(
            f"a look before the last of {len(times)} already reached the planned information, where "
            "all alpha is spent; no look may follow it"
        )
    targets = tuple(float(spent(spending, t, alpha=alpha, sides=sides)) for t in times)
    return Boundaries(information, solve_upper(information, targets, sides=sides), targets, sides)


def solve_upper(
    information: Sequence[float],
    spent_by_look: Sequence[float],
    *,
    sides: int,
    frozen: Sequence[float] = (),
    limited: bool = True,
) -> tuple[float, ...]:
    """Return upper z bounds whose exit probabilities under no drift add up to `spent_by_look`, look by look.

    `frozen` holds bounds of earlier looks that were already used and stay as they are. A bound beyond 8, or
    one that would spend under 1e-12, is `inf` and its alpha goes to the next look, unless `limited` is off.
    """
    path = Paths(drift=0.0)
    bounds: list[float] = []
    before = 0.0
    for k, (here, target) in enumerate(zip(information, spent_by_look, strict=True)):
        if target < before - 1e-15:
            raise BadStatistics(
                f"look {k + 1} would take alpha back ({before!r} spent before, {target!r} now)"
            )
        if k < len(frozen):
            bound = frozen[k]
        else:
            bound = _bound(path, target - before, here, sides, limited)
        bounds.append(bound)
        if bound < math.inf:
            before = max(before, target)
        path = path.after(here, -bound if sides == 2 else -math.inf, bound)
    return tuple(bounds)


def solve_lower(
    information: Sequence[float], upper_z: Sequence[float], spent_by_look: Sequence[float], *, drift: float
) -> tuple[float, ...]:
    """Return lower z bounds, at most the upper ones, that paths with `drift` leave as told."""
    path = Paths(drift=drift)
    lower: list[float] = []
    used = 0.0
    for here, high, target in zip(information, upper_z, spent_by_look, strict=True):
        low = _lower_bound(path, target - used, here, min(high, 40.0))
        used += path.below(here, low)
        lower.append(low)
        path = path.after(here, low, high)
    return tuple(lower)


def _lower_bound(path: Paths, gain: float, information: float, highest: float) -> float:
    if gain <= _NEGLIGIBLE:
        return -math.inf
    if path.below(information, highest) <= gain:
        return highest
    return float(brentq(lambda z: path.below(information, z) - gain, -40.0, highest, xtol=1e-9))


def _bound(path: Paths, gain: float, information: float, sides: int, limited: bool) -> float:
    if gain <= (_NEGLIGIBLE if limited else 0.0):
        return math.inf
    bound = path.bound_for(gain / sides, information)
    return math.inf if limited and bound > _FARTHEST else bound


def crossing(
    information: Sequence[float],
    upper_z: Sequence[float],
    lower_z: Sequence[float] | None = None,
    *,
    drift: float = 0.0,
) -> Crossing:
    """Return the exit probabilities at each look when E Z_k = `drift` * sqrt(information_k).

    `lower_z` defaults to the mirror of `upper_z`; infinite bounds are allowed on either side.
    """
    info = checked_information(information)
    lower = tuple(-z for z in upper_z) if lower_z is None else tuple(lower_z)
    if not len(info) == len(upper_z) == len(lower):
        raise BadStatistics(f"{len(info)} looks, but {len(upper_z)} upper and {len(lower)} lower bounds")
    if not math.isfinite(drift) or any(math.isnan(z) for z in (*upper_z, *lower)):
        raise BadStatistics("drift and bounds must be numbers; one of them is not")
    path = Paths(drift=drift)
    ups, downs = [], []
    for here, low, high in zip(info, lower, upper_z, strict=True):
        if low > high:
            raise BadStatistics(f"the lower bound {low!r} is above the upper bound {high!r}")
        ups.append(path.above(here, high))
        downs.append(path.below(here, low))
        path = path.after(here, low, high)
    return Crossing(info, tuple(ups), tuple(downs))


class UpwardExits:
    """P(some exit is upwards) as a function of the drift, for looks with bounds on both sides.

    The recursion runs once without drift; other drifts reweight its paths.
    """

    __slots__ = ("_steps",)

    def __init__(
        self, information: Sequence[float], upper_z: Sequence[float], lower_z: Sequence[float]
    ) -> None:
        path = Paths(drift=0.0)
        self._steps: list[tuple[Paths, float, float]] = []
        for here, low, high in zip(checked_information(information), lower_z, upper_z, strict=True):
            self._steps.append((path, here, high))
            path = path.after(here, low, high)

    def __call__(self, drift: float) -> float:
        return math.fsum(path.above(here, high, drift) for path, here, high in self._steps)


def checked_information(values: Sequence[float]) -> tuple[float, ...]:
    """Return `values` as floats; raises BadStatistics unless they are finite, above 0 and increasing."""
    try:
        info = tuple(float(v) for v in values)
    except (TypeError, ValueError) as error:
        raise BadStatistics(f"information must be a flat sequence of numbers: {error}") from error
    if not info:
        raise BadStatistics("no look given; at least one information fraction is needed")
    if not all(math.isfinite(v) and v > 0.0 for v in info):
        raise BadStatistics(f"information must be finite and above 0, got {info}")
    if any(b <= a for a, b in itertools.pairwise(info)):
        raise BadStatistics(f"information must increase from look to look, got {info}")
    return info


def check_level(alpha: float, sides: int) -> None:
    """Raise BadStatistics unless `sides` is 1 or 2 and `alpha` lies in (0, 1)."""
    if sides not in (1, 2):
        raise BadStatistics(f"sides must be 1 or 2, got {sides!r}")
    if not (isinstance(alpha, Real) and 0.0 < alpha < 1.0):
        raise BadStatistics(f"alpha must be a number in (0, 1), got {alpha!r}")


def _spending_times(
    information: tuple[float, ...], given: Sequence[float] | None, final: bool
) -> tuple[float, ...]:
    times = tuple(min(1.0, t) for t in information) if given is None else tuple(float(t) for t in given)
    if len(times) != len(information):
        raise BadStatistics(f"{len(information)} looks but {len(times)} spending times")
    if not all(0.0 <= t <= 1.0 for t in times):
        raise BadStatistics(f"spending times must lie in [0, 1], got {times}")
    return (*times[:-1], 1.0) if final else times
