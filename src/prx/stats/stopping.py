"""The running design of one experiment: a frozen plan, and a fold over ticks that decides when to look."""

import hashlib
import math
from dataclasses import asdict, dataclass, replace
from typing import Literal

from scipy.special import ndtri

from prx.domain.errors import BadStatistics
from prx.stats.groupsequential import check_level, solve_upper
from prx.stats.power import check_effect, check_power, fixed_information, inflation
from prx.stats.spending import spent

Unit = Literal["inverse_variance", "sessions_per_arm"]
Direction = Literal["up", "down", "none"]

SIDES = 2  # running designs are symmetric: harm is as much a finding as gain
_SAME_INFORMATION = 1e-4  # a smaller relative gain cannot be told from the look before


class PlanEdited(BadStatistics):
    """The plan differs from the one that the looks so far were taken under."""


class TimeWentBackwards(BadStatistics):
    """A tick is older than one that was already taken."""


class NoAlphaLeft(BadStatistics):
    """The final look has been taken; nothing may be tested after it."""


@dataclass(frozen=True, slots=True)
class Design:
    """Everything about the looks that is fixed at creation.

    `alpha` over both sides and all looks; `delta` the effect to see, in fitness points; `inflation` Phi;
    `max_information` in `unit`: 1 / fitness points^2, or sessions per arm where the sample was given as a
    number; `min_gain` the least gain of information fraction that makes a tick a look; `act_on_futility`
    whether futility (beta = 1 - power, spent by `futility_spending`) ends the experiment or is only shown.
    """

    max_information: float
    delta: float = 0.02
    alpha: float = 0.05
    spending: str = "hsd:-4"
    power: float = 0.8
    planned_looks: int = 30
    inflation: float = 1.0
    unit: Unit = "inverse_variance"
    min_gain: float = 0.02
    futility_spending: str = "hsd:-4"
    act_on_futility: bool = False

    def __post_init__(self) -> None:
        check_level(self.alpha, SIDES)
        check_effect(self.delta)
        check_power(self.power)
        if not (math.isfinite(self.max_information) and self.max_information > 0.0):
            raise BadStatistics(f"max_information must be finite and above 0, got {self.max_information!r}")
        if not 0.0 < self.min_gain < 1.0:
            raise BadStatistics(f"min_gain must lie in (0, 1), got {self.min_gain!r}")
        spent(self.spending, 1.0, alpha=self.alpha, sides=SIDES)
        spent(self.futility_spending, 1.0, alpha=1.0 - self.power, sides=1)

    @property
    def plan_id(self) -> str:
        """A digest of every field: equal for equal plans in any process."""
        text = repr(sorted(asdict(self).items()))
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class Look:
    """One look: what was known, and the bound it was held against; never changed afterwards."""

    hours: float
    information: float
    fraction: float
    z: float
    upper_z: float
    alpha_spent: float
    final: bool

    @property
    def crossed(self) -> Direction:
        if self.z >= self.upper_z:
            return "up"
        return "down" if self.z <= -self.upper_z else "none"


@dataclass(frozen=True, slots=True)
class State:
    """The looks so far; `ticks` counts all ticks, `note` says why the latest one was no look (else empty)."""

    plan_id: str
    looks: tuple[Look, ...] = ()
    hours: float = 0.0
    ticks: int = 0
    note: str = ""

    @property
    def ended(self) -> bool:
        return bool(self.looks) and self.looks[-1].final


def design_by_power(
    delta: float = 0.02,
    *,
    alpha: float = 0.05,
    spending: str = "hsd:-4",
    power: float = 0.8,
    planned_looks: int = 30,
    act_on_futility: bool = False,
    futility_spending: str = "hsd:-4",
) -> Design:
    """Return the design that sees `delta` with `power` in at most I_max.

    I_max = Phi ((z_{1 - alpha / 2} + z_power) / delta)^2, in 1 / fitness points^2, whatever the spread of
    the scores. Phi is the inflation for `planned_looks` equal looks.
    """
    if planned_looks < 1:
        raise BadStatistics(f"planned_looks must be at least 1, got {planned_looks}")
    phi = inflation(
        [(k + 1) / planned_looks for k in range(planned_looks)],
        alpha=alpha,
        spending=spending,
        power=power,
        futility=futility_spending if act_on_futility else None,
    )
    return Design(
        max_information=phi * fixed_information(delta, alpha=alpha, power=power),
        delta=delta,
        alpha=alpha,
        spending=spending,
        power=power,
        planned_looks=planned_looks,
        inflation=phi,
        futility_spending=futility_spending,
        act_on_futility=act_on_futility,
    )


def design_by_sample(
    sessions_per_arm: int,
    delta: float = 0.02,
    *,
    alpha: float = 0.05,
    spending: str = "hsd:-4",
) -> Design:
    """Return the design whose information fraction is sessions per arm over the planned number of them."""
    if sessions_per_arm < 1:
        raise BadStatistics(f"a planned sample needs at least 1 session per arm, got {sessions_per_arm}")
    return Design(
        max_information=float(sessions_per_arm),
        delta=delta,
        alpha=alpha,
        spending=spending,
        unit="sessions_per_arm",
    )


def start(design: Design) -> State:
    """Return the state of an experiment before its first tick."""
    return State(plan_id=design.plan_id)


def look(
    design: Design, state: State, information: float, z: float, *, hours: float, final: bool = False
) -> State:
    """Return the state after one tick, which is a look if it gained enough information or is final.

    Args:
        information: 1 / SE^2 now, or sessions per arm, in `design.unit`; it may be lower than before.
        z: estimate over standard error with its t tail mapped to the normal one.
        hours: age of the experiment; must not be before the latest tick.
        final: this is the last tick (maximum duration): all alpha left is spent here.

    The information fraction never decreases, bounds of past looks stay as they were, and the first look with
    information at or above `design.max_information` is final by itself.

    Raises: PlanEdited, TimeWentBackwards, NoAlphaLeft, BadStatistics.
    """
    _check_tick(design, state, information, z, hours)
    before = state.looks[-1].fraction if state.looks else 0.0
    fraction = max(before, min(1.0, information / design.max_information))
    last = final or information >= design.max_information
    if not last and fraction - before < design.min_gain:
        note = f"no look: gained {fraction - before:.4f} of the information, {design.min_gain:g} needed"
        return replace(state, hours=hours, ticks=state.ticks + 1, note=note)
    new = Look(hours, information, fraction, z, math.inf, 0.0, last)
    upper, alpha_spent = _bound(design, (*state.looks, new))
    taken = replace(new, upper_z=upper, alpha_spent=alpha_spent)
    return State(state.plan_id, (*state.looks, taken), hours, state.ticks + 1)


def bounds_at(design: Design, looks: tuple[Look, ...], alpha: float) -> tuple[float, ...]:
    """Return the upper z bounds of these looks had the level been `alpha`, not cut off at 8."""
    usable, targets = _usable(design, looks, alpha)
    solved = solve_upper([k.information for k in usable], targets, sides=SIDES, limited=False)
    if len(usable) == len(looks):
        return solved
    return (*solved, _union_bound(alpha, targets))


def independent_looks(looks: tuple[Look, ...]) -> tuple[Look, ...]:
    """Return the looks without a last one that brought no new information (it shrank, or stood still)."""
    if len(looks) > 1 and looks[-1].information < looks[-2].information * (1.0 + _SAME_INFORMATION):
        return looks[:-1]
    return looks


def _bound(design: Design, looks: tuple[Look, ...]) -> tuple[float, float]:
    usable, targets = _usable(design, looks, design.alpha)
    frozen = tuple(k.upper_z for k in looks[:-1])
    if len(usable) < len(looks):
        return _union_bound(design.alpha, _really_spent(targets, frozen)), design.alpha
    solved = solve_upper([k.information for k in looks], targets, sides=SIDES, frozen=frozen)
    return solved[-1], targets[-1]


def _usable(
    design: Design, looks: tuple[Look, ...], alpha: float
) -> tuple[tuple[Look, ...], tuple[float, ...]]:
    usable = independent_looks(looks)
    targets = tuple(
        alpha if k.final else spent(design.spending, k.fraction, alpha=alpha, sides=SIDES) for k in usable
    )
    return usable, targets


def _really_spent(targets: tuple[float, ...], bounds: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(t for t, bound in zip(targets, bounds, strict=True) if bound < math.inf)


def _union_bound(alpha: float, used: tuple[float, ...]) -> float:
    # With no new information the correlation with the look before is unknown; P(A or B) <= P(A) + P(B) holds.
    left = alpha - (used[-1] if used else 0.0)
    return float(-ndtri(left / SIDES)) if left > 0.0 else math.inf


def _check_tick(design: Design, state: State, information: float, z: float, hours: float) -> None:
    if state.plan_id != design.plan_id:
        raise PlanEdited(
            f"the plan ({design.plan_id}) is not the one of the looks so far ({state.plan_id}); "
            "a changed plan is a new experiment: cancel this one and create another"
        )
    if state.ended:
        raise NoAlphaLeft("the final look has been taken and all alpha is spent; start a new experiment")
    if not (math.isfinite(hours) and hours >= 0.0):
        raise BadStatistics(f"the age of the experiment must be finite and not negative, got {hours!r} hours")
    if hours < state.hours:
        raise TimeWentBackwards(
            f"this tick is at {hours:g} h, the one before at {state.hours:g} h; check the clock and retry"
        )
    if not (math.isfinite(information) and information > 0.0):
        raise BadStatistics(f"information must be finite and above 0, got {information!r}; is an arm empty?")
    if math.isnan(z) or math.isinf(z):
        raise BadStatistics(f"z must be finite, got {z!r}; has the standard error become 0?")
