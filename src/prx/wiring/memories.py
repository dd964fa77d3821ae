"""The memory store of a state folder: for the engine, and for recall in an app's own process."""

import logging
from collections.abc import Callable
from pathlib import Path

from prx.domain.errors import StoreError
from prx.domain.versions import MemoryState
from prx.ledger.port import Ledger
from prx.memory import MemoryStore, StoredRecall, open_sqlite

_LOG = logging.getLogger("prx")


def memory_file(home: Path) -> Path:
    """Entries and their index; rebuilt from records and ledger when it is missing."""
    return home / "memory.sqlite"


def engine_memory(home: Path) -> MemoryStore | None:
    """The store for `Context.memory`; None, told once in the log, when it cannot be opened: the other layers
    and recording do not depend on it."""
    try:
        return open_sqlite(memory_file(home))
    except StoreError as error:
        _LOG.error("prx: the memory layer is off: %s", error)
        return None


def local_recall(home: Path, ledger: Callable[[], Ledger]) -> StoredRecall:
    """`recaller=` of an Evolution: the folder's memory under the part that the ledger says is served.

    Opens the store at the first recall; `ledger` gives the open ledger of this process. Close it with the
    Evolution.
    """

    def part(part_hash: str) -> MemoryState:
        with ledger().view() as view:
            found = view.part(part_hash)
        if not isinstance(found, MemoryState):
            raise StoreError(f"part {part_hash} should be a memory state; run `prx doctor`")
        return found

    return StoredRecall(lambda: open_sqlite(memory_file(home)), part)
