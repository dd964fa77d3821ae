"""A uniform sample of units with their sessions, of bounded size whatever the traffic."""

import heapq
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

from prx.analyze.observe import Seen, keyed
from prx.analyze.rules import AnalyzeRules
from prx.domain.findings import MAX_EVIDENCE


class UnitSample:
    """Keeps the `max_units` units with the smallest keyed numbers, and of each its `sessions_per_unit`
    sessions with the smallest. Order of arrival does not matter. (Bottom-k sampling, Cohen and Kaplan 2007.)
    """

    def __init__(self, rules: AnalyzeRules) -> None:
        self._rules = rules
        self._largest: list[tuple[int, str]] = []
        self._rows: dict[str, list[tuple[int, str, Seen]]] = {}
        self.sessions = 0

    def wants(self, unit: str) -> bool:
        """False when a session of this unit would be dropped at once."""
        if unit in self._rows or len(self._rows) < self._rules.max_units:
            return True
        return self._draw(unit) < -self._largest[0][0]

    def add(self, seen: Seen) -> None:
        """Take a session into account; a session given twice counts once."""
        self.sessions += 1
        if not self.wants(seen.unit):
            return
        rows = self._rows.get(seen.unit)
        if rows is None:
            rows = self._rows[seen.unit] = []
            heapq.heappush(self._largest, (-self._draw(seen.unit), seen.unit))
            if len(self._rows) > self._rules.max_units:
                del self._rows[heapq.heappop(self._largest)[1]]
        if any(row[1] == seen.session_id for row in rows):
            return
        heapq.heappush(rows, (-seen.draw, seen.session_id, seen))
        if len(rows) > self._rules.sessions_per_unit:
            heapq.heappop(rows)

    def skip(self) -> None:
        """Count a session whose unit is not wanted."""
        self.sessions += 1

    def rows(self) -> tuple[Seen, ...]:
        """Kept sessions in keyed order: the first of a unit is a random one of it."""
        kept = (row[2] for rows in self._rows.values() for row in rows)
        return tuple(sorted(kept, key=lambda seen: (seen.draw, seen.session_id)))

    def _draw(self, unit: str) -> int:
        return keyed(self._rules.sample_key, "unit", unit)


def one_per_unit(rows: Iterable[Seen]) -> Iterator[Seen]:
    """The first session of each unit, so that rows are independent and nobody counts twice."""
    units: set[str] = set()
    for seen in rows:
        if seen.unit not in units:
            units.add(seen.unit)
            yield seen


def evidence_of(rows: Iterable[Seen], per_user: int) -> tuple[str, ...]:
    """Session ids in the order given, at most `per_user` of one unit and `MAX_EVIDENCE` in all."""
    taken: dict[str, int] = {}
    ids: list[str] = []
    for seen in rows:
        if taken.get(seen.unit, 0) < per_user:
            taken[seen.unit] = taken.get(seen.unit, 0) + 1
            ids.append(seen.session_id)
        if len(ids) == MAX_EVIDENCE:
            break
    return tuple(ids)


def grouped(rows: Sequence[Seen], key: Callable[[Seen], Hashable | None]) -> dict[Hashable, list[Seen]]:
    """Rows by key, order kept; a row whose key is None is left out."""
    groups: dict[Hashable, list[Seen]] = {}
    for seen in rows:
        name = key(seen)
        if name is not None:
            groups.setdefault(name, []).append(seen)
    return groups
