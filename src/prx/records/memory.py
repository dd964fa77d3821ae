"""Records in the memory of one process: for tests of programs that use them, and for the demo."""

import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice

from prx.domain.errors import StoreError
from prx.domain.records import Feedback, Interaction, PromptSeen, Record, Trace
from prx.domain.scores import SessionScore
from prx.domain.times import to_micros
from prx.records.assembly import (
    INTERACTION,
    REF,
    Origin,
    assemble,
    experiment_of,
    origin_of,
    ref_of,
    session_of,
)
from prx.records.stored import checked


class MemoryRecords:
    """A `RecordStore` that is gone with its process; usable from several threads."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._closed = False
        self._records: dict[str, Record] = {}
        self._by_session: dict[str, list[Record]] = defaultdict(list)
        self._origins: dict[str, Origin] = {}
        self._given: dict[tuple[str, str], list[Feedback]] = defaultdict(list)
        self._sessions_by_ref: dict[str, dict[str, None]] = defaultdict(dict)
        self._sessions_in: dict[str, set[str]] = defaultdict(set)
        self._prompts: list[tuple[int, PromptSeen]] = []
        self._touched: dict[str, int] = {}
        self._touches: list[str] = []
        self._scores: dict[str, SessionScore] = {}
        self._cursors: dict[str, int] = {}

    def append(self, records: Sequence[Record]) -> int:
        """Store those not stored yet; returns how many were new."""
        for record in records:
            checked(record)
        with self._open():
            before, touched = len(self._records), dict[str, None]()
            for record in records:
                if record.record_id not in self._records:
                    self._records[record.record_id] = record
                    touched |= dict.fromkeys(self._file(record))
            for session_id in touched:
                self._touches.append(session_id)
                self._touched[session_id] = len(self._touches)
            return len(self._records) - before

    def trace(self, session_id: str) -> Trace | None:
        """Everything of one session."""
        with self._open():
            own = self._by_session.get(session_id, [])
            targets = [(INTERACTION, one.record_id) for one in own if isinstance(one, Interaction)]
            targets += [(REF, ref) for ref in {ref_of(one) for one in own} if ref is not None]
            given = [one for target in targets for one in self._given.get(target, [])]
            return assemble(own, given)

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
        """Traces by session start (half-open), streamed."""
        with self._open():
            wanted = sorted(
                (
                    (origin.at, session_id)
                    for session_id, origin in self._origins.items()
                    if (agent is None or origin.agent == agent)
                    and (env is None or origin.env == env)
                    and _between(origin.at, since, until)
                    and (experiment_id is None or session_id in self._sessions_in.get(experiment_id, ()))
                ),
                reverse=newest_first,
            )
        found = (self.trace(session_id) for _, session_id in wanted)
        yield from islice((trace for trace in found if trace is not None), limit)

    def interaction(self, record_id: str) -> Interaction | None:
        """One interaction by id."""
        with self._open():
            found = self._records.get(record_id)
            return found if isinstance(found, Interaction) else None

    def prompts_seen(self, *, after: int, limit: int = 1000) -> tuple[int, tuple[PromptSeen, ...]]:
        """Prompt defaults that arrived after cursor `after`, with the new cursor."""
        with self._open():
            page = list(islice((one for one in self._prompts if one[0] > after), limit))
            return (page[-1][0] if page else after), tuple(seen for _, seen in page)

    def changed_sessions(self, *, after: int, limit: int = 1000) -> tuple[int, tuple[str, ...]]:
        """Session ids touched after cursor `after`, each once, with the new cursor."""
        with self._open():
            found: list[str] = []
            cursor = after
            for position in range(after + 1, len(self._touches) + 1):
                session_id = self._touches[position - 1]
                if self._touched[session_id] == position:
                    found.append(session_id)
                    cursor = position
                if len(found) >= limit:
                    break
            return cursor, tuple(found)

    def unclosed_sessions(self, *, closing_before: datetime, limit: int = 10000) -> tuple[str, ...]:
        """Sessions whose score is open although its `closes_at` has passed, longest past first."""
        with self._open():
            late = sorted(
                (to_micros(score.closes_at), score.session_id)
                for score in self._scores.values()
                if not score.closed and score.closes_at < closing_before
            )
            return tuple(session_id for _, session_id in late[:limit])

    def put_scores(self, scores: Iterable[SessionScore]) -> None:
        """Insert or replace the derived scores of sessions."""
        new = {score.session_id: score for score in scores}
        with self._open():
            self._scores |= new

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
        with self._open():
            wanted = [
                score
                for score in self._scores.values()
                if (agent is None or score.agent == agent)
                and (env is None or score.env == env)
                and _between(to_micros(score.started_at), since, until)
                and (experiment_id is None or score.arm(experiment_id) is not None)
                and (version is None or score.version == version)
                and (score.closed or not closed_only)
            ]
        yield from sorted(wanted, key=lambda score: (to_micros(score.started_at), score.session_id))

    def cursor(self, name: str) -> int:
        """Position of a named reader; 0 at first."""
        with self._open():
            return self._cursors.get(name, 0)

    def set_cursor(self, name: str, value: int) -> None:
        """Keep the position of a named reader."""
        with self._open():
            self._cursors[name] = value

    def counts(self) -> dict[str, int]:
        """Number of sessions, interactions, feedback and scores."""
        with self._open():
            kinds = [type(record) for record in self._records.values()]
            return {
                "sessions": len(self._origins),
                "interactions": kinds.count(Interaction),
                "feedback": kinds.count(Feedback),
                "scores": len(self._scores),
            }

    def close(self) -> None:
        """Refuse everything from now on."""
        self._closed = True

    def _file(self, record: Record) -> tuple[str, ...]:
        """Index a new record; returns the sessions whose trace it changes."""
        if isinstance(record, PromptSeen):
            self._prompts.append((len(self._prompts) + 1, record))
            return ()
        session_id = session_of(record)
        if session_id is None:
            assert isinstance(record, Feedback)
            return self._file_feedback(record)
        self._by_session[session_id].append(record)
        origin = origin_of(record)
        if origin is not None:
            self._origins[session_id] = min(origin, self._origins.get(session_id, origin))
        if (ref := ref_of(record)) is not None:
            self._sessions_by_ref[ref][session_id] = None
        if (experiment_id := experiment_of(record)) is not None:
            self._sessions_in[experiment_id].add(session_id)
        return (session_id,)

    def _file_feedback(self, feedback: Feedback) -> tuple[str, ...]:
        self._given[feedback.target_kind, feedback.target].append(feedback)
        if feedback.target_kind == REF:
            return tuple(self._sessions_by_ref.get(feedback.target, ()))
        target = self._records.get(feedback.target)
        return (target.session_id,) if isinstance(target, Interaction) else ()

    def _open(self) -> threading.RLock:
        if self._closed:
            raise StoreError("this in-memory record store is closed and its content is gone; open another")
        return self._lock


def open_memory() -> MemoryRecords:
    """An empty record store in memory."""
    return MemoryRecords()


def _between(at: int, since: datetime | None, until: datetime | None) -> bool:
    return (since is None or at >= to_micros(since)) and (until is None or at < to_micros(until))
