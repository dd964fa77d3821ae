"""Keeps what is served up to date in memory; when it cannot be read, the last known stays."""

import logging
import threading
from collections.abc import Callable

from prx.domain.forking import renew_in_children
from prx.domain.serving import Serving

_LOG = logging.getLogger("prx.live")


class ServingPoller:
    """`poller(agent)` answers from memory; a daemon thread reads every agent asked for again and again.

    Args: `fetch`: reads the store; only the thread calls it. `interval_s`: seconds between reads, above 0.
        `first_wait_s`: how long the first question about an agent may wait for its first read; afterwards,
        and whenever the read fails, an agent not read yet is served the app's own defaults.
    """

    _thread: threading.Thread | None

    def __init__(
        self, fetch: Callable[[str], Serving], interval_s: float = 0.5, *, first_wait_s: float = 0.25
    ) -> None:
        self._fetch, self._interval, self._first_wait = fetch, interval_s, first_wait_s
        self._known: dict[str, Serving] = {}
        self._failures = 0
        self._failing: dict[str, str] = {}
        self._told: set[type[Exception]] = set()
        self._renew()
        # Threads do not survive a fork, and a lock may be held by one that is gone.
        renew_in_children(self._renew)

    @property
    def known(self) -> tuple[Serving, ...]:
        """What was read last of each agent."""
        return tuple(self._known.values())

    @property
    def failures(self) -> int:
        """Reads that failed since the start."""
        return self._failures

    @property
    def failing(self) -> str:
        """Why the newest read of some agent failed; empty when all that was asked for is up to date."""
        return next(iter(self._failing.values()), "")

    def __call__(self, agent: str) -> Serving:
        """What `agent` is served; never raises and never waits longer than `first_wait_s`."""
        serving = self._known.get(agent)
        if self._thread is None:
            self._start(agent)
        elif serving is None and agent not in self._asked:
            self._ask(agent)
        if serving is not None:
            return serving
        if not self._asked[agent].is_set() and not self._stop.is_set():
            self._asked[agent].wait(self._first_wait)
        return self._known.get(agent) or Serving(agent=agent)

    def refresh(self) -> None:
        """Read every agent asked for now, in the calling thread."""
        for agent, was_read in list(self._asked.items()):
            try:
                self._known[agent] = self._fetch(agent)
            except Exception as error:  # noqa: BLE001  a store that is down must not stop serving
                self._failures += 1
                self._failing[agent] = str(error)
                if type(error) not in self._told:
                    # Once an outage, and again where it ends in something else, as in another store.
                    self._told.add(type(error))
                    _LOG.warning("prx: reading what to serve failed, the last known stays: %s", error)
            else:
                if self._failing.pop(agent, "") and not self._failing:
                    self._told.clear()
                    _LOG.warning("prx: what to serve can be read again")
            was_read.set()

    def wake(self) -> None:
        """Read again as soon as the thread can; for whoever hears that something changed."""
        self._wake.set()

    def close(self) -> None:
        """Stop the thread; what is known stays readable."""
        self._stop.set()
        self._wake.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout=5)

    def _ask(self, agent: str) -> None:
        with self._lock:
            self._asked.setdefault(agent, threading.Event())
        self._wake.set()

    def _start(self, agent: str) -> None:
        with self._lock:
            for name in (agent, *self._known):
                self._asked.setdefault(name, threading.Event())
            if self._thread is None and not self._stop.is_set():
                self._thread = threading.Thread(target=self._run, name="prx-serving", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            self._wake.clear()
            self.refresh()
            self._wake.wait(self._interval)

    def _renew(self) -> None:
        self._lock = threading.Lock()
        self._stop, self._wake = threading.Event(), threading.Event()
        self._asked: dict[str, threading.Event] = {}
        self._thread = None
