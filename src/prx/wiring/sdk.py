"""`prx.open()`: the SDK over the local state folder, without engine and without numeric libraries."""

import logging
import os
import threading
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path

import msgspec

from prx.domain.forking import renew_in_children
from prx.domain.ids import Ids, system_ids
from prx.domain.records import Record
from prx.domain.replaced import StoreReplaced
from prx.domain.serving import Serving
from prx.domain.times import utc_now
from prx.ledger.port import Ledger
from prx.ledger.serving import serving
from prx.live.evolution import Evolution
from prx.live.poller import ServingPoller
from prx.settings import Settings, load
from prx.spool.writer import SpoolWriter
from prx.wiring.memories import local_recall
from prx.wiring.notices import listen
from prx.wiring.paths import config_file, home_folder, prepare_home, spool_folder
from prx.wiring.spooling import spool_rules
from prx.wiring.stores import open_ledger

_LOG = logging.getLogger("prx")
_DEFAULT: dict[str, Evolution] = {}
_LOCK = threading.Lock()


def open_evolution(
    home: Path | str | None = None,
    *,
    config: Path | str | None = None,
    env: Mapping[str, str] | None = None,
    now: Callable[[], datetime] = utc_now,
    poll_seconds: float = 0.5,
) -> Evolution:
    """An Evolution that records into the spool of the state folder and serves what its ledger says.

    Never raises: when the folder or the configuration cannot be used, the reason is logged once, the app
    gets its own defaults, and nothing is recorded.
    """
    environment = os.environ if env is None else env
    ids = system_ids()
    try:
        folder = prepare_home(home_folder(Path(home) if home else None, environment))
        settings = load(config_file(Path(config) if config else None, environment, folder), environment)
        rules = spool_rules(settings.record)
        writer = SpoolWriter(spool_folder(folder), now=now, rules=rules)
    except Exception as error:  # noqa: BLE001  whatever is wrong with the folder, the app goes on
        _LOG.error("prx: recording is off: %s", error)
        return Evolution(lambda agent: Serving(agent=agent), lambda _record: None, ids=ids, now=now)
    source = _Champions(settings, folder, ids)
    poller = ServingPoller(source.read, poll_seconds)
    source.heard = poller.wake
    recaller = local_recall(folder, source.ledger)

    def served(agent: str) -> Serving:
        found = poller(agent)
        # What cannot be recorded is no experiment.
        return msgspec.structs.replace(found, killed=True) if writer.over else found

    def sink(record: Record) -> None:
        writer.append((record,))

    def flush(_deadline: float) -> bool:
        writer.sync()
        return True

    def close() -> None:
        poller.close()
        writer.close()
        recaller.close()
        source.close()

    return Evolution(served, sink, ids=ids, now=now, flush=flush, recaller=recaller, on_close=close)


def default_evolution() -> Evolution:
    """The process-wide Evolution that `prx.wrap` uses; made at its first use."""
    with _LOCK:
        if "it" not in _DEFAULT:
            _DEFAULT["it"] = open_evolution()
        return _DEFAULT["it"]


class _Champions:
    """Reads from the ledger what an agent is served; opened at the first read, in the reading thread."""

    def __init__(self, settings: Settings, home: Path, ids: Ids) -> None:
        self._settings, self._home, self._ids = settings, home, ids
        self.heard: Callable[[], None] = _nobody
        self._lock = threading.Lock()
        self._ledger: Ledger | None = None
        self._stop_listening: Callable[[], None] = _nobody
        # An open ledger and a listening thread are the parent's.
        renew_in_children(self._begin)

    def read(self, agent: str) -> Serving:
        """Champion and experiments. Raises: EvolutionError when the store cannot be read."""
        try:
            with self.ledger().view() as view:
                return serving(view, agent)
        except StoreReplaced:
            self._forget()
            raise

    def ledger(self) -> Ledger:
        """The open ledger of this process. Raises: EvolutionError when it cannot be opened."""
        with self._lock:
            if self._ledger is None:
                self._ledger = open_ledger(self._settings, self._home, self._ids)
                if self._stop_listening is _nobody:
                    self._stop_listening = listen(self._settings, self.heard)
            return self._ledger

    def _forget(self) -> None:
        """The next read opens the store anew: a process of an app cannot be asked to restart."""
        with self._lock:
            replaced, self._ledger = self._ledger, None
        if replaced is not None:
            replaced.close()

    def close(self) -> None:
        """Release the store."""
        self._stop_listening()
        if self._ledger is not None:
            self._ledger.close()

    def _begin(self) -> None:
        self._lock, self._ledger, self._stop_listening = threading.Lock(), None, _nobody


def _nobody() -> None:
    pass
