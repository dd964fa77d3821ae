"""Less noise from what was known before assignment, with coefficients frozen before the experiment."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from prx.domain.answers import NotEnoughData
from prx.domain.errors import BadStatistics
from prx.stats.unitsums import ArmTable, Floats

Sums = Mapping[str, Mapping[str, ArrayLike]]
"""dimension -> covariate -> per row, the covariate summed over its scored sessions."""


@dataclass(frozen=True, slots=True)
class Adjustment:
    """Frozen regression of one dimension's session score on covariates known before assignment.

    slopes: score points per unit of each covariate; centres: pre-period means; explained: share of the
    weighted pre-period variance of unit means, 0..1 (the forecast, not a result).
    """

    slopes: Mapping[str, float]
    centres: Mapping[str, float]
    explained: float


def fit_adjustment(
    n: ArrayLike,
    total: ArrayLike,
    covariates: Mapping[str, ArrayLike],
    *,
    rho: float = 0.2,
    least_units: int = 50,
) -> Adjustment | NotEnoughData:
    """Weighted least squares of pre-period unit means on unit covariates.

    n, total: per unit, scored sessions and summed scores of one dimension; covariates: per unit, the mean
    of each. Units weigh n / (1 + (n - 1) rho). Constant or collinear covariates get a slope of 0 (least
    norm). Raises: BadStatistics. Source: Deng, Xu, Kohavi and Walker 2013 (WSDM); frozen
    coefficients keep the experiment's difference unbiased whatever the fit.
    """
    count, summed = np.asarray(n, dtype=np.float64), np.asarray(total, dtype=np.float64)
    columns = {name: np.asarray(v, dtype=np.float64) for name, v in covariates.items()}
    if any(v.shape != count.shape for v in (summed, *columns.values())) or count.ndim != 1:
        raise BadStatistics("counts, sums and covariates must be columns of one length")
    if not all(np.isfinite(v).all() for v in (count, summed, *columns.values())):
        raise BadStatistics("the pre-period holds NaN or infinity; leave units with missing covariates out")
    seen = count > 0
    if int(seen.sum()) < max(least_units, 10 * len(columns)) or not columns:
        return NotEnoughData(f"{int(seen.sum())} of {max(least_units, 10 * len(columns))} units to fit on")
    weight = count[seen] / (1 + (count[seen] - 1) * rho)
    weight /= weight.sum()
    score = summed[seen] / count[seen]
    design = np.column_stack([v[seen] for v in columns.values()])
    centre = weight @ design
    spread = np.sqrt(weight @ (design - centre) ** 2)
    scale = np.where(spread > 1e-12 * np.maximum(1.0, np.abs(centre)), spread, np.inf)
    root = np.sqrt(weight)
    centred = score - float(weight @ score)
    standard = (design - centre) / scale
    slopes = np.linalg.lstsq(standard * root[:, None], centred * root, rcond=1e-9)[0]
    before = float(weight @ centred**2)
    after = float(weight @ (centred - standard @ slopes) ** 2)
    return Adjustment(
        slopes=dict(zip(columns, map(float, slopes / scale), strict=True)),
        centres=dict(zip(columns, map(float, centre), strict=True)),
        explained=1 - after / before if before > 0 else 0.0,
    )


def adjusted(arm: ArmTable, sums: Sums, adjustments: Mapping[str, Adjustment]) -> ArmTable:
    """The arm with every score y replaced by y - sum_k slope_k (x_k - centre_k).

    Works on sums, so units stay clusters and the estimator's variance stays cluster-robust; adjusted
    scores may leave [0, 1]. Dimensions without an adjustment stay as they are. Raises: BadStatistics.
    """
    total: dict[str, Floats] = dict(arm.total)
    for dimension, adjustment in adjustments.items():
        if dimension not in total:
            continue
        moved = total[dimension]
        for name, slope in adjustment.slopes.items():
            column = sums.get(dimension, {}).get(name)
            if column is None:
                raise BadStatistics(f"the frozen adjustment of {dimension} needs the covariate {name}")
            x = np.asarray(column, dtype=np.float64)
            if x.shape != moved.shape or not np.isfinite(x).all():
                raise BadStatistics(f"{name} of {dimension} needs one finite sum per row of the arm")
            moved = moved - slope * (x - arm.n[dimension] * adjustment.centres[name])
        total[dimension] = moved
    return replace(arm, total=total)
