"""Weighted means of one arm and what each unit contributes to their error, in pieces that fit the cache."""

import math
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
    """leverages: sum of h_i^2 over units; variance: sum of psi_i^2 / (1 - h_i), infinite for one unit."""

    leverages: float
    variance: float


def stratum_means(arm: ArmTable, dimension: str, rho: float, strata: int) -> StratumMeans:
    """A and mu of every stratum, units shrunk by the correlation `rho` of their sessions."""
    weight, summed = np.zeros(strata), np.zeros(strata)
    for rows in _pieces(len(arm.unit)):
        n, total = arm.n[dimension][rows].astype(np.float64), arm.total[dimension][rows]
        shrink = _shrink(n, rho)
        if strata == 1:
            weight += _dot(n, shrink)
            summed += _dot(total, shrink)
        else:
            weight += summed_by(arm.stratum[rows], n * shrink, strata)
            summed += summed_by(arm.stratum[rows], total * shrink, strata)
    return StratumMeans(weight, np.divide(summed, weight, out=np.zeros(strata), where=weight > 0))


def spread(arm: ArmTable, terms: list[Term], rho: float) -> Spread:
    """Sums over units, psi_i = sum_d w_d a_id (y_id - mu_d) / A_d and h_i = sum_d w_d a_id / A_d."""
    leverages, variance = 0.0, 0.0
    for psi, leverage in _per_unit(arm, terms, rho):
        leverages += _dot(leverage, leverage)
        np.subtract(1.0, leverage, out=leverage)
        with np.errstate(divide="ignore", invalid="ignore"):
            np.divide(psi, leverage, out=leverage)
        variance += _dot(psi, leverage)
    return Spread(leverages, math.inf if math.isnan(variance) else variance)


def reach(arm: ArmTable, terms: list[Term], rho: float) -> float:
    """Largest distance of a unit from its arm's mean, |psi_i| / h_i, score points."""
    furthest = 0.0
    for psi, leverage in _per_unit(arm, terms, rho):
        seen = leverage > 0
        furthest = max(furthest, float((np.abs(psi[seen]) / leverage[seen]).max(initial=0.0)))
    return furthest


def _per_unit(arm: ArmTable, terms: list[Term], rho: float) -> Iterator[tuple[Floats, Floats]]:
    """psi and h of all units, in pieces where a unit is one row."""
    if arm.units == len(arm.unit):
        for rows in _pieces(len(arm.unit)):
            yield _contributions(arm, terms, rho, rows)
        return
    psi, leverage = _contributions(arm, terms, rho, slice(None))
    yield summed_by(arm.unit, psi, arm.units), summed_by(arm.unit, leverage, arm.units)


def _contributions(arm: ArmTable, terms: list[Term], rho: float, rows: slice) -> tuple[Floats, Floats]:
    psi, leverage = _contribution(arm, terms[0], rho, rows)
    for term in terms[1:]:
        more = _contribution(arm, term, rho, rows)
        psi += more[0]
        leverage += more[1]
    return psi, leverage


def _contribution(arm: ArmTable, term: Term, rho: float, rows: slice) -> tuple[Floats, Floats]:
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
    scale *= n
    return away, scale


def _shrink(n: Floats, rho: float) -> Floats:
    """a_i / n_i = 1 / (1 + (n_i - 1) rho); finite also where n_i is 0, since rho is below 1."""
    shrink = n * rho
    shrink += 1.0 - rho
    return np.divide(1.0, shrink, out=shrink)


def _dot(left: Floats, right: Floats) -> float:
    """Sum of products; in pieces below the size from which BLAS threads, and with them the order, come in."""
    return math.fsum(float(np.dot(left[rows], right[rows])) for rows in _pieces(len(left)))


def _pieces(rows: int) -> Iterator[slice]:
    for start in range(0, rows, _PIECE):
        yield slice(start, start + _PIECE)
