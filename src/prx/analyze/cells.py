"""Where a yes/no outcome concentrates: each cell of a key against the rest, by unit."""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from prx.analyze.observe import Seen
from prx.analyze.rates import benjamini_hochberg, fisher_upper, wilson
from prx.analyze.rules import AnalyzeRules
from prx.analyze.sample import grouped, one_per_unit
from prx.domain.answers import NotEnoughData
from prx.domain.findings import Rate


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell whose rate is above the rest's: its rate and its bad sessions in keyed order."""

    key: Hashable
    rate: Rate
    bad: tuple[Seen, ...]
    all: tuple[Seen, ...]


def concentrated(
    rows: Sequence[Seen],
    *,
    key: Callable[[Seen], Hashable | None],
    bad: Callable[[Seen], bool | None],
    rules: AnalyzeRules,
) -> tuple[Cell, ...] | NotEnoughData:
    """Cells whose rate is above that of all other cells, worst p first.

    One random session per unit stands for the unit inside the cell, and one for it outside, so a unit
    with many sessions weighs as much as one with a single one. One-sided Fisher test per cell that meets
    the floors, Benjamini-Hochberg over all cells with `min_units` at the detector's share of alpha.
    """
    known = [seen for seen in rows if bad(seen) is not None and key(seen) is not None]
    units = len({seen.unit for seen in known})
    if units < 2 * rules.min_units:
        return NotEnoughData(f"{units} units with a known outcome, {2 * rules.min_units} needed")
    groups = grouped(known, key)
    if len(groups) < 2:
        return NotEnoughData("all sessions fall in one group, there is nothing to compare it with")
    rest_of = _rest_totals(known, key, bad)
    rates: dict[Hashable, Rate] = {}
    p_values: dict[Hashable, float] = {}
    for name, members in groups.items():
        mine = list(one_per_unit(members))
        count = sum(bool(bad(seen)) for seen in mine)
        rest_count, rest_total = rest_of(name)
        if len(mine) < rules.min_units or rest_total < rules.min_units:
            continue
        p_values[name] = fisher_upper(count, len(mine), rest_count, rest_total)
        interval = wilson(count, len(mine))
        rates[name] = Rate(
            count=count,
            total=len(mine),
            low=interval.low,
            high=interval.high,
            rest_count=rest_count,
            rest_total=rest_total,
            p_value=p_values[name],
        )
    if not rates:
        return NotEnoughData(f"no group has {rules.min_units} units beside as many others")
    kept = [
        name
        for name in benjamini_hochberg(p_values, rules.detector_alpha)
        if rates[name].count >= rules.min_failures and excess(rates[name]) >= rules.min_excess
    ]
    kept.sort(key=lambda name: (p_values[name], str(name)))
    return tuple(Cell(n, rates[n], tuple(s for s in groups[n] if bad(s)), tuple(groups[n])) for n in kept)


def excess(rate: Rate) -> float:
    """How far the rate lies above the rest's, -1..1."""
    return rate.count / rate.total - rate.rest_count / rate.rest_total


def severity_of(rate: Rate) -> int:
    """1..5: how sure the excess is and how many it hits.

    reach = (lower 95 % bound of the rate - rate of the rest, at least 0) x sqrt(share of the units);
    one point, and one more at 0.02, 0.05, 0.10 and 0.20 each.
    """
    sure = max(0.0, rate.low - rate.rest_count / rate.rest_total)
    reach = sure * math.sqrt(rate.total / (rate.total + rate.rest_total))
    return 1 + sum(reach >= step for step in (0.02, 0.05, 0.10, 0.20))


def _rest_totals(
    known: Sequence[Seen], key: Callable[[Seen], Hashable | None], bad: Callable[[Seen], bool | None]
) -> Callable[[Hashable], tuple[int, int]]:
    """For a cell: bad and all among one session per unit outside of it.

    A unit's session outside cell c is its first one if that lies elsewhere, else its first elsewhere.
    """
    first: dict[str, Seen] = {}
    second: dict[str, Seen] = {}
    for seen in known:
        if seen.unit not in first:
            first[seen.unit] = seen
        elif seen.unit not in second and key(seen) != key(first[seen.unit]):
            second[seen.unit] = seen
    total, count = len(first), sum(bool(bad(seen)) for seen in first.values())
    shift: dict[Hashable, tuple[int, int]] = {}
    for unit, seen in first.items():
        other = second.get(unit)
        more = (bool(bad(other)), 1) if other else (False, 0)
        less = shift.get(key(seen), (0, 0))
        shift[key(seen)] = (less[0] + more[0] - bool(bad(seen)), less[1] + more[1] - 1)

    def rest(name: Hashable) -> tuple[int, int]:
        change = shift.get(name, (0, 0))
        return count + change[0], total + change[1]

    return rest
