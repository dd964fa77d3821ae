"""The data plane: what is recorded of traffic, and the scores derived from it."""

from prx.records.memory import open_memory
from prx.records.port import RecordStore
from prx.records.sqlite import open_sqlite

__all__ = ["RecordStore", "open_memory", "open_sqlite"]
