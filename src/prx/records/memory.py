"""Records in the memory of one process: for tests of programs that use them, and for the demo."""

import threading
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import count, islice

from prx.domain.erasure import Removed
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
from prx.records.erasedinmemory import MemoryErasures
from prx.records.stored import checked


class MemoryRecords:
    """A `RecordStore` that is gone with its process; usable from several threads."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._closed = False
        self._records: dict[str, Record] = {}
        self._by_session: dict[str, list[Record]] = defaultdict(list)
        self._origins: dict[str, Origin] = {}
        self._starts: list[tuple[int, str]] = []
        self._assembled: dict[str, Trace] = {}
        self._given: dict[tuple[str, str], list[Feedback]] = defaultdict(list)
        self._sessions_by_ref: dict[str, dict[str, None]] = defaultdict(dict)
        self._sessions_in: dict[str, set[str]] = defaultdict(set)
        self._prompts: list[tuple[int, PromptSeen]] = []
        self._numbers = count(1)
        self._touched: dict[str, int] = {}
        self._touches: list[str] = []
        self._scores: dict[str, SessionScore] = {}
        self._scored: list[tuple[int, str]] = []
        self._cursors: dict[str, int] = {}
        self._erasures = MemoryErasures(lambda: tuple(self._records.values()), self._drop, self._blank)

    @property
    def erasures(self) -> MemoryErasures:
        """What must never be stored again."""
        return self._erasures

    def append(self, records: Sequence[Record]) -> int:
        """Store those not stored yet; returns how many were new."""
        for record in records:
            checked(record)
        with self._open():
            before, touched = len(self._records), dict[str, None]()
            for record in self._erasures.admitted(records):
                if record.record_id not in self._records:
                    self._records[record.record_id] = record
                    touched |= dict.fromkeys(self._file(record))
            for session_id in touched:
                self._assembled.pop(session_id, None)
                self._touches.append(session_id)
                self._touched[session_id] = len(self._touches)
            return len(self._records) - before

    def trace(self, session_id: str) -> Trace | None:
        """Everything of one session."""
        with self._open():
            known = self._assembled.get(session_id)
            if known is not None:
                return known
            own = self._by_session.get(session_id, [])
            targets = [(INTERACTION, one.record_id) for one in own if isinstance(one, Interaction)]
            targets += [(REF, ref) for ref in {ref_of(one) for one in own} if ref is not None]
            given = [one for target in targets for one in self._given.get(target, [])]
            trace = assemble(own, given)
            if trace is not None:
                self._assembled[session_id] = trace
            return trace

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
            wanted = [
                (at, session_id)
                for at, session_id in _between(self._starts, since, until)
                if (agent is None or self._origins[session_id].agent == agent)
                and (env is None or self._origins[session_id].env == env)
                and (experiment_id is None or session_id in self._sessions_in.get(experiment_id, ()))
            ]
            if newest_first:
                wanted.reverse()
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
                if self._touched.get(session_id) == position:
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
            for session_id, score in new.items():
                _place(self._scored, session_id, _started(self._scores.get(session_id)), _started(score))
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
                for score in (self._scores[key] for _, key in _between(self._scored, since, until))
                if (agent is None or score.agent == agent)
                and (env is None or score.env == env)
                and (experiment_id is None or score.arm(experiment_id) is not None)
                and (version is None or score.version == version)
                and (score.closed or not closed_only)
            ]
        yield from wanted

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
            self._prompts.append((next(self._numbers), record))
            return ()
        session_id = session_of(record)
        if session_id is None:
            assert isinstance(record, Feedback)
            return self._file_feedback(record)
        self._by_session[session_id].append(record)
        origin = origin_of(record)
        if origin is not None:
            known = self._origins.get(session_id)
            first = min(origin, known or origin)
            _place(self._starts, session_id, known.at if known else None, first.at)
            self._origins[session_id] = first
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

    def _drop(self, sessions: frozenset[str]) -> Removed:
        with self._open():
            calls = {one.record_id for key in sessions for one in self._by_session.get(key, ())}
            refs = {ref for ref, named in self._sessions_by_ref.items() if sessions & named.keys()}
            targets = {(INTERACTION, one) for one in calls} | {(REF, ref) for ref in refs}
            gone = calls | {one.record_id for target in targets for one in self._given.pop(target, ())}
            for record_id in gone:
                self._records.pop(record_id, None)
            known, scores = sessions & self._origins.keys(), sessions & self._scores.keys()
            self._starts = [one for one in self._starts if one[1] not in sessions]
            self._scored = [one for one in self._scored if one[1] not in sessions]
            self._assembled.clear()
            for named in self._sessions_by_ref.values():
                for key in sessions:
                    named.pop(key, None)
            for members in self._sessions_in.values():
                members -= sessions
            for key in sessions:
                self._by_session.pop(key, None)
                self._origins.pop(key, None)
                self._scores.pop(key, None)
                self._touched.pop(key, None)
            return Removed(len(known), len(gone), len(scores))

    def _blank(self, record_ids: Sequence[str]) -> int:
        with self._open():
            before = len(self._prompts)
            self._prompts = [one for one in self._prompts if one[1].record_id not in record_ids]
            return before - len(self._prompts)

    def _open(self) -> threading.RLock:
        if self._closed:
            raise StoreError("this in-memory record store is closed and its content is gone; open another")
        return self._lock


def open_memory() -> MemoryRecords:
    """An empty record store in memory."""
    return MemoryRecords()


def _between(
    ordered: Sequence[tuple[int, str]], since: datetime | None, until: datetime | None
) -> Sequence[tuple[int, str]]:
    """The part of a list ordered by time that lies in `since` <= time < `until`."""
    first = 0 if since is None else bisect_left(ordered, (to_micros(since), ""))
    last = len(ordered) if until is None else bisect_left(ordered, (to_micros(until), ""))
    return ordered[first:last]


def _place(ordered: list[tuple[int, str]], key: str, before: int | None, now: int | None) -> None:
    """Move `key` to its new time, or enter it."""
    if before == now or now is None:
        return
    if before is not None:
        del ordered[bisect_left(ordered, (before, key))]
    insort(ordered, (now, key))


def _started(score: SessionScore | None) -> int | None:
    return None if score is None else to_micros(score.started_at)
