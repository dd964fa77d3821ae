"""What a session remembers and recalls; the store behind is given by wiring, none is reached from here."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from prx.domain.errors import InvalidInput
from prx.domain.ids import Ids
from prx.domain.memory import EMPTY_STATE, Ask, Reader, Recalled
from prx.domain.records import MemoryWritten, Recall, RecallLogged
from prx.live.shapes import clip

MAX_TEXT = 10_000
MAX_FOUND = 50


class Recaller(Protocol):
    """Finds memories in the local store. What it raises is counted; the app goes on without memories."""

    def __call__(self, ask: Ask) -> Sequence[Recalled]:
        """At most `ask.k` entries that `ask.reader` may read, best first. Raises: EvolutionError."""
        ...


def no_memories(ask: Ask) -> Sequence[Recalled]:  # noqa: ARG001 - a Recaller without a store
    """Nothing is remembered where no memory store is wired."""
    return ()


class SessionMemories:
    """Memory of one session: recalls wait here for the call that they were made for."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._waiting: dict[str, Recall] = {}

    def written(
        self,
        record_id: str,
        text: object,
        *,
        at: datetime,
        shared: bool,
        kind: str,
        subject: str | None,
        valid_from: datetime | None,
        valid_to: datetime | None,
        pinned: bool,
    ) -> MemoryWritten:
        """The record of a new entry. Raises: InvalidInput for no text, and for a time without zone."""
        said = clip(str(text)).strip()
        if not said or len(said) > MAX_TEXT:
            raise InvalidInput(
                f"a memory has 1 to {MAX_TEXT} characters, not {len(said)}; shorten or split it"
            )
        for moment in (valid_from, valid_to):
            if moment is not None and moment.tzinfo is None:
                raise InvalidInput(f"{moment.isoformat()} has no zone; pass an aware time")
        reader = self._reader
        return MemoryWritten(
            record_id=record_id,
            at=at,
            session_id=reader.session_id or "",
            text=said,
            agent=reader.agent,
            env=reader.env,
            tenant=reader.tenant,
            user=reader.user,
            shared=bool(shared),
            kind=str(kind),
            subject=None if subject is None else str(subject),
            valid_from=valid_from,
            valid_to=valid_to,
            pinned=bool(pinned),
        )

    def recalled(
        self, recaller: Recaller, query: object, k: int, *, at: datetime, state: str, ids: Ids
    ) -> tuple[list[Recalled], RecallLogged]:
        """What was found, and the record of it."""
        asked = clip(str(query))[:MAX_TEXT]
        count = max(0, min(int(k), MAX_FOUND))
        ask = Ask(reader=self._reader, query=asked, at=at, k=count, state=state or EMPTY_STATE)
        found = list(recaller(ask))[:count]
        recalls = tuple(Recall(memory_id=one.memory_id, score=one.score) for one in found)
        self._waiting |= {recall.memory_id: recall for recall in recalls}
        logged = RecallLogged(
            record_id=ids.new(at),
            at=at,
            session_id=self._reader.session_id or "",
            query=asked,
            found=recalls,
            state=ask.state,
        )
        return found, logged

    def take(self, told: Sequence[Recall]) -> tuple[Recall, ...]:
        """Recalls of the call that begins now: those that the app tells, and those that waited for it."""
        if not self._waiting:
            return tuple(told)
        waiting, self._waiting = self._waiting, {}
        return (*told, *(r for key, r in waiting.items() if key not in {one.memory_id for one in told}))
