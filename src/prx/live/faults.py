"""Our own errors must not become the app's: they are counted, logged once each, and a default is given."""

import logging
import threading
from collections import Counter
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
_LOG = logging.getLogger("prx.live")


class Faults:
    """Counts of internal errors by the place where they happened."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    @property
    def counts(self) -> dict[str, int]:
        """Errors so far, by place."""
        with self._lock:
            return dict(self._counts)

    def guard(self, place: str, work: Callable[[], T], default: T) -> T:
        """What `work` returns, or `default` when it fails; interrupts and exits pass through."""
        try:
            return work()
        except Exception as error:  # noqa: BLE001  whatever it is, it is ours and not the app's
            self.note(place, error)
            return default

    def note(self, place: str, error: Exception) -> None:
        """Count one error; the first of each place is logged with its traceback."""
        with self._lock:
            self._counts[place] += 1
            first = self._counts[place] == 1
        if first:
            _LOG.error("prx: %s failed; the app goes on without it (logged once)", place, exc_info=error)

    def after_fork(self) -> None:
        """Replace the lock, which a thread that is gone may hold."""
        self._lock = threading.Lock()
