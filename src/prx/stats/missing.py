"""What scores that are missing by behaviour (no tool call, no recall, no thumb) could hide."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from prx.domain.answers import NotEnoughData
from prx.stats.estimator import Composite, DimensionDifference
from prx.stats.tails import t_to_z
from prx.stats.unitsums import ArmTable, Floats, summed_by


@dataclass(frozen=True, slots=True)
class MissingBound:
    """The composite after the worst that uneven coverage allows, score points.

    bounds: w_d B_d per dimension; total: their sum; delta: Delta - total; se, z: of that difference,
    coverages counted as estimated. `delta` > 0 alone lets a treatment that hides its failures win half
    of the time; `lower` at the bound of the look holds the level.
    """

    bounds: Mapping[str, float]
    total: float
    delta: float
    se: float
    z: float

    def lower(self, bound_z: float) -> float:
        """Lower limit of `delta` in score points at a look whose upper bound on z is `bound_z`."""
        return self.delta - bound_z * self.se * (self.delta / self.se / self.z if abs(self.z) > 1e-6 else 1.0)


def hidden_bound(difference: DimensionDifference) -> float:
    """B_d: the most that sessions missing from the arm of lower coverage could change the difference.

    0..1, for scores in [0, 1]. Source: SPEC section 6 "Missing by behaviour" (bounds of Lee 2009,
    Rev. Econ. Stud. 76, with the trimmed share filled by the extreme score instead).
    """
    control, treatment = difference.control_coverage, difference.treatment_coverage
    most = max(control, treatment)
    if most == 0 or control == treatment:
        return 0.0
    q = abs(control - treatment) / most
    if treatment < control:
        mean = difference.control
        return (min(1.0, mean / (1 - q)) if q < 1 else 1.0) - mean
    mean = difference.treatment
    return mean - (max(0.0, (mean - q) / (1 - q)) if q < 1 else 0.0)


def missing_bound(
    result: Composite,
    control: ArmTable,
    treatment: ArmTable,
    *,
    rho: float = 0.2,
    behavioural: Collection[str] | None = None,
) -> MissingBound | NotEnoughData:
    """`Delta - sum_d w_d B_d` with its standard error.

    behavioural: the dimensions whose gaps the arm itself can cause (all, if not given); judge sampling
    by a keyed hash is equal in both arms and causes none. The error follows by the delta method from the
    per-unit influence of means and coverages; strata are pooled here, so it is exact for one stratum.
    """
    bounds: dict[str, float] = {}
    influence = {"control": np.zeros(control.units), "treatment": np.zeros(treatment.units)}
    for d in result.dimensions:
        judged = behavioural is None or d.dimension in behavioural
        bounds[d.dimension] = d.weight * (hidden_bound(d) if judged else 0.0)
        before, after = (_Parts.of(arm, d.dimension, rho) for arm in (control, treatment))
        for name, part in zip(influence, _influence(d, before, after, judged), strict=True):
            influence[name] += d.weight * part
    variances = [
        float((influence[name] ** 2).sum()) / (1 - 1 / size.effective_units)
        for name, size in (("control", result.control), ("treatment", result.treatment))
    ]
    variance = sum(variances)
    if variance <= 0:
        return NotEnoughData("the worst case of the missing scores has no spread; collect more sessions")
    # Where the worst case pins an arm to a constant its spread vanishes; the plain one is the safer.
    se = max(math.sqrt(variance), result.se)
    total = math.fsum(bounds.values())
    delta = result.delta - total
    return MissingBound(bounds, total, delta, se, t_to_z(delta / se, result.df))


@dataclass(frozen=True, slots=True, eq=False)
class _Parts:
    """One arm in one dimension: mean influence and coverage influence per unit, and the coverage."""

    mean: Floats
    covered: Floats
    coverage: float

    @classmethod
    def of(cls, arm: ArmTable, dimension: str, rho: float) -> "_Parts":
        n = summed_by(arm.unit, arm.n[dimension], arm.units)
        total = summed_by(arm.unit, arm.total[dimension], arm.units)
        sessions = summed_by(arm.unit, arm.sessions, arm.units)
        shrink = 1.0 / (1.0 + (n - 1.0) * rho)
        weight = float((n * shrink).sum())
        mean = float((total * shrink).sum()) / weight
        coverage = float(n.sum()) / float(sessions.sum())
        return cls(
            shrink * (total - n * mean) / weight,
            (n - coverage * sessions) / float(sessions.sum()),
            coverage,
        )


def _influence(d: DimensionDifference, before: _Parts, after: _Parts, judged: bool) -> tuple[Floats, Floats]:
    """Per-unit influence on the worst-case difference, control and treatment."""
    if not judged or before.coverage == after.coverage:
        return -before.mean, after.mean
    if after.coverage < before.coverage:
        kept = after.coverage / before.coverage
        if d.control >= kept:
            return np.zeros_like(before.mean), after.mean
        return (
            -(before.mean / kept + d.control / after.coverage * before.covered),
            after.mean + d.control / kept / after.coverage * after.covered,
        )
    kept = before.coverage / after.coverage
    if d.treatment <= 1 - kept:
        return -before.mean, np.zeros_like(after.mean)
    # (mu_T - q) / (1 - q) = 1 - (1 - mu_T) / kept, with kept = c_C / c_T
    gap = (1 - d.treatment) / kept
    return (
        -before.mean + gap / before.coverage * before.covered,
        after.mean / kept - gap / after.coverage * after.covered,
    )
