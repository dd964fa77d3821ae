"""Records read from memory and kept in the file beside: the demo reads the same days again and again."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from prx.domain.records import Interaction, PromptSeen, Record, Trace
from prx.domain.scores import SessionScore
from prx.records.memory import open_memory
from prx.records.port import Erasures, RecordStore

_PAGE = 1000
_AT_ONCE = 5000


class MirroredRecords:
    """A `RecordStore` that writes records to `file` some thousand at a time, and the rest with `settle`."""

    def __init__(self, file: RecordStore) -> None:
        self._file, self._memory = file, open_memory()
        self._readers: set[str] = set()
        self._unwritten: list[Record] = []

    @property
    def erasures(self) -> Erasures:
        """Those of the file."""
        return self._file.erasures

    def append(self, records: Sequence[Record]) -> int:
        """Store in memory, and in the file before long."""
        self._unwritten += records
        if len(self._unwritten) >= _AT_ONCE:
            self._write()
        return self._memory.append(records)

    def settle(self) -> None:
        """Bring the file to where the memory is: records, scores, and how far each reader has read."""
        self._write()
        self._file.put_scores(self._memory.scores())
        touched = _last(lambda after: self._file.changed_sessions(after=after, limit=_PAGE))
        prompts = _last(lambda after: self._file.prompts_seen(after=after, limit=_PAGE))
        for name in sorted(self._readers):
            self._file.set_cursor(name, prompts if name == "prompts" else touched)

    def trace(self, session_id: str) -> Trace | None:
        """As the memory has it."""
        return self._memory.trace(session_id)

    def traces(self, **given: Any) -> Iterator[Trace]:
        """As the memory has them."""
        return self._memory.traces(**given)

    def interaction(self, record_id: str) -> Interaction | None:
        """As the memory has it."""
        return self._memory.interaction(record_id)

    def prompts_seen(self, *, after: int, limit: int = _PAGE) -> tuple[int, tuple[PromptSeen, ...]]:
        """As the memory has them."""
        return self._memory.prompts_seen(after=after, limit=limit)

    def changed_sessions(self, *, after: int, limit: int = _PAGE) -> tuple[int, tuple[str, ...]]:
        """As the memory has them."""
        return self._memory.changed_sessions(after=after, limit=limit)

    def unclosed_sessions(self, **given: Any) -> tuple[str, ...]:
        """As the memory has them."""
        return self._memory.unclosed_sessions(**given)

    def put_scores(self, scores: Iterable[SessionScore]) -> None:
        """Into the memory; the file follows with `settle`."""
        self._memory.put_scores(scores)

    def scores(self, **given: Any) -> Iterator[SessionScore]:
        """As the memory has them."""
        return self._memory.scores(**given)

    def cursor(self, name: str) -> int:
        """Position in the memory."""
        return self._memory.cursor(name)

    def set_cursor(self, name: str, value: int) -> None:
        """Position in the memory; the file follows with `settle`."""
        self._readers.add(name)
        self._memory.set_cursor(name, value)

    def counts(self) -> dict[str, int]:
        """As the memory has them."""
        return self._memory.counts()

    def close(self) -> None:
        """Close both; records that were not written yet are."""
        self._write()
        self._memory.close()
        self._file.close()

    def _write(self) -> None:
        self._file.append(self._unwritten)
        self._unwritten = []


def _last(page: Any) -> int:
    after, found = 0, True
    while found:
        after, found = page(after)
    return int(after)
