"""The data plane: append-only records in, traces and scores out."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Protocol

from prx.domain.erasure import Erasure, Removed, Subject
from prx.domain.records import Interaction, PromptSeen, Record, Trace
from prx.domain.scores import SessionScore


class Erasures(Protocol):
    """What a store must forget and never store again.

    An erasure is tombstones first, in one transaction, then the rows. Tombstones hold digests under a salt of
    the store, never an id; those of a user, tenant or ref hold for what was recorded up to the erasure, those
    of sessions and calls for ever.
    """

    def sessions_of(self, subject: Subject) -> tuple[str, ...]:
        """Sessions that belong to the subject, each once. Reads all session starts."""
        ...

    def condemn(self, subject: Subject, sessions: Sequence[str], at: datetime) -> Erasure:
        """Refuse the records of the subject and of these sessions, and what is given to their calls and
        refs, from now on; the rows go with `carry_out`."""
        ...

    def carry_out(self) -> Removed:
        """Delete the rows of condemned sessions: records, what was given to them, scores. Goes on where a
        crash stopped it."""
        ...

    def finish(self, digest: str) -> None:
        """Note that every place was reached for the subject of this digest."""
        ...

    def erasures(self, *, after: int = 0) -> tuple[Erasure, ...]:
        """Erasures with a number above `after`, oldest first."""
        ...

    def digest(self, subject: Subject) -> str:
        """Under which the subject is remembered in this store."""
        ...

    def refused(self, records: Sequence[Record]) -> frozenset[str]:
        """Ids of those records that a tombstone forbids."""
        ...

    def blank_prompts(self, record_ids: Sequence[str]) -> int:
        """Empty these stored defaults of prompts; returns how many there were."""
        ...

    def scrub(self) -> str:
        """Overwrite what deleted rows left in the store's files; why not, or empty when that was done."""
        ...


class RecordStore(Protocol):
    """Records of all agents. Appending is idempotent by `record_id`; order of arrival does not matter."""

    @property
    def erasures(self) -> Erasures:
        """What must never be stored again; `append` leaves it out without a word."""
        ...

    def append(self, records: Sequence[Record]) -> int:
        """Store those not stored yet in one durable batch; returns how many were new."""
        ...

    def trace(self, session_id: str) -> Trace | None:
        """Everything of one session. Feedback given to a ref or an interaction of it is included; a
        session whose start never arrived gets one inferred from its first interaction."""
        ...

    def traces(
        self,
        *,
        agent: str | None = None,
        env: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        experiment_id: str | None = None,
        newest_first: bool = False,
        limit: int | None = None,
    ) -> Iterator[Trace]:
        """Traces by session start (half-open), streamed: memory does not grow with the count."""
        ...

    def interaction(self, record_id: str) -> Interaction | None:
        """One interaction by id."""
        ...

    def prompts_seen(self, *, after: int, limit: int = 1000) -> tuple[int, tuple[PromptSeen, ...]]:
        """Prompt defaults that arrived after cursor `after`, with the new cursor."""
        ...

    def changed_sessions(self, *, after: int, limit: int = 1000) -> tuple[int, tuple[str, ...]]:
        """Session ids touched by records that arrived after cursor `after`, with the new cursor."""
        ...

    def unclosed_sessions(self, *, closing_before: datetime, limit: int = 10000) -> tuple[str, ...]:
        """Sessions with a stored score that is not closed although its `closes_at` has passed."""
        ...

    def put_scores(self, scores: Iterable[SessionScore]) -> None:
        """Insert or replace the derived scores of sessions."""
        ...

    def scores(
        self,
        *,
        agent: str | None = None,
        env: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        experiment_id: str | None = None,
        version: str | None = None,
        closed_only: bool = False,
    ) -> Iterator[SessionScore]:
        """Scores by session start (half-open), oldest first, streamed."""
        ...

    def cursor(self, name: str) -> int:
        """Position of a named reader; 0 at first."""
        ...

    def set_cursor(self, name: str, value: int) -> None:
        """Keep the position of a named reader."""
        ...

    def counts(self) -> dict[str, int]:
        """Number of sessions, interactions, feedback and scores."""
        ...

    def close(self) -> None:
        """Release files and locks."""
        ...
