"""What each agent is served, read in the background, and the switch that sends everyone to the champion."""

from collections.abc import Callable
from pathlib import Path

import msgspec

from prx.domain.accepted import AcceptedPrompt
from prx.domain.replaced import StoreReplaced
from prx.domain.serving import Serving
from prx.ledger.port import Ledger
from prx.ledger.serving import serving

KILL_FILE = "kill"


class LedgerReader:
    """Reads the ledger, wherever it is; opened at the first read, in the reading thread.

    Args: `accepted`: gets the accepted prompts of every agent at first and whenever they changed.
    """

    def __init__(
        self,
        open_ledger: Callable[[], Ledger],
        accepted: Callable[[tuple[AcceptedPrompt, ...]], None] | None = None,
    ) -> None:
        self._open, self._accepted = open_ledger, accepted
        self._told: tuple[AcceptedPrompt, ...] | None = None
        self._ledger: Ledger | None = None
        self.reads = 0

    def read(self, agent: str) -> Serving:
        """Champion and experiments. Raises: EvolutionError when the store cannot be read."""
        if self._ledger is None:
            self._ledger = self._open()
        try:
            with self._ledger.view() as view:
                found = serving(view, agent)
                prompts = view.find(AcceptedPrompt) if self._accepted else ()
        except StoreReplaced:
            # Told once; the next read opens it anew, or no rollback would ever be heard again.
            self._ledger.close()
            self._ledger = None
            raise
        if self._accepted is not None and prompts != self._told:
            self._accepted(prompts)
            self._told = prompts
        self.reads += 1
        return found

    def close(self) -> None:
        """Release the store."""
        if self._ledger is not None:
            self._ledger.close()


class KillSwitch:
    """On while the file exists, or once a signal has thrown it; needs no store."""

    def __init__(self, home: Path) -> None:
        self._file = home / KILL_FILE
        self._thrown = False
        self.on = self._file.exists()

    def look(self) -> None:
        """Look at the file again; called several times a second."""
        self.on = self._thrown or self._file.exists()

    def throw(self) -> None:
        """Turn on, or off again, as a signal asks."""
        self._thrown = not self._thrown
        self.look()


class Switched:
    """`switched(agent)`: what is served, as killed while the champion alone may serve."""

    def __init__(self, source: Callable[[str], Serving], champion_only: Callable[[], bool]) -> None:
        self._source, self._champion_only = source, champion_only

    def __call__(self, agent: str) -> Serving:
        """Never waits and never raises as long as the source does not."""
        found = self._source(agent)
        return msgspec.structs.replace(found, killed=True) if self._champion_only() else found
