"""Which of the changes that serve began a drop: read off the sessions that each of them served."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from prx.domain.scores import SessionScore
from prx.domain.versions import Version
from prx.engine.turn import Turn
from prx.engine.undone import of_what_serves, served_since
from prx.ledger.port import View
from prx.release.applied import changes_in_force, current, lineage
from prx.release.onset import BEFORE, Onset, onset

LOOK_BACK = timedelta(days=7)
LEAST_BEFORE = 20


@dataclass(frozen=True, slots=True)
class Blame:
    """The changes that a drop may have begun with, newest first; empty where it began before all of them.

    `why` says so with the probabilities; `alone`: one change did it, and the others are cleared.
    """

    changes: tuple[Version, ...]
    why: str

    @property
    def alone(self) -> bool:
        """Whether one change is told apart from every other cause."""
        return len(self.changes) == 1


def suspects(view: View, agent: str, now: datetime) -> tuple[Version, ...]:
    """The changes in force of the last 7 days and the newest of all, newest first, that have a baseline."""
    found = [one for one in changes_in_force(view, current(view, agent)) if one.baseline and one.parents]
    return tuple(one for one in found if one is found[0] or one.created_at > now - LOOK_BACK)


def blame(
    turn: Turn, tripped: Version, value: Callable[[SessionScore], float | None], *, failures: bool
) -> Blame:
    """Who began the drop that was noticed on `tripped`.

    `value`: 1 or 0 for a failed session or not where `failures`, else a score of which more is better; None
    where the session has none.
    """
    with turn.view() as view:
        changes = suspects(view, turn.agent, turn.now)
        if tripped.label not in {one.label for one in changes}:
            changes = (*changes, tripped)
        changes = tuple(sorted(changes, key=served_since))
        owner = _owners(view, turn.agent, changes)
    since = served_since(changes[0]) - LOOK_BACK
    stretches: list[list[float]] = [[] for _ in range(len(changes) + 1)]
    for score in sorted(of_what_serves(turn, since), key=lambda one: one.started_at):
        number, found = owner(score), value(score)
        if number is not None and found is not None:
            stretches[number - BEFORE].append(found)
    if len(stretches[0]) < LEAST_BEFORE:
        return Blame((tripped,), "too few sessions before it to look for another cause")
    seen = onset(stretches, failures=failures)
    return Blame((tripped,), "no other place explains it") if seen is None else _worded(seen, changes)


def _worded(seen: Onset, changes: Sequence[Version]) -> Blame:
    named = tuple(changes[place] for place in sorted(seen.suspects, reverse=True) if place != BEFORE)
    chances = ", ".join(f"{one.label} {seen.shares[changes.index(one) - BEFORE]:.2f}" for one in named)
    before = seen.shares[0]
    if not named:
        return Blame((), f"it began before any change of the last days (probability {before:.2f})")
    earlier = f", before them {before:.2f}" if before > 0.005 else ""
    return Blame(named, f"it began with {chances}{earlier}")


def _owners(view: View, agent: str, changes: Sequence[Version]) -> Callable[[SessionScore], int | None]:
    """The change whose stretch a session belongs to: by the version that it was served, else by its time."""
    numbers = {one.label: number for number, one in enumerate(changes)}
    of_version: dict[str, int] = {}
    number = BEFORE
    for version in reversed(lineage(view, current(view, agent))):
        number = max(number, numbers.get(version.label, BEFORE))
        of_version[version.label] = number
    begins = [served_since(one) for one in changes]

    def owner(score: SessionScore) -> int | None:
        if score.version is not None:
            return of_version.get(score.version)
        return sum(begin <= score.started_at for begin in begins) + BEFORE

    return owner
