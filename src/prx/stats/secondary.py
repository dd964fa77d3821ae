"""Secondary tests at every look: each dimension against a boundary of its own, at alpha over their number."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from prx.domain.errors import BadStatistics
from prx.stats.inference import repeated_p
from prx.stats.multiplicity import bonferroni, holm
from prx.stats.stopping import Design, Look, State, bounds_at

_GAIN = 1e-3


@dataclass(frozen=True, slots=True)
class Measured:
    """One dimension at one look: z with its t tail mapped, and information 1 / se^2."""

    z: float
    information: float


@dataclass(frozen=True, slots=True)
class Secondary:
    """p_value: repeated p over the looks so far, unadjusted for other dimensions; bonferroni, holm: of it.

    bound_z: what |z| at the latest look is held against, at alpha / tests; inf where the dimension cannot
    decide at this look. crossed: Bonferroni p at or below the design's alpha.
    """

    p_value: float
    bonferroni: float
    holm: float
    bound_z: float
    crossed: bool


def secondary_tests(
    design: Design,
    looks: tuple[Look, ...],
    history: Mapping[str, Sequence[Measured | None]],
    *,
    tests: int,
) -> dict[str, Secondary]:
    """The dimensions that have data at some look, each tested at alpha / `tests` over all looks.

    history: per dimension one entry per look, None where it had no data: such a look, and one that brought
    the dimension no new information, is skipped for it, and its alpha goes to the next. Alpha is spent by
    the fractions of the composite; the looks of a dimension correlate by its own information. Raises:
    BadStatistics where a history and the looks differ in number.
    Source: Bonferroni over group-sequential tests (Maurer and Bretz 2013, Stat. Biopharm. Res. 5).
    """
    paths = {name: path for name, past in history.items() if (path := _path(looks, past))}
    level = design.alpha / tests
    p_values = {name: repeated_p(design, State(design.plan_id, path)) for name, path in paths.items()}
    plain, stepped = bonferroni(p_values, tests=tests), holm(p_values, tests=tests)
    return {
        name: Secondary(
            p_value=p,
            bonferroni=plain[name],
            holm=stepped[name],
            bound_z=_here(design, paths[name], looks, level),
            crossed=plain[name] <= design.alpha,
        )
        for name, p in p_values.items()
    }


def _path(looks: tuple[Look, ...], past: Sequence[Measured | None]) -> tuple[Look, ...]:
    if len(past) != len(looks):
        raise BadStatistics(f"{len(past)} measurements for {len(looks)} looks; give one or None for each")
    path: list[Look] = []
    for here, found in zip(looks, past, strict=True):
        if found is None or (path and found.information < path[-1].information * (1.0 + _GAIN)):
            continue
        path.append(replace(here, z=found.z, information=found.information))
    return tuple(path)


def _here(design: Design, path: tuple[Look, ...], looks: tuple[Look, ...], level: float) -> float:
    if path[-1].hours != looks[-1].hours:
        return math.inf
    bound = bounds_at(design, path, level)[-1]
    return bound if bound <= 8.0 else math.inf
