"""Recall for the hot path: the local store under the memory part that is served."""

import threading
from collections.abc import Callable

from prx.domain.memory import EMPTY_STATE, Ask, InForce, Recalled, in_force
from prx.domain.versions import MemoryState
from prx.memory.port import MemoryStore

_REMEMBERED_STATES = 8


class StoredRecall:
    """Answers recalls; the store is opened at the first one.

    Args: `opened`: opens the store. `part`: the memory part with a given hash, such as a read of the ledger.
    Raises at a call: EvolutionError, which the caller counts; the app then goes on without memories.
    """

    def __init__(self, opened: Callable[[], MemoryStore], part: Callable[[str], MemoryState]) -> None:
        self._opened, self._part = opened, part
        self._lock = threading.Lock()
        self._store: MemoryStore | None = None
        self._states: dict[str, InForce] = {EMPTY_STATE: InForce()}

    def __call__(self, ask: Ask) -> tuple[Recalled, ...]:
        """At most `ask.k` entries, best first."""
        return self._ready().recall(ask, self._force(ask.state or EMPTY_STATE))

    def close(self) -> None:
        """Release the store."""
        with self._lock:
            if self._store is not None:
                self._store.close()
                self._store = None

    def _ready(self) -> MemoryStore:
        with self._lock:
            if self._store is None:
                self._store = self._opened()
            return self._store

    def _force(self, state: str) -> InForce:
        known = self._states.get(state)
        if known is None:
            known = in_force(self._part(state))
            with self._lock:
                while len(self._states) >= _REMEMBERED_STATES:
                    self._states.pop(next(one for one in self._states if one != EMPTY_STATE))
                self._states[state] = known
        return known
