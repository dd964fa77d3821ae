"""Difference of two arms in a weighted composite of partly observed dimensions, units as clusters.

Formulas: SPEC section 6 "Estimator". The variance is the CR2-type linearisation of a difference of
weighted means with leverage h_i (Bell and McCaffrey 2002, Surv. Methodol. 28);
degrees of freedom after Satterthwaite 1946 with G_eff - 1 per arm.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from prx.domain.answers import Interval, NotEnoughData
from prx.domain.errors import BadStatistics
from prx.stats.dimensions import FrozenDimensions, checked_weights, choose_dimensions
from prx.stats.influence import Term, reach, spread, stratum_means
from prx.stats.tails import t_interval, t_to_z, two_sided_p, upper_p
from prx.stats.unitsums import ArmSums, ArmTable, UnitSum, as_table, on_grid

__all__ = [
    "ArmSize",
    "ArmSums",
    "ArmTable",
    "Composite",
    "DimensionDifference",
    "Floor",
    "FrozenDimensions",
    "UnitSum",
    "by_dimension",
    "choose_dimensions",
    "composite",
    "on_grid",
]

_SAME = 1e-12


@dataclass(frozen=True, slots=True)
class Floor:
    """The least data per arm at which a look may be taken: sessions, and effective units G_eff."""

    sessions: int = 100
    units: float = 20.0


@dataclass(frozen=True, slots=True)
class ArmSize:
    """What stands behind one arm: all its sessions, its units, and G_eff = 1 / sum h_i^2.

    mean: sum_d w_d mu_d in score points; variance: of that mean.
    """

    sessions: int
    units: int
    effective_units: float
    mean: float
    variance: float


@dataclass(frozen=True, slots=True)
class DimensionDifference:
    """One dimension: weight in the composite, arm means and their difference, coverages in 0..1.

    With several strata `difference` is the within-stratum one; it need not equal the difference of means.
    """

    dimension: str
    weight: float
    control: float
    treatment: float
    difference: float
    control_coverage: float
    treatment_coverage: float


@dataclass(frozen=True, slots=True)
class Composite:
    """Treatment minus control in score points, with its cluster-robust error.

    t = delta / se; z: the normal deviate of the same tail; p_value: naive, two-sided, of this look alone.
    """

    delta: float
    se: float
    df: float
    t: float
    z: float
    p_value: float
    control: ArmSize
    treatment: ArmSize
    dimensions: tuple[DimensionDifference, ...]

    @property
    def information(self) -> float:
        """1 / se^2."""
        return self.se**-2

    def interval(self, confidence: float = 0.95) -> Interval:
        """Naive t interval of this look alone; not for repeated looks."""
        return t_interval(self.delta, self.se, self.df, confidence)

    def one_sided_p(self, margin: float = 0.0) -> float:
        """P under a true difference of `margin` of a t at least this high: small means above `margin`."""
        return upper_p((self.delta - margin) / self.se, self.df)


def composite(
    control: ArmTable | ArmSums,
    treatment: ArmTable | ArmSums,
    *,
    weights: Mapping[str, float],
    rho: float = 0.2,
    floor: Floor | None = None,
) -> Composite | NotEnoughData:
    """Delta = sum_d w_d (mu_Td - mu_Cd) with its cluster-robust standard error.

    weights: frozen, per dimension, summing to 1. rho: frozen intra-class correlation in [0, 1).
    floor: least data per arm, `Floor()` if not given. Strata are pooled within dimension with
    Mantel-Haenszel weights A_T A_C / (A_T + A_C), which depend on counts only; a unit that spans strata
    stays one cluster. An arm in which every unit scores the same has no estimable spread: it is given the
    variance of one unit as far off as the furthest unit of the other arm; two such arms decide nothing.
    Raises: BadStatistics for weights or rho out of range.
    """
    least = floor if floor is not None else Floor()
    frozen = {d: w for d, w in checked_weights(weights).items() if w > 0}
    if not 0 <= rho < 1:
        raise BadStatistics(f"the intra-class correlation is {rho}; it lies in 0 to below 1")
    arms = (as_table(control), as_table(treatment))
    for name, arm in zip(("control", "treatment"), arms, strict=True):
        sessions = int(arm.sessions.sum())
        if sessions < least.sessions:
            return NotEnoughData(f"{sessions} of {least.sessions} sessions in the {name} arm")
    terms: tuple[list[Term], list[Term]] = ([], [])
    differences: list[DimensionDifference] = []
    for dimension, weight in frozen.items():
        found = _difference(arms, dimension, weight, rho, terms)
        if isinstance(found, NotEnoughData):
            return found
        differences.append(found)
    precision = _variances(arms, terms, tuple(differences), rho, least)
    return precision if isinstance(precision, NotEnoughData) else _tested(arms, precision, tuple(differences))


def by_dimension(
    control: ArmTable | ArmSums,
    treatment: ArmTable | ArmSums,
    *,
    dimensions: tuple[str, ...],
    rho: float = 0.2,
    floor: Floor | None = None,
) -> dict[str, Composite | NotEnoughData]:
    """The same test for each dimension alone, for secondary tests and guardrails."""
    arms = (as_table(control), as_table(treatment))
    return {d: composite(*arms, weights={d: 1.0}, rho=rho, floor=floor) for d in dimensions}


def _difference(
    arms: tuple[ArmTable, ArmTable],
    dimension: str,
    weight: float,
    rho: float,
    terms: tuple[list[Term], list[Term]],
) -> DimensionDifference | NotEnoughData:
    for name, arm in zip(("control", "treatment"), arms, strict=True):
        if dimension not in arm.n or not arm.n[dimension].any():
            return NotEnoughData(f"no session of the {name} arm is scored in {dimension}")
    strata = 1 + max(int(arm.stratum.max()) for arm in arms)
    control, treatment = (stratum_means(arm, dimension, rho, strata) for arm in arms)
    both = control.weight + treatment.weight
    pooled = np.divide(control.weight * treatment.weight, both, out=np.zeros(strata), where=both > 0)
    if pooled.sum() <= 0:
        return NotEnoughData(f"no stratum has sessions scored in {dimension} in both arms")
    share = pooled / pooled.sum()
    for means, into in zip((control, treatment), terms, strict=True):
        scale = np.divide(weight * share, means.weight, out=np.zeros(strata), where=means.weight > 0)
        into.append(Term(dimension, means.mean, scale))
    return DimensionDifference(
        dimension=dimension,
        weight=weight,
        control=float((share * control.mean).sum()),
        treatment=float((share * treatment.mean).sum()),
        difference=float((share * (treatment.mean - control.mean)).sum()),
        control_coverage=arms[0].coverage(dimension),
        treatment_coverage=arms[1].coverage(dimension),
    )


@dataclass(frozen=True, slots=True)
class _Precision:
    """Of both arms: variance of the mean, and G_eff."""

    variances: tuple[float, ...]
    effective: tuple[float, ...]


def _variances(
    arms: tuple[ArmTable, ArmTable],
    terms: tuple[list[Term], list[Term]],
    differences: tuple[DimensionDifference, ...],
    rho: float,
    floor: Floor,
) -> _Precision | NotEnoughData:
    spreads = [spread(arm, of, rho) for arm, of in zip(arms, terms, strict=True)]
    effective = tuple(1.0 / own.leverages for own in spreads)
    least = max(floor.units, 2.0)
    for name, units in zip(("control", "treatment"), effective, strict=True):
        if units < least * (1 - _SAME):
            return NotEnoughData(f"{units:.1f} of {least:g} effective units in the {name} arm")
    size = max(1.0, *(d.weight * max(abs(d.control), abs(d.treatment)) for d in differences))
    constant = [own.variance <= 2 * (_SAME * size) ** 2 * own.leverages for own in spreads]
    if all(constant):
        return NotEnoughData("every unit of both arms scores the same; the spread cannot be estimated")
    variances = [own.variance for own in spreads]
    if any(constant):
        still = constant.index(True)
        variances[still] = (reach(arms[1 - still], terms[1 - still], rho) / effective[still]) ** 2
    return _Precision(tuple(variances), effective)


def _tested(
    arms: tuple[ArmTable, ArmTable], precision: _Precision, differences: tuple[DimensionDifference, ...]
) -> Composite:
    variances, effective = precision.variances, precision.effective
    means = [math.fsum(d.weight * getattr(d, name) for d in differences) for name in ("control", "treatment")]
    variance = sum(variances)
    df = variance**2 / sum(v**2 / (g - 1.0) for v, g in zip(variances, effective, strict=True))
    delta = math.fsum(d.weight * d.difference for d in differences)
    t = delta / math.sqrt(variance)
    control, treatment = (
        ArmSize(int(arm.sessions.sum()), arm.units, g, mean, v)
        for arm, g, mean, v in zip(arms, effective, means, variances, strict=True)
    )
    return Composite(
        delta=delta,
        se=math.sqrt(variance),
        df=df,
        t=t,
        z=t_to_z(t, df),
        p_value=two_sided_p(t, df),
        control=control,
        treatment=treatment,
        dimensions=differences,
    )
