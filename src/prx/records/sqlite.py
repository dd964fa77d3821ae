"""Records in one SQLite file, for any number of processes on one machine."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from prx.domain.codec import encode
from prx.domain.records import Feedback, Interaction, PromptSeen, Record, Trace
from prx.domain.scores import SessionScore
from prx.domain.times import to_micros
from prx.records.assembly import (
    INTERACTION,
    REF,
    assemble,
    experiment_of,
    origin_of,
    ref_of,
    session_of,
)
from prx.records.stored import kind_of, read_record, read_score, record_row, score_row
from prx.records.walk import SQL, Walk
from prx.sqlite import Database, Schema, Work, read_statements
from prx.sqlite.database import BUSY_SECONDS

SCHEMA = Schema(
    name="record store",
    application_id=0x50525852,  # "PRXR"
    migrations=(tuple(read_statements("prx.records", "schema_1.sql").values()),),
)
_TRACES_A_PAGE = 200
_SCORES_A_PAGE = 2000


class SqliteRecords:
    """A `RecordStore` in one SQLite file. Long reads take pages, each a short read of its own, so that
    they neither grow in memory nor keep the log from being written back."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def append(self, records: Sequence[Record]) -> int:
        """Store those not stored yet in one durable batch; returns how many were new."""
        if not records:
            return 0
        first: dict[str, Record] = {}
        for record in records:
            first.setdefault(record.record_id, record)
        batch = [record_row(record) for record in first.values()]
        with self._database.writing() as work:
            arrivals = {record_id: arrival for arrival, record_id in work.many(SQL["append"], batch)}
            new = [record for record_id, record in first.items() if record_id in arrivals]
            _index(work, new, arrivals)
        return len(new)

    def trace(self, session_id: str) -> Trace | None:
        """Everything of one session."""
        with self._database.reading() as work:
            return next(_assembled(work, [session_id]), None)

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
        member = ("sessions_of_experiment",) if experiment_id else ()
        walk = Walk(
            table="sessions",
            head=("sessions", *member, "sessions_all"),
            conditions={"agent": agent, "env": env, "since": _micros(since), "until": _micros(until)},
            given={"experiment_id": experiment_id} if experiment_id else {},
            newest_first=newest_first,
        )
        left = limit
        while left is None or left > 0:
            size = _TRACES_A_PAGE if left is None else min(left, _TRACES_A_PAGE)
            with self._database.reading() as work:
                page = work.rows(*walk.page(size))
                traces = list(_assembled(work, [session_id for _, session_id in page]))
            yield from traces
            if len(page) < size:
                return
            walk = walk.past(page[-1])
            left = None if left is None else left - size

    def interaction(self, record_id: str) -> Interaction | None:
        """One interaction by id."""
        found = self._rows("interaction", record_id=record_id)
        record = read_record(found[0][0]) if found else None
        return record if isinstance(record, Interaction) else None

    def prompts_seen(self, *, after: int, limit: int = 1000) -> tuple[int, tuple[PromptSeen, ...]]:
        """Prompt defaults that arrived after cursor `after`, with the new cursor."""
        page = self._rows("prompts_seen", after=after, limit=limit)
        seen = (read_record(body) for _, body in page)
        return (page[-1][0] if page else after), tuple(one for one in seen if isinstance(one, PromptSeen))

    def changed_sessions(self, *, after: int, limit: int = 1000) -> tuple[int, tuple[str, ...]]:
        """Session ids touched after cursor `after`, each once, with the new cursor."""
        page = self._rows("changed_sessions", after=after, limit=limit)
        return (page[-1][0] if page else after), tuple(session_id for _, session_id in page)

    def unclosed_sessions(self, *, closing_before: datetime, limit: int = 10000) -> tuple[str, ...]:
        """Sessions whose score is open although its `closes_at` has passed, longest past first."""
        found = self._rows("unclosed", closing_before=to_micros(closing_before), limit=limit)
        return tuple(session_id for (session_id,) in found)

    def put_scores(self, scores: Iterable[SessionScore]) -> None:
        """Insert or replace the derived scores of sessions."""
        # the latest of several scores of one session holds
        latest = {score.session_id: score for score in scores}
        new = [score_row(score) for score in latest.values()]
        arms = [(arm.experiment_id, score.session_id) for score in latest.values() for arm in score.arms]
        with self._database.writing() as work:
            work.many(SQL["put_score"], new)
            work.many(SQL["drop_score_arms"], [(session_id,) for session_id in latest])
            work.many(SQL["put_score_arm"], arms)

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
        conditions = {
            "agent": agent,
            "env": env,
            "since": _micros(since),
            "until": _micros(until),
            "experiment_id": experiment_id,
            "version": version,
        }
        head = ("scores", "scores_closed") if closed_only else ("scores",)
        walk = Walk(table="scores", head=head, conditions=conditions, given={})
        while True:
            with self._database.reading() as work:
                page = work.rows(*walk.page(_SCORES_A_PAGE))
            yield from (read_score(body) for _, _, body in page)
            if len(page) < _SCORES_A_PAGE:
                return
            walk = walk.past(page[-1])

    def cursor(self, name: str) -> int:
        """Position of a named reader; 0 at first."""
        found = self._rows("cursor", name=name)
        return int(found[0][0]) if found else 0

    def set_cursor(self, name: str, value: int) -> None:
        """Keep the position of a named reader."""
        with self._database.writing() as work:
            work.rows(SQL["set_cursor"], {"name": name, "value": value})

    def counts(self) -> dict[str, int]:
        """Number of sessions, interactions, feedback and scores."""
        with self._database.reading() as work:
            tallies = dict(work.rows(SQL["tallies"]))
            return {
                "sessions": work.rows(SQL["count_sessions"])[0][0],
                "interactions": tallies.get("interaction", 0),
                "feedback": tallies.get("feedback", 0),
                "scores": work.rows(SQL["count_scores"])[0][0],
            }

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def _rows(self, name: str, /, **given: Any) -> list[tuple[Any, ...]]:
        with self._database.reading() as work:
            return work.rows(SQL[name], given)


def open_sqlite(
    path: Path | str,
    *,
    full_sync: bool = False,
    busy_seconds: float = BUSY_SECONDS,
    sqlite_version: str | None = None,
) -> SqliteRecords:
    """Records in the file at `path`, created or migrated where needed.

    Args: `full_sync`: sync at every batch; without it power loss may take the last batches, which the spool
        still has and sends again. `busy_seconds`: longest wait for another writer. `sqlite_version`: what the
        library says of itself, for tests. Raises: StoreError, StoreTooNew.
    """
    return SqliteRecords(
        Database(path, SCHEMA, full_sync=full_sync, busy_seconds=busy_seconds, sqlite_version=sqlite_version)
    )


def _index(work: Work, new: list[Record], arrivals: dict[str, int]) -> None:
    """File new records by what they are found by, and note which sessions they change."""
    touched: dict[str, None] = {}
    origins, refs, members, waiting = [], [], [], []
    for record in new:
        session_id = session_of(record)
        if session_id is None:
            if isinstance(record, Feedback):
                waiting.append(record)
            continue
        touched[session_id] = None
        if (origin := origin_of(record)) is not None:
            known = (session_id, int(origin.inferred), origin.at, origin.record_id, origin.agent, origin.env)
            origins.append(known)
        if (ref := ref_of(record)) is not None:
            refs.append((ref, session_id))
        if (experiment_id := experiment_of(record)) is not None:
            members.append((experiment_id, session_id))
    work.many(SQL["know_session"], origins)
    work.many(SQL["know_ref"], refs)
    work.many(SQL["know_membership"], members)
    given = [(one.target_kind, one.target, arrivals[one.record_id]) for one in waiting]
    work.many(SQL["give"], given)
    touched |= dict.fromkeys(_resolved(work, waiting))
    work.many(SQL["touch"], ((session_id,) for session_id in touched))
    work.many(SQL["add_to_tally"], Counter(map(kind_of, new)).items())


def _resolved(work: Work, feedback: list[Feedback]) -> Iterator[str]:
    """Sessions that the targets of the feedback belong to, as far as they have arrived."""
    for kind, statement in ((REF, "sessions_with_refs"), (INTERACTION, "sessions_of_interactions")):
        targets = _listed(one.target for one in feedback if one.target_kind == kind)
        yield from (session_id for (session_id,) in work.rows(SQL[statement], {"targets": targets}))


def _assembled(work: Work, sessions: list[str]) -> Iterator[Trace]:
    """Traces of these sessions in the order given; sessions without a trace are left out."""
    own: dict[str, list[Record]] = defaultdict(list)
    for session_id, body in work.rows(SQL["records_of_sessions"], {"sessions": _listed(sessions)}):
        own[session_id].append(read_record(body))
    targets = {session_id: _targets(records) for session_id, records in own.items()}
    given = _given(work, {target for some in targets.values() for target in some})
    for session_id in sessions:
        feedback = [one for target in targets.get(session_id, ()) for one in given.get(target, ())]
        trace = assemble(own[session_id], feedback)
        if trace is not None:
            yield trace


def _targets(records: list[Record]) -> set[tuple[str, str]]:
    calls = {(INTERACTION, one.record_id) for one in records if isinstance(one, Interaction)}
    return calls | {(REF, ref) for ref in map(ref_of, records) if ref is not None}


def _given(work: Work, targets: set[tuple[str, str]]) -> dict[tuple[str, str], list[Feedback]]:
    found: dict[tuple[str, str], list[Feedback]] = defaultdict(list)
    for kind in (INTERACTION, REF):
        wanted = _listed(target for target_kind, target in targets if target_kind == kind)
        for target, body in work.rows(SQL["feedback_given"], {"kind": kind, "targets": wanted}):
            record = read_record(body)
            if isinstance(record, Feedback):
                found[kind, target].append(record)
    return found


def _listed(texts: Iterable[str]) -> str:
    return encode(list(texts)).decode()


def _micros(at: datetime | None) -> int | None:
    return None if at is None else to_micros(at)
