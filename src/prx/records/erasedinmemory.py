"""Erasure in the record store that lives in one process."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from prx.domain.erasure import INTERACTION, REF, SESSION, Erasure, Key, Removed, Subject, keys_of
from prx.domain.records import Record, SessionStart
from prx.domain.times import to_micros
from prx.records.erasing import refusing

_SALT = "one process"


class MemoryErasures:
    """`Erasures` of a store that is gone with its process.

    Args: `every`: all records stored. `drop`: removes sessions. `blank`: empties defaults of prompts.
    """

    def __init__(
        self,
        every: Callable[[], Iterable[Record]],
        drop: Callable[[frozenset[str]], Removed],
        blank: Callable[[Sequence[str]], int],
    ) -> None:
        self._every, self._drop, self._blank = every, drop, blank
        self._until: dict[str, int | None] = {}
        self._erasures: list[Erasure] = []
        self._pending: set[str] = set()

    def sessions_of(self, subject: Subject) -> tuple[str, ...]:
        """Sessions that belong to the subject."""
        owned = (one for one in self._every() if subject.owns(one))
        return tuple(dict.fromkeys(str(getattr(one, "session_id", "")) for one in owned))

    def condemn(self, subject: Subject, sessions: Sequence[str], at: datetime) -> Erasure:
        """Refuse the subject's records from now on."""
        own = subject.key
        self._bury(own, None if own.lasting else to_micros(at))
        for session_id in sessions:
            self._bury(Key(SESSION, (session_id,)), None)
        for one in self._every():
            if getattr(one, "session_id", None) in sessions:
                self._bury(Key(INTERACTION, (one.record_id,)), None)
                if ref := getattr(one, "ref", None):
                    self._bury(Key(REF, (ref,)), to_micros(at))
        self._pending.update(sessions)
        made = Erasure(len(self._erasures) + 1, own.digest(_SALT), at, False)
        self._erasures.append(made)
        return made

    def carry_out(self) -> Removed:
        """Delete what tombstones stand on."""
        pending, self._pending = frozenset(self._pending), set()
        return self._drop(pending) if pending else Removed()

    def finish(self, digest: str) -> None:
        """Note that every place was reached."""
        self._erasures = [
            Erasure(one.number, one.digest, one.at, one.done or one.digest == digest)
            for one in self._erasures
        ]

    def erasures(self, *, after: int = 0) -> tuple[Erasure, ...]:
        """Erasures so far, oldest first."""
        return tuple(self._erasures[after:])

    def digest(self, subject: Subject) -> str:
        """Under which the subject is remembered."""
        return subject.key.digest(_SALT)

    def refused(self, records: Sequence[Record]) -> frozenset[str]:
        """Ids of those that a tombstone forbids."""
        return frozenset(one.record_id for one in records if self._refusing(one) is not None)

    def admitted(self, records: Iterable[Record]) -> list[Record]:
        """The records without those that a tombstone forbids."""
        batch = list(records)
        for one in batch:
            key = self._refusing(one)
            if isinstance(one, SessionStart) and key is not None and key.kind != SESSION:
                self._bury(Key(SESSION, (one.session_id,)), None)
                self._pending.add(one.session_id)
        return [one for one in batch if self._refusing(one) is None]

    def blank_prompts(self, record_ids: Sequence[str]) -> int:
        """Empty these stored defaults of prompts; returns how many there were."""
        return self._blank(record_ids)

    def scrub(self) -> str:
        """Nothing lies on a disk."""
        return ""

    def _refusing(self, record: Record) -> Key | None:
        return refusing(record, {key: key.digest(_SALT) for key in keys_of(record)}, self._until)

    def _bury(self, key: Key, until: int | None) -> None:
        digest = key.digest(_SALT)
        known = self._until.get(digest, until)
        self._until[digest] = None if known is None or until is None else max(known, until)
