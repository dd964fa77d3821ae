"""Weighted means of one arm and what each unit contributes to their error, in pieces that fit the cache."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from prx.stats.unitsums import ArmTable, Floats, summed_by

_PIECE = 8192


@dataclass(frozen=True, slots=True, eq=False)
class StratumMeans:
    """One arm in one dimension, per stratum: A = sum of a_i, and mu = sum of a_i y_i / A (0 where A is)."""

    weight: Floats
    mean: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """One dimension of the composite in one arm, per stratum: its mean, and w_d x share / A."""

    dimension: str
    mean: Floats
    scale: Floats


@dataclass(frozen=True, slots=True)
class Spread:
    """leverages: sum h_i^2; variance: sum psi_i^2 / (1 - h_i); reach: furthest unit from the mean."""

    leverages: float
    variance: float
    reach: float


def stratum_means(arm: ArmTable, dimension: str, rho: float, strata: int) -> StratumMeans:
    """A and mu of every stratum, units shrunk by the correlation `rho` of their sessions."""
    weight, summed = np.zeros(strata), np.zeros(strata)
    for rows in _pieces(len(arm.unit)):
        n, total = arm.n[dimension][rows].astype(np.float64), arm.total[dimension][rows]
        shrink = _shrink(n, rho)
        n *= shrink
        shrink *= total
        if strata == 1:
            weight += n.sum()
            summed += shrink.sum()
        else:
            weight += summed_by(arm.stratum[rows], n, strata)
            summed += summed_by(arm.stratum[rows], shrink, strata)
    return StratumMeans(weight, np.divide(summed, weight, out=np.zeros(strata), where=weight > 0))


def spread(arm: ArmTable, terms: list[Term], rho: float) -> Spread:
    """Sums over units, psi_i = sum_d w_d a_id (y_id - mu_d) / A_d and h_i = sum_d w_d a_id / A_d."""
    leverages, variance, reach = 0.0, 0.0, 0.0
    if arm.units == len(arm.unit):
        parts: Iterator[tuple[Floats, Floats]] = (
            _contributions(arm, terms, rho, rows) for rows in _pieces(len(arm.unit))
        )
    else:
        whole = _contributions(arm, terms, rho, slice(None))
        parts = iter([(summed_by(arm.unit, whole[0], arm.units), summed_by(arm.unit, whole[1], arm.units))])
    for psi, leverage in parts:
        leverages += float(np.square(leverage).sum())
        distance = np.abs(psi)
        np.divide(distance, leverage, out=distance, where=leverage > 0)
        reach = max(reach, float(distance.max(initial=0.0)))
        # An arm that is one single unit has leverage 1; it never passes the floor of two effective units.
        np.square(psi, out=psi)
        psi /= np.maximum(1.0 - leverage, 1e-12)
        variance += float(psi.sum())
    return Spread(leverages, variance, reach)


def _contributions(arm: ArmTable, terms: list[Term], rho: float, rows: slice) -> tuple[Floats, Floats]:
    size = len(arm.unit[rows])
    psi, leverage = np.zeros(size), np.zeros(size)
    for term in terms:
        n, total = arm.n[term.dimension][rows].astype(np.float64), arm.total[term.dimension][rows]
        scale = _shrink(n, rho)
        if len(term.mean) == 1:
            scale *= term.scale[0]
            away = n * term.mean[0]
        else:
            stratum = arm.stratum[rows]
            scale *= term.scale[stratum]
            away = n * term.mean[stratum]
        np.subtract(total, away, out=away)
        away *= scale
        psi += away
        scale *= n
        leverage += scale
    return psi, leverage


def _shrink(n: Floats, rho: float) -> Floats:
    """a_i / n_i = 1 / (1 + (n_i - 1) rho); finite also where n_i is 0, since rho is below 1."""
    shrink = n * rho
    shrink += 1.0 - rho
    return np.divide(1.0, shrink, out=shrink)


def _pieces(rows: int) -> Iterator[slice]:
    for start in range(0, rows, _PIECE):
        yield slice(start, start + _PIECE)
