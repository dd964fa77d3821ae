"""Which dimensions enter the composite, and with which weights."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from prx.domain.answers import NotEnoughData
from prx.domain.errors import BadStatistics


@dataclass(frozen=True, slots=True)
class FrozenDimensions:
    """Dimensions that enter the composite with weights summing to 1, and those only reported and guarded."""

    weights: Mapping[str, float]
    reported: tuple[str, ...]


def choose_dimensions(
    coverage: Mapping[str, float], weights: Mapping[str, float], floor: float = 0.25
) -> FrozenDimensions | NotEnoughData:
    """The set D: dimensions with a pre-period coverage of at least `floor`, weights renormalised.

    coverage: share of pre-period sessions with a score, 0..1; a dimension not named has none.
    Raises: BadStatistics where the weights do not sum to 1.
    """
    checked = checked_weights(weights)
    if any(not 0 <= c <= 1 for c in coverage.values()):
        raise BadStatistics("a coverage lies outside 0 to 1; it is the share of sessions with a score")
    chosen = {d: w for d, w in checked.items() if w > 0 and coverage.get(d, 0.0) >= floor}
    reported = tuple(d for d in checked if d not in chosen)
    if not chosen:
        return NotEnoughData(f"no dimension is scored in {floor:.0%} of the sessions before the experiment")
    weight = math.fsum(chosen.values())
    return FrozenDimensions({d: w / weight for d, w in chosen.items()}, reported)


def checked_weights(weights: Mapping[str, float]) -> Mapping[str, float]:
    """The weights, each finite and 0 or more, summing to 1. Raises: BadStatistics naming the sum."""
    total = math.fsum(weights.values()) if weights else 0.0
    if any(not (math.isfinite(w) and w >= 0) for w in weights.values()) or abs(total - 1) > 1e-9:
        raise BadStatistics(f"the weights sum to {total:g}; give weights of 0 or more that sum to 1")
    return weights
