"""The sub-density of paths of a score process that no bound has stopped yet, carried from look to look.

Recursive integration after Armitage, McPherson and Rowe (1969) and Jennison and Turnbull (2000, ch. 19) on
Gauss-Legendre panels. Scores S_k = Z_k sqrt(I_k) have independent increments
N(drift (I_k - I_{k-1}), I_k - I_{k-1}).
"""

import functools
import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

Array = NDArray[np.float64]

_REACH = 8.5  # an open side of the grid ends this many standard deviations out
_PANEL_NODES = 24
_PANEL_WIDTH = 10.0  # in standard deviations of the narrower neighbouring increment: error below 1e-12


class Paths:
    """Where unstopped paths are after the last look that had a bound: the sub-density of their score."""

    __slots__ = ("_before", "_information", "_lower", "_memo", "_upper", "drift")

    def __init__(
        self,
        *,
        drift: float,
        before: "Paths | None" = None,
        information: float = 0.0,
        lower: float = -math.inf,
        upper: float = math.inf,
    ) -> None:
        self.drift = drift
        self._before = before
        self._information = information
        self._lower = lower
        self._upper = upper
        self._memo: tuple[float, Array, Array] | None = None

    def after(self, information: float, lower: float, upper: float) -> "Paths":
        # A look without a bound changes nothing: increments add up.
        if lower == -math.inf and upper == math.inf:
            return self
        return Paths(drift=self.drift, before=self, information=information, lower=lower, upper=upper)

    def above(self, information: float, z: float, tilt: float = 0.0) -> float:
        """P(not stopped so far and Z at `information` is at or above `z`), with `tilt` added to the drift."""
        if z == math.inf:
            return 0.0
        return self._tail(information, z, tilt, upper=True)

    def below(self, information: float, z: float) -> float:
        if z == -math.inf:
            return 0.0
        return self._tail(information, z, 0.0, upper=False)

    def _tail(self, information: float, z: float, tilt: float, *, upper: bool) -> float:
        sign = 1.0 if upper else -1.0
        drift = self.drift + tilt
        if self._before is None:
            return float(ndtr(-sign * (z - drift * math.sqrt(information))))
        nodes, mass = self._grid(information)
        if tilt != 0.0:
            # Likelihood ratio of the score so far: another drift needs no new recursion.
            here = self._information
            mass = mass * np.exp(tilt * (nodes - (self.drift + 0.5 * tilt) * here))
        gap = information - self._information
        away = (z * math.sqrt(information) - nodes - drift * gap) / math.sqrt(gap)
        return float(mass @ ndtr(-sign * away))

    def bound_for(self, target: float, information: float) -> float:
        """z above which exactly `target`, in (0, 1), of the null paths leave."""
        highest = float(-ndtri(target))  # the bound if no path had been stopped before
        if self._before is None:
            return highest
        nodes, mass = self._grid(information)
        root_gap = math.sqrt(information - self._information)
        scale = math.sqrt(information) / root_gap
        goal = math.log(target)
        z = min(self._upper, highest)
        # The tail is log-concave: Newton on its logarithm overshoots from the left once, from the right not.
        for _ in range(60):
            away = z * scale - nodes / root_gap
            tail = float(mass @ ndtr(-away))
            slope = float(mass @ np.exp(-0.5 * away * away)) * scale / math.sqrt(2.0 * math.pi)
            if tail <= 0.0 or slope <= 0.0:
                z -= 1.0
                continue
            step = min((math.log(tail) - goal) * tail / slope, highest - z)
            z += step
            if abs(step) < 1e-12:
                break
        return z

    def _grid(self, following: float) -> tuple[Array, Array]:
        """Nodes and probability masses of the score at this look, fine enough for a look at `following`."""
        if self._memo is None or self._memo[0] != following:
            self._memo = (following, *self._integrate(following))
        return self._memo[1], self._memo[2]

    def _integrate(self, following: float) -> tuple[Array, Array]:
        before = self._before or self
        root = math.sqrt(self._information)
        mean = self.drift * root
        low = max(self._lower, min(-_REACH, mean - _REACH))
        high = max(low, min(self._upper, max(_REACH, mean + _REACH)))
        came = self._information - before._information
        finest = math.sqrt(min(came, following - self._information))
        panels = max(1, math.ceil((high - low) * root / (_PANEL_WIDTH * finest)))
        unit_nodes, unit_weights = _panels(panels)
        width = (high - low) * root
        nodes = low * root + width * unit_nodes
        if before._before is None:
            away = (nodes - self.drift * self._information) / root
            density = np.exp(-0.5 * away * away) / (root * math.sqrt(2.0 * math.pi))
        else:
            earlier, mass = before._grid(self._information)
            jump = (nodes[:, None] - earlier[None, :] - self.drift * came) / math.sqrt(came)
            # Not `@`: BLAS may spread this small product over threads, which need not be bit-equal.
            spread = np.einsum("ij,j->i", np.exp(-0.5 * jump * jump), mass)
            density = spread / math.sqrt(2.0 * math.pi * came)
        return nodes, density * unit_weights * width


@functools.lru_cache(maxsize=512)
def _panels(count: int) -> tuple[Array, Array]:
    """Gauss-Legendre nodes and weights on [0, 1], `count` equal panels."""
    nodes, weights = np.polynomial.legendre.leggauss(_PANEL_NODES)
    left = np.arange(count)[:, None] / count
    return (left + (nodes + 1.0) / (2.0 * count)).ravel(), np.tile(weights / (2.0 * count), count)
