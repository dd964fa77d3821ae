"""Scores from quantities where less is better, and the percentiles that fitness uses."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from prx.domain.answers import NotEnoughData
from prx.domain.errors import BadStatistics

AUTO_TARGET_SESSIONS = 200
_AUTO_TARGET, _AUTO_CEILING = 0.05, 0.99
_LEAST_SPREAD = 2.0


def log_linear(x: float, *, target: float, ceiling: float) -> float:
    """Score in 0..1 of a quantity `x` >= 0: 1 at or below `target`, 0 at or above `ceiling`, linear in
    log x between: ln(ceiling / x) / ln(ceiling / target).

    `x`, `target` and `ceiling` share a unit; 0 < target < ceiling. Raises: BadStatistics.
    """
    if not (0 < target < ceiling and math.isfinite(ceiling)):
        raise BadStatistics(
            f"a curve from {target} to {ceiling} scores nothing; give a target above 0 and a larger ceiling"
        )
    if math.isnan(x) or x < 0:
        raise BadStatistics(f"{x} cannot be scored; give a number from 0 on")
    if x <= target:
        return 1.0
    return 0.0 if x >= ceiling else math.log(ceiling / x) / math.log(ceiling / target)


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` (0..1) of `values` lies, in their unit; they need not be sorted.

    Linear interpolation between order statistics at rank (n - 1) share (Hyndman and Fan 1996, type 7).
    Raises: BadStatistics for no values or a share outside 0..1.
    """
    if not values:
        raise BadStatistics("no values have no percentile; check for data first")
    if not 0 <= share <= 1:
        raise BadStatistics(f"a share of {share} is no percentile; give a number from 0 to 1")
    ordered = sorted(values)
    rank = (len(ordered) - 1) * share
    low = math.floor(rank)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (rank - low)


@dataclass(frozen=True, slots=True)
class TokenTargets:
    """Frozen ends of the token curve, in tokens per session; `sessions`: how many they came from."""

    target: float
    ceiling: float
    sessions: int


def auto_token_targets(
    tokens: Sequence[int], *, needed: int = AUTO_TARGET_SESSIONS
) -> TokenTargets | NotEnoughData:
    """Ends of the token curve from the first `needed` sessions: their 5th and 99th percentile.

    `tokens`: total tokens per session, oldest session first; later ones are not looked at. Where all
    sessions are nearly alike the ceiling is twice the target, so that a curve exists.
    """
    first = [float(t) for t in tokens[:needed] if t > 0]
    if len(first) < needed:
        return NotEnoughData(f"{len(first)} sessions with token counts, {needed} are needed to set the curve")
    target = percentile(first, _AUTO_TARGET)
    return TokenTargets(target, max(percentile(first, _AUTO_CEILING), _LEAST_SPREAD * target), len(first))
