"""A long read in pages, ordered by time and session, each beginning where the last one ended."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Walk:
    """What to read and how far it got.

    `table` is sessions or scores; `head` the statements that come before the conditions; `conditions` maps
    the name of a condition to its value; `given` are further values that the head needs; `sql` are the
    statements by name.
    """

    table: str
    head: tuple[str, ...]
    conditions: Mapping[str, Any]
    given: Mapping[str, Any]
    sql: Mapping[str, str]
    newest_first: bool = False
    reached: tuple[int, str] | None = None

    def page(self, size: int) -> tuple[str, dict[str, Any]]:
        """SQL and values of the next page of at most `size` rows."""
        conditions = {name: value for name, value in self.conditions.items() if value is not None}
        given = {**self.given, "limit": size}
        names = list(self.head)
        if self.reached is not None:
            # where the walk got to implies its first bound; both together would scan from that bound again
            conditions.pop("until" if self.newest_first else "since", None)
            names.append(f"{self.table}_before" if self.newest_first else f"{self.table}_after")
            given |= {"at": self.reached[0], "session_id": self.reached[1]}
        names += [f"{self.table}_with_{name}" for name in conditions]
        names.append(f"{self.table}_newest_first" if self.newest_first else f"{self.table}_oldest_first")
        return " ".join(self.sql[name] for name in names), given | conditions

    def past(self, row: tuple[Any, ...]) -> "Walk":
        """The same walk after a row that begins with time and session."""
        return replace(self, reached=(row[0], row[1]))
