"""Memory: entries that sessions wrote or memory changes derived, and their recall."""

from prx.memory.inprocess import open_memory
from prx.memory.learning import learned
from prx.memory.port import Embedder, MemoryStore
from prx.memory.recaller import StoredRecall
from prx.memory.sqlite import open_sqlite

__all__ = ["Embedder", "MemoryStore", "StoredRecall", "learned", "open_memory", "open_sqlite"]
