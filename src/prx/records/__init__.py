"""The data plane: what is recorded of traffic, and the scores derived from it."""

from prx.records.memory import open_memory
from prx.records.port import RecordStore

__all__ = ["RecordStore", "open_memory"]
