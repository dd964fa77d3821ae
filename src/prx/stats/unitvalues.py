"""One number per unit: for rank tests, effect sizes and the skewness that chooses the test."""

from collections.abc import Mapping

import numpy as np

from prx.domain.answers import NotEnoughData
from prx.domain.errors import BadStatistics
from prx.stats.dimensions import checked_weights
from prx.stats.unitsums import ArmSums, ArmTable, Floats, as_table, summed_by


def unit_deviations(
    control: ArmTable | ArmSums, treatment: ArmTable | ArmSums, *, weights: Mapping[str, float]
) -> tuple[Floats, Floats]:
    """One number per unit for rank tests, effect sizes and the blinded skew, control then treatment.

    A unit's weighted mean deviation from the pooled (blinded) mean of each dimension that it has scores
    in, score points. Units without any score are left out; nothing is imputed.
    """
    arms = (as_table(control), as_table(treatment))
    frozen = {d: w for d, w in checked_weights(weights).items() if w > 0}
    centres: dict[str, float] = {}
    for dimension in frozen:
        count = sum(int(arm.n[dimension].sum()) for arm in arms if dimension in arm.n)
        if count:
            total = sum(float(arm.total[dimension].sum()) for arm in arms if dimension in arm.n)
            centres[dimension] = total / count
    return _deviations(arms[0], frozen, centres), _deviations(arms[1], frozen, centres)


def blinded_skewness(control: Floats, treatment: Floats) -> float | NotEnoughData:
    """Skewness of all units pooled, arms not told apart, for the rule n < 25 skew^2 of `test = "auto"`.

    Source: third standardised moment (Fisher-Pearson); rule: Cochran 1977, Sampling Techniques, 2.15.
    """
    pool = np.concatenate((np.asarray(control, dtype=np.float64), np.asarray(treatment, dtype=np.float64)))
    if not np.isfinite(pool).all():
        raise BadStatistics("unit values hold NaN or infinity; leave units without a score out")
    if len(pool) < 3:
        return NotEnoughData(f"{len(pool)} of 3 units")
    centred = pool - pool.mean()
    spread = float((centred**2).mean())
    if spread <= 1e-24:
        return NotEnoughData("all units score the same; a constant has no skewness")
    return float((centred**3).mean() / spread**1.5)


def _deviations(arm: ArmTable, weights: Mapping[str, float], centres: Mapping[str, float]) -> Floats:
    summed, weight = np.zeros(arm.units), np.zeros(arm.units)
    for dimension, centre in centres.items():
        if dimension not in arm.n:
            continue
        n = summed_by(arm.unit, arm.n[dimension], arm.units)
        total = summed_by(arm.unit, arm.total[dimension], arm.units)
        seen = n > 0
        summed[seen] += weights[dimension] * (total[seen] / n[seen] - centre)
        weight[seen] += weights[dimension]
    seen = weight > 0
    return summed[seen] / weight[seen]
