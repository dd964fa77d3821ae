"""What an operator decides about a spool, and what it counts."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from prx.domain.errors import StoreError
from prx.spool.content import Content


class Fsync(StrEnum):
    """`batch`: written records reach the disk within `sync_seconds`; `never`: when the system likes."""

    BATCH = "batch"
    NEVER = "never"


class OnFull(StrEnum):
    """What happens beyond the byte cap: `serve` counts the gap, `refuse` raises SpoolFull."""

    SERVE = "serve"
    REFUSE = "refuse"


class SpoolFull(StoreError):
    """The spool has no room left, and its operator chose to refuse rather than to lose records."""


@dataclass(frozen=True, slots=True)
class SpoolRules:
    """Limits of the spool; sizes in bytes. Bodies are shed above `shed_share` of `max_bytes`."""

    content: Content = Content.FULL
    fsync: Fsync = Fsync.BATCH
    on_full: OnFull = OnFull.SERVE
    max_bytes: int = 1024 * 1024 * 1024
    shed_share: float = 0.8
    segment_bytes: int = 16 * 1024 * 1024
    segment_age: timedelta = timedelta(hours=1)
    reserve_bytes: int = 4 * 1024 * 1024
    sync_seconds: float = 0.05


@dataclass(frozen=True, slots=True)
class SpoolCounts:
    """What this process wrote: `shed` lost their bodies, `gaps` were not written at all, `refused` are
    prompt defaults that hold a credential, `rescued` were written again because their file was removed,
    `unsynced` is how often bringing them to the disk failed."""

    written: int = 0
    bytes: int = 0
    shed: int = 0
    gaps: int = 0
    refused: int = 0
    rescued: int = 0
    unsynced: int = 0
