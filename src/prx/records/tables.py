"""The tables of records read and written with SQL, the same over every SQL database."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

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
from prx.records.erasing import TableErasures, Work
from prx.records.erasing import Tables as Erasable
from prx.records.stored import kind_of, read_record, read_score, record_row, score_row
from prx.records.walk import Walk

_TRACES_A_PAGE = 200
_SCORES_A_PAGE = 2000


class Tables(Erasable, Protocol):
    """A database that holds the tables."""

    def close(self) -> None:
        """Release what is open."""
        ...


@dataclass(frozen=True, slots=True)
class Dialect:
    """What differs between databases: the statements by name, and how a list of texts is given to one."""

    sql: Mapping[str, str]
    texts_as_json: bool

    def texts(self, given: Iterable[str]) -> Any:
        """A list of texts as a statement takes it."""
        return encode(list(given)).decode() if self.texts_as_json else list(given)


class TableRecords:
    """A `RecordStore` over a database with the tables of records.

    Long reads take pages, each a short read of its own, so that they neither grow in memory nor keep the
    database from tidying up.
    """

    def __init__(self, database: Tables, dialect: Dialect) -> None:
        self._database, self._dialect, self._sql = database, dialect, dialect.sql
        self._erasures = TableErasures(database, dialect.sql, dialect.texts)

    @property
    def erasures(self) -> TableErasures:
        """What must never be stored again."""
        return self._erasures

    def append(self, records: Sequence[Record]) -> int:
        """Store those not stored yet in one durable batch; returns how many were new."""
        if not records:
            return 0
        first: dict[str, Record] = {}
        for record in records:
            first.setdefault(record.record_id, record)
        rows = {record_id: record_row(record) for record_id, record in first.items()}
        with self._database.writing() as work:
            batch = [rows[one.record_id] for one in self._erasures.admitted(work, first.values())]
            arrivals = {record_id: arrival for arrival, record_id in work.many(self._sql["append"], batch)}
            new = [record for record_id, record in first.items() if record_id in arrivals]
            self._index(work, new, arrivals)
        return len(new)

    def trace(self, session_id: str) -> Trace | None:
        """Everything of one session."""
        with self._database.reading() as work:
            return next(self._assembled(work, [session_id]), None)

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
            sql=self._sql,
            newest_first=newest_first,
        )
        left = limit
        while left is None or left > 0:
            size = _TRACES_A_PAGE if left is None else min(left, _TRACES_A_PAGE)
            with self._database.reading() as work:
                page = work.rows(*walk.page(size))
                traces = list(self._assembled(work, [session_id for _, session_id in page]))
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
            work.many(self._sql["put_score"], new)
            work.many(self._sql["drop_score_arms"], [(session_id,) for session_id in latest])
            work.many(self._sql["put_score_arm"], arms)

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
        walk = Walk(table="scores", head=head, conditions=conditions, given={}, sql=self._sql)
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
            work.rows(self._sql["set_cursor"], {"name": name, "value": value})

    def counts(self) -> dict[str, int]:
        """Number of sessions, interactions, feedback and scores."""
        with self._database.reading() as work:
            tallies = dict(work.rows(self._sql["tallies"]))
            return {
                "sessions": work.rows(self._sql["count_sessions"])[0][0],
                "interactions": tallies.get("interaction", 0),
                "feedback": tallies.get("feedback", 0),
                "scores": work.rows(self._sql["count_scores"])[0][0],
            }

    def close(self) -> None:
        """Release what is open."""
        self._database.close()

    def _rows(self, name: str, /, **given: Any) -> list[tuple[Any, ...]]:
        with self._database.reading() as work:
            return work.rows(self._sql[name], given)

    def _index(self, work: Work, new: list[Record], arrivals: dict[str, int]) -> None:
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
                known = (
                    session_id,
                    int(origin.inferred),
                    origin.at,
                    origin.record_id,
                    origin.agent,
                    origin.env,
                )
                origins.append(known)
            if (ref := ref_of(record)) is not None:
                refs.append((ref, session_id))
            if (experiment_id := experiment_of(record)) is not None:
                members.append((experiment_id, session_id))
        work.many(self._sql["know_session"], origins)
        work.many(self._sql["know_ref"], refs)
        work.many(self._sql["know_membership"], members)
        given = [(one.target_kind, one.target, arrivals[one.record_id]) for one in waiting]
        work.many(self._sql["give"], given)
        touched |= dict.fromkeys(self._resolved(work, waiting))
        work.many(self._sql["touch"], ((session_id,) for session_id in touched))
        work.many(self._sql["add_to_tally"], Counter(map(kind_of, new)).items())

    def _resolved(self, work: Work, feedback: list[Feedback]) -> Iterator[str]:
        """Sessions that the targets of the feedback belong to, as far as they have arrived."""
        for kind, statement in ((REF, "sessions_with_refs"), (INTERACTION, "sessions_of_interactions")):
            targets = self._dialect.texts(one.target for one in feedback if one.target_kind == kind)
            yield from (session_id for (session_id,) in work.rows(self._sql[statement], {"targets": targets}))

    def _assembled(self, work: Work, sessions: list[str]) -> Iterator[Trace]:
        """Traces of these sessions in the order given; sessions without a trace are left out."""
        own: dict[str, list[Record]] = defaultdict(list)
        for session_id, body in work.rows(
            self._sql["records_of_sessions"], {"sessions": self._dialect.texts(sessions)}
        ):
            own[session_id].append(read_record(body))
        targets = {session_id: _targets(records) for session_id, records in own.items()}
        given = self._given(work, {target for some in targets.values() for target in some})
        for session_id in sessions:
            feedback = [one for target in targets.get(session_id, ()) for one in given.get(target, ())]
            trace = assemble(own[session_id], feedback)
            if trace is not None:
                yield trace

    def _given(self, work: Work, targets: set[tuple[str, str]]) -> dict[tuple[str, str], list[Feedback]]:
        found: dict[tuple[str, str], list[Feedback]] = defaultdict(list)
        for kind in (INTERACTION, REF):
            wanted = self._dialect.texts(target for target_kind, target in targets if target_kind == kind)
            for target, body in work.rows(self._sql["feedback_given"], {"kind": kind, "targets": wanted}):
                record = read_record(body)
                if isinstance(record, Feedback):
                    found[kind, target].append(record)
        return found


def _targets(records: list[Record]) -> set[tuple[str, str]]:
    calls = {(INTERACTION, one.record_id) for one in records if isinstance(one, Interaction)}
    return calls | {(REF, ref) for ref in map(ref_of, records) if ref is not None}


def _micros(at: datetime | None) -> int | None:
    return None if at is None else to_micros(at)
