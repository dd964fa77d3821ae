"""Adjusted p-values for families of tests, and the order in which composite and dimensions are read."""

from collections.abc import Mapping
from dataclasses import dataclass

from prx.domain.answers import NotEnoughData
from prx.domain.errors import BadStatistics


@dataclass(frozen=True, slots=True)
class DimensionTest:
    """One dimension of the family: p as tested, adjusted by Bonferroni (decides) and by Holm (beside)."""

    p_value: float
    bonferroni: float
    holm: float
    significant: bool


@dataclass(frozen=True, slots=True)
class Family:
    """The composite at full alpha, then the dimensions; `read` says whether the dimensions may be read."""

    composite_p: float
    significant: bool
    read: bool
    dimensions: Mapping[str, DimensionTest | NotEnoughData]


def bonferroni(p_values: Mapping[str, float], *, tests: int | None = None) -> dict[str, float]:
    """p times the number of tests, at most 1; `tests` counts planned ones that gave no p too."""
    size = _size(p_values, tests)
    return {name: min(1.0, p * size) for name, p in p_values.items()}


def holm(p_values: Mapping[str, float], *, tests: int | None = None) -> dict[str, float]:
    """Step-down adjusted p, never above Bonferroni's. Source: Holm 1979, Scand. J. Stat. 6."""
    size = _size(p_values, tests)
    adjusted: dict[str, float] = {}
    running = 0.0
    for rank, (name, p) in enumerate(sorted(p_values.items(), key=lambda item: item[1])):
        running = max(running, min(1.0, p * (size - rank)))
        adjusted[name] = running
    return {name: adjusted[name] for name in p_values}


def composite_first(
    composite_p: float, dimensions: Mapping[str, float | NotEnoughData], *, alpha: float = 0.05
) -> Family:
    """Gatekeeping: the composite keeps all of alpha; dimensions share alpha, and count only after it.

    The family-wise error stays at alpha whichever hypotheses are true (Westfall and Krishen 2001,
    J. Stat. Plan. Inference 99): a dimension is called significant only where the composite is.
    A dimension without data still takes its share. Raises: BadStatistics.
    """
    _check({"composite": composite_p})
    if not 0 < alpha < 1:
        raise BadStatistics(f"alpha is {alpha}; give a value between 0 and 1")
    known = {name: p for name, p in dimensions.items() if not isinstance(p, NotEnoughData)}
    plain, stepped = bonferroni(known, tests=len(dimensions)), holm(known, tests=len(dimensions))
    won = composite_p <= alpha
    found: dict[str, DimensionTest | NotEnoughData] = {}
    for name, p in dimensions.items():
        if isinstance(p, NotEnoughData):
            found[name] = p
        else:
            found[name] = DimensionTest(p, plain[name], stepped[name], won and plain[name] <= alpha)
    return Family(composite_p, won, won, found)


def _size(p_values: Mapping[str, float], tests: int | None) -> int:
    _check(p_values)
    size = len(p_values) if tests is None else tests
    if size < len(p_values):
        raise BadStatistics(f"{len(p_values)} p-values for a family of {size}; count every planned test")
    return size


def _check(p_values: Mapping[str, float]) -> None:
    for name, p in p_values.items():
        if not 0 <= p <= 1:
            raise BadStatistics(f"the p-value of {name} is {p}; it lies in 0 to 1")
