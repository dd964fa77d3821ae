"""What a memory store does; every store passes the same contract suite."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from prx.domain.memory import Ask, InForce, LoggedQuery, MemoryEntry, Recalled, SessionMemory
from prx.domain.records import PRODUCTION, MemoryWritten


class Embedder(Protocol):
    """Turns texts into vectors of one space; optional, recall is lexical without it."""

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """One vector per text. Raises: ModelUnavailable."""
        ...


class MemoryStore(Protocol):
    """A projection of what sessions recorded and of the derived entries of memory changes.

    Entries never change. Which of them count is not kept here: each question brings the operations in force,
    so that a rollback needs no write. It can be rebuilt from records and versions.
    """

    def learn(self, sessions: Sequence[SessionMemory]) -> int:
        """Store what sessions wrote and used, each session as a whole in place of its earlier reading;
        entries already known stay as they are. Returns how many entries were new."""
        ...

    def derive(self, entries: Sequence[MemoryEntry]) -> None:
        """Store entries of memory changes; they take no part in anything before an operation names them."""
        ...

    def recall(self, ask: Ask, force: InForce) -> tuple[Recalled, ...]:
        """The best entries for a query, best first, at most one of a group that says the same.

        Only entries of the reader's scopes, in force, valid at `ask.at` and not superseded then. Equal
        questions on equal content give equal answers; scores do not depend on what others wrote.
        """
        ...

    def entries(
        self, agent: str, *, force: InForce, at: datetime, env: str = PRODUCTION
    ) -> tuple[MemoryEntry, ...]:
        """All raw entries and the derived ones in force, with status at `at` and counters, oldest first."""
        ...

    def known(self, memory_ids: Sequence[str]) -> tuple[MemoryEntry, ...]:
        """The entries among these ids that are stored, without counters, in the order of their ids."""
        ...

    def queries(self, agent: str, *, limit: int, env: str = PRODUCTION) -> tuple[LoggedQuery, ...]:
        """The newest logged queries that found anything, newest first."""
        ...

    def sessions(self) -> tuple[MemoryWritten, ...]:
        """What every raw entry was written as, without its text, and one of these for every other session
        that used or asked for something (with an empty id)."""
        ...

    def forget(self, sessions: Sequence[str], memory_ids: Sequence[str]) -> tuple[str, ...]:
        """Remove what these sessions wrote, used and asked, these entries, and all derived from what is
        removed; returns the ids of the removed entries."""
        ...

    def scrub(self) -> str:
        """Overwrite what removed rows left in the files; why not, or empty when that was done."""
        ...

    def cursor(self) -> int:
        """How far the records were read; 0 at first."""
        ...

    def set_cursor(self, value: int) -> None:
        """Keep how far the records were read."""
        ...

    def close(self) -> None:
        """Release files and locks."""
        ...
