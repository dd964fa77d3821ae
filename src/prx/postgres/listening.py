"""Hears what other processes announce (LISTEN), on a connection and a thread of its own."""

import logging
import threading
from collections.abc import Callable

import psycopg

from prx.postgres.address import Address

_LOG = logging.getLogger("prx")
_LOOK_SECONDS = 1.0
_AGAIN_SECONDS = (0.2, 1.0, 5.0)


class Listener:
    """Calls `heard` soon after every announcement on `channel`, and once after each new connection, since
    something may have been announced while there was none.

    A server that cannot be reached is tried again for ever; whoever uses this polls besides. Args: `heard`:
    quick, never raises; called from the thread.
    """

    def __init__(self, address: Address, channel: str, heard: Callable[[], None]) -> None:
        self._address, self._channel, self._heard = address, channel, heard
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="prx-listen", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop within about a second."""
        self._stop.set()
        if self._thread is not threading.current_thread():
            self._thread.join(timeout=2 * _LOOK_SECONDS)

    def _run(self) -> None:
        failures = 0
        while not self._stop.is_set():
            try:
                with psycopg.connect(self._address.conninfo, autocommit=True) as connection:
                    connection.execute(f"LISTEN {self._channel}")
                    failures = 0
                    self._heard()
                    self._listen(connection)
            except psycopg.Error as error:
                if failures == 0:
                    _LOG.info("prx: no announcements from %s for now: %s", self._address.shown, error)
                self._stop.wait(_AGAIN_SECONDS[min(failures, len(_AGAIN_SECONDS) - 1)])
                failures += 1

    def _listen(self, connection: "psycopg.Connection[tuple[object, ...]]") -> None:
        while not self._stop.is_set():
            for _ in connection.notifies(timeout=_LOOK_SECONDS, stop_after=1):
                self._heard()
