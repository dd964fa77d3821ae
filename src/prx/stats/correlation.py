"""How alike the sessions of one unit are, from sums of the time before the experiment."""

import numpy as np
from numpy.typing import ArrayLike

from prx.domain.answers import NotEnoughData
from prx.domain.errors import BadStatistics


def intraclass_correlation(
    n: ArrayLike, total: ArrayLike, squares: ArrayLike, *, least_units: int = 20
) -> float | NotEnoughData:
    """Intra-class correlation of session scores within units, clipped to [0, 0.99].

    n, total, squares: per unit, scored sessions, summed scores, summed squared scores.
    Not enough data below `least_units` units with two or more sessions, or without any spread.
    Raises: BadStatistics. Source: one-way analysis of variance estimator with unequal group sizes
    (Donner 1986, Int. Stat. Rev. 54).
    """
    count = np.asarray(n, dtype=np.float64)
    summed, squared = np.asarray(total, dtype=np.float64), np.asarray(squares, dtype=np.float64)
    if not count.shape == summed.shape == squared.shape or count.ndim != 1:
        raise BadStatistics("counts, sums and sums of squares must be columns of one length")
    if not (np.isfinite(count).all() and np.isfinite(summed).all() and np.isfinite(squared).all()):
        raise BadStatistics("the pre-period sums hold NaN or infinity; leave missing scores out")
    if (count < 0).any() or (squared * count < summed**2 - 1e-6 * (1 + summed**2)).any():
        raise BadStatistics("a sum of squares is smaller than its sum allows; read the sums again")
    seen = count > 0
    count, summed, squared = count[seen], summed[seen], squared[seen]
    groups, sessions = len(count), float(count.sum())
    repeated = int((count >= 2).sum())
    if repeated < least_units or sessions <= groups:
        return NotEnoughData(f"{repeated} of {least_units} units came back before the experiment")
    mean = summed.sum() / sessions
    between = float((count * (summed / count - mean) ** 2).sum()) / (groups - 1)
    within = max(0.0, float((squared - summed**2 / count).sum())) / (sessions - groups)
    typical = (sessions - float((count**2).sum()) / sessions) / (groups - 1)
    spread = between + (typical - 1) * within
    if spread <= 1e-18:
        return NotEnoughData("all sessions before the experiment score the same")
    return min(0.99, max(0.0, (between - within) / spread))
