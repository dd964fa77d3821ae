"""What the looks so far say: p-values, intervals and an estimate that allow for having looked."""

import math
from dataclasses import dataclass

from scipy.special import ndtr, stdtrit

from prx.domain.answers import Interval, NotEnoughData
from prx.domain.errors import BadStatistics
from prx.stats.groupsequential import UpwardExits, solve_upper
from prx.stats.power import futility_bounds, root_of
from prx.stats.spending import spent
from prx.stats.stopping import SIDES, Design, Look, State, bounds_at, independent_looks

_LEAST_P = 1e-12  # smaller repeated p-values are reported as this
_STEP, _FARTHEST = 9.0, 200.0  # search for a drift, in standard errors


@dataclass(frozen=True, slots=True)
class Inference:
    """The reading at the latest look; effects and intervals are in the unit of the estimate.

    `p_value`: repeated p, the smallest alpha whose bound was crossed at any look so far (two-sided; at
    least 1e-12). `p_upper`: the same, one-sided, for gains alone. `p_naive`: as if this were the only look.
    `interval`: repeated confidence interval at 1 - alpha, valid at every look. `median_unbiased`,
    `stagewise_interval`, `p_stagewise`: by stage-wise ordering, as if the experiment stopped here.
    """

    estimate: float
    standard_error: float
    p_value: float
    p_upper: float
    p_naive: float
    interval: Interval | NotEnoughData
    median_unbiased: float
    stagewise_interval: Interval
    p_stagewise: float


def infer(
    design: Design, state: State, *, estimate: float, standard_error: float, df: float = math.inf
) -> Inference | NotEnoughData:
    """Return the reading at the latest look of `state`, whose estimate, standard error and df are given.

    Sources: repeated intervals, Jennison and Turnbull (1989); stage-wise ordering, Tsiatis, Rosner and
    Mehta (1984), where only looks that crossed no bound count as passed: one that crossed without ending
    the experiment was no stop. Raises: BadStatistics if the numbers are not those of the latest look.
    """
    if not state.looks:
        return NotEnoughData("no look has been taken yet")
    here = state.looks[-1]
    if not (standard_error > 0.0 and math.isfinite(estimate) and math.isfinite(standard_error)):
        raise BadStatistics(f"estimate {estimate!r} with standard error {standard_error!r} is no measurement")
    half = _half_width(here.upper_z, standard_error, df)
    # Scaled by the z that was tested: estimate, interval and p then agree with few degrees of freedom too.
    scale = estimate / here.z if abs(here.z) > 1e-6 else standard_error
    if scale < standard_error * (1.0 - 1e-6):
        raise BadStatistics(
            f"estimate {estimate:g} and standard error {standard_error:g} do not belong to z = {here.z:g}; "
            "pass the numbers that the latest look was taken with"
        )
    ordering = _StageWise(state.looks)
    tail = ordering.at_least(0.0)
    return Inference(
        estimate=estimate,
        standard_error=standard_error,
        p_value=repeated_p(design, state),
        p_upper=repeated_upper_p(design, state),
        p_naive=float(2.0 * ndtr(-abs(here.z))),
        interval=half if isinstance(half, NotEnoughData) else Interval(estimate - half, estimate + half),
        median_unbiased=scale * ordering.drift_at(0.5),
        stagewise_interval=Interval(
            scale * ordering.drift_at(design.alpha / 2.0), scale * ordering.drift_at(1.0 - design.alpha / 2.0)
        ),
        p_stagewise=min(1.0, 2.0 * min(tail, 1.0 - tail)),
    )


def repeated_p(design: Design, state: State) -> float:
    """Return the smallest two-sided alpha, in [1e-12, 1], at which some look would have crossed its bound.

    It never increases from look to look.
    """
    return _repeated_p(design, state, upward=False)


def repeated_upper_p(design: Design, state: State) -> float:
    """Return the same for upward crossings alone, as a one-sided level: in (0, 0.5), or 1 without any."""
    p = _repeated_p(design, state, upward=True)
    return p / 2.0 if p < 1.0 else 1.0


def _repeated_p(design: Design, state: State, *, upward: bool) -> float:
    if not state.looks:
        raise BadStatistics("no look has been taken yet; there is no p-value")
    reached = [k.z if upward else abs(k.z) for k in state.looks]

    def excess(log_alpha: float) -> float:
        bounds = bounds_at(design, state.looks, math.exp(log_alpha))
        return max(z - min(bound, 40.0) for z, bound in zip(reached, bounds, strict=True))

    # No bound is closer than the nominal one, so p is at least the smallest nominal p of all looks.
    nominal = float(2.0 * ndtr(-max(reached)))
    low, high = math.log(max(_LEAST_P, 0.999 * nominal)), math.log1p(-1e-9)
    if low >= high:
        return 1.0
    if excess(low) >= 0.0:
        return _LEAST_P
    if excess(high) <= 0.0:
        return 1.0
    return math.exp(root_of(excess, low, high, what="a repeated p-value", tolerance=1e-9))


def stagewise_tail(looks: tuple[Look, ...], drift: float) -> float:
    """Return P(a result at least as high, by stage-wise ordering) when E Z at the latest look is `drift`."""
    return _StageWise(looks).at_least(drift)


def futility_z(design: Design, state: State, *, standard_error: float) -> float:
    """Return the z at or below which the latest look is futile (see `futility_bounds`), else `-inf`."""
    if not state.looks:
        return -math.inf
    looks = independent_looks(state.looks)
    effect = design.delta / (standard_error * math.sqrt(looks[-1].information))
    return futility_bounds(
        [k.information for k in looks],
        [k.upper_z for k in looks],
        effect=effect,
        beta=1.0 - design.power,
        spending=design.futility_spending,
        spending_times=[k.fraction for k in looks],
    )[-1]


def conditional_power(design: Design, state: State, *, drift_at_maximum: float) -> float:
    """Return P(the final look, at maximum information, crosses upwards) given the latest z.

    `drift_at_maximum` is E Z at maximum information under the effect of interest, for instance the effect
    over the standard error expected there.
    """
    if not state.looks:
        raise BadStatistics("no look has been taken yet; power is then unconditional (prx.stats.power_of)")
    here = state.looks[-1]
    end = design.max_information
    if here.final or here.information >= end:
        return 1.0 if here.crossed == "up" else 0.0
    targets = [spent(design.spending, k.fraction, alpha=design.alpha, sides=SIDES) for k in state.looks]
    bound = solve_upper(
        [*(k.information for k in state.looks), end],
        [*targets, design.alpha],
        sides=SIDES,
        frozen=[k.upper_z for k in state.looks],
    )[-1]
    gap = end - here.information
    ahead = drift_at_maximum * gap / math.sqrt(end)
    away = bound * math.sqrt(end) - here.z * math.sqrt(here.information) - ahead
    return float(ndtr(-away / math.sqrt(gap)))


def _half_width(bound: float, standard_error: float, df: float) -> float | NotEnoughData:
    if bound == math.inf:
        return NotEnoughData("this look could not stop (its bound lies beyond 8); the interval is unbounded")
    if math.isinf(df):
        return bound * standard_error
    quantile = -float(stdtrit(df, ndtr(-bound))) if df > 0.0 else math.nan
    if not math.isfinite(quantile):
        return NotEnoughData(f"too few degrees of freedom ({df:g}) for an interval at this look")
    return quantile * standard_error


class _StageWise:
    """P(at least as high) by stage-wise ordering, as a function of the drift E Z at the latest look."""

    __slots__ = ("_exits", "_root", "_z")

    def __init__(self, looks: tuple[Look, ...]) -> None:
        here = looks[-1]
        told_apart = len(independent_looks(looks)) == len(looks)
        past = [k for k in looks[:-1] if told_apart and k.crossed == "none"]
        self._exits = UpwardExits(
            [*(k.information for k in past), here.information],
            [*(k.upper_z for k in past), here.z],
            [*(-k.upper_z for k in past), -math.inf],
        )
        self._root = math.sqrt(here.information)
        self._z = here.z

    def at_least(self, drift: float) -> float:
        return self._exits(drift / self._root)

    def drift_at(self, probability: float) -> float:
        """The drift at which `probability` of the results are at least as high as this one."""
        low, high = self._z - _STEP, self._z + _STEP
        # After a leap no drift explains both the looks before and this one: the answer then lies far from z.
        while self.at_least(low) > probability and low > -_FARTHEST:
            low -= _STEP
        while self.at_least(high) < probability and high < _FARTHEST:
            high += _STEP
        return root_of(
            lambda drift: self.at_least(drift) - probability,
            low,
            high,
            what="an estimate by stage-wise ordering",
            tolerance=1e-9,
        )
