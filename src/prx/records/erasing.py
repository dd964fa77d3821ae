"""Erasure in a store of records: tombstones first, so that nothing comes back, then the rows."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, Protocol

from prx.domain.erasure import INTERACTION, REF, SESSION, Erasure, Key, Removed, Subject, keys_of
from prx.domain.names import spellings
from prx.domain.records import MemoryWritten, Record, SessionStart
from prx.domain.times import from_micros, to_micros
from prx.records.stored import read_record

_PAGE = 1000
_SESSIONS_A_STEP = 200
Until = Mapping[str, int | None]


class Work(Protocol):
    """One open transaction of a database."""

    def rows(self, sql: str, given: Any = ...) -> list[tuple[Any, ...]]:
        """All rows of one statement."""
        ...

    def many(self, sql: str, given: Iterable[Any]) -> list[tuple[Any, ...]]:
        """All rows of one statement for each of `given`."""
        ...


class Tables(Protocol):
    """A database that holds the tables."""

    def reading(self) -> AbstractContextManager[Work]:
        """Reads that all show one moment."""
        ...

    def writing(self) -> AbstractContextManager[Work]:
        """The only writer of all processes."""
        ...

    def scrub(self) -> str:
        """Overwrite what deleted rows left behind."""
        ...


def refusing(record: Record, digests: Mapping[Key, str], until: Until) -> Key | None:
    """The tombstone that forbids the record, or None. `until`: those there are, with the time up to which
    one holds (None: for ever)."""
    for key in keys_of(record):
        digest = digests[key]
        if digest in until:
            limit = until[digest]
            if limit is None or to_micros(record.at) <= limit:
                return key
    return None


class TableErasures:
    """`Erasures` over a database with the tables of records. `texts`: a list of texts as a statement takes
    it."""

    def __init__(
        self, database: Tables, sql: Mapping[str, str], texts: Callable[[Iterable[str]], Any]
    ) -> None:
        self._database, self._sql, self._texts = database, sql, texts

    def sessions_of(self, subject: Subject) -> tuple[str, ...]:
        """Sessions that belong to the subject."""
        if subject.session is not None:
            with self._database.reading() as work:
                return tuple(
                    one
                    for one in spellings(subject.session)
                    if work.rows(self._sql["kinds_of_sessions"], self._given("sessions", [one]))
                )
        found: dict[str, None] = {}
        after = 0
        while True:
            with self._database.reading() as work:
                page = work.rows(self._sql["scoped"], {"after": after, "limit": _PAGE})
            for _, body in page:
                record = read_record(body)
                if isinstance(record, SessionStart | MemoryWritten) and subject.owns(record):
                    found[record.session_id] = None
            if len(page) < _PAGE:
                return tuple(found)
            after = page[-1][0]

    def condemn(self, subject: Subject, sessions: Sequence[str], at: datetime) -> Erasure:
        """Refuse the subject's records from now on, stored rows included in the next `carry_out`."""
        with self._database.writing() as work:
            salt, stones = self._salt(work), dict[str, tuple[int | None, str | None]]()
            own = subject.key
            stones[own.digest(salt)] = (None if own.lasting else to_micros(at), None)
            for start in range(0, len(sessions), _PAGE):
                self._condemn(work, salt, stones, sessions[start : start + _PAGE], at)
            rows = [(digest, until, session) for digest, (until, session) in stones.items()]
            work.many(self._sql["put_tombstone"], rows)
            work.rows(self._sql["add_erasure"], {"digest": own.digest(salt), "at": to_micros(at)})
            return list(self._erasures(work, 0))[-1]

    def carry_out(self) -> Removed:
        """Delete what tombstones stand on, some sessions at a time; goes on where a crash stopped it."""
        removed = Removed()
        with self._database.reading() as work:
            if not work.rows(self._sql["pending"], {"limit": 1}):
                return removed
        while True:
            with self._database.writing() as work:
                page = work.rows(self._sql["pending"], {"limit": _SESSIONS_A_STEP})
                sessions = [session_id for (session_id,) in page]
                if not sessions:
                    return removed
                removed += self._delete(work, sessions)
                work.rows(self._sql["settle"], self._given("sessions", sessions))

    def finish(self, digest: str) -> None:
        """Note that every place was reached."""
        with self._database.writing() as work:
            work.rows(self._sql["finish_erasures"], {"digest": digest})

    def erasures(self, *, after: int = 0) -> tuple[Erasure, ...]:
        """Erasures so far, oldest first."""
        with self._database.reading() as work:
            return tuple(self._erasures(work, after))

    def digest(self, subject: Subject) -> str:
        """Under which the subject is remembered."""
        with self._database.reading() as work:
            return subject.key.digest(self._salt(work))

    def refused(self, records: Sequence[Record]) -> frozenset[str]:
        """Ids of those that a tombstone forbids."""
        with self._database.reading() as work:
            return frozenset(one.record_id for one, _ in self.forbidden(work, records))

    def blank_prompts(self, record_ids: Sequence[str]) -> int:
        """Empty these stored defaults of prompts and keep their places; returns how many there were."""
        with self._database.writing() as work:
            return len(work.rows(self._sql["blank_prompts"], self._given("ids", record_ids)))

    def scrub(self) -> str:
        """Overwrite what deleted rows left behind; why it could not be done, else empty."""
        return self._database.scrub()

    def admitted(self, work: Work, records: Iterable[Record]) -> list[Record]:
        """The records without those that a tombstone forbids; a session that began before its user was
        erased gets a tombstone of its own."""
        batch = list(records)
        if work.rows(self._sql["any_tombstone"])[0][0] in (0, False):
            return batch
        forbidden = self.forbidden(work, batch)
        starts = [one for one, key in forbidden if isinstance(one, SessionStart) and key.kind != SESSION]
        if starts:
            salt = self._salt(work)
            stones = {Key(SESSION, (one.session_id,)).digest(salt): (None, one.session_id) for one in starts}
            work.many(self._sql["put_tombstone"], [(digest, *rest) for digest, rest in stones.items()])
        ids = {one.record_id for one, _ in forbidden}
        sessions = {one.session_id for one in starts}
        return [
            one
            for one in batch
            if one.record_id not in ids and getattr(one, "session_id", None) not in sessions
        ]

    def forbidden(self, work: Work, records: Sequence[Record]) -> list[tuple[Record, Key]]:
        """The records that a tombstone forbids, each with it."""
        salt = self._salt(work)
        digests = {key: key.digest(salt) for record in records for key in keys_of(record)}
        wanted = self._texts(sorted(set(digests.values())))
        until = dict(work.rows(self._sql["tombstones"], {"digests": wanted}))
        found = ((record, refusing(record, digests, until)) for record in records)
        return [(record, key) for record, key in found if key is not None]

    def _condemn(
        self,
        work: Work,
        salt: str,
        stones: dict[str, tuple[int | None, str | None]],
        sessions: Sequence[str],
        at: datetime,
    ) -> None:
        given = self._given("sessions", sessions)
        for session_id in sessions:
            stones[Key(SESSION, (session_id,)).digest(salt)] = (None, session_id)
        for record_id, kind in work.rows(self._sql["kinds_of_sessions"], given):
            if kind == INTERACTION:
                stones[Key(INTERACTION, (record_id,)).digest(salt)] = (None, None)
        for (ref,) in work.rows(self._sql["refs_of_sessions"], given):
            stones[Key(REF, (ref,)).digest(salt)] = (to_micros(at), None)

    def _delete(self, work: Work, sessions: Sequence[str]) -> Removed:
        given = self._given("sessions", sessions)
        kinds = work.rows(self._sql["kinds_of_sessions"], given)
        calls = [record_id for record_id, kind in kinds if kind == INTERACTION]
        refs = [ref for (ref,) in work.rows(self._sql["refs_of_sessions"], given)]
        gone: Counter[str] = Counter()
        for kind, targets in ((INTERACTION, calls), (REF, refs)):
            named = {"kind": kind, "targets": self._texts(targets)}
            gone.update(one for (one,) in work.rows(self._sql["delete_given_records"], named))
            work.rows(self._sql["delete_given"], named)
        gone.update(one for (one,) in work.rows(self._sql["delete_records"], given))
        scores = work.rows(self._sql["delete_scores"], given)
        for name in ("delete_score_arms", "delete_references", "delete_memberships", "delete_touches"):
            work.rows(self._sql[name], given)
        known = work.rows(self._sql["delete_sessions"], given)
        work.many(self._sql["add_to_tally"], [(kind, -number) for kind, number in gone.items()])
        return Removed(len(known), gone.total(), len(scores))

    def _salt(self, work: Work) -> str:
        return str(work.rows(self._sql["salt"])[0][0])

    def _erasures(self, work: Work, after: int) -> Iterator[Erasure]:
        for number, digest, at, done in work.rows(self._sql["erasures"], {"after": after}):
            yield Erasure(int(number), digest, from_micros(at), bool(done))

    def _given(self, name: str, values: Iterable[str]) -> dict[str, Any]:
        return {name: self._texts(values)}
