"""The spool as the configuration wants it, for the SDK, the gateway and whoever ships."""

from datetime import timedelta

from prx.settings.schema import Record
from prx.spool.content import Content
from prx.spool.rules import Fsync, OnFull, SpoolRules


def spool_rules(record: Record) -> SpoolRules:
    """Limits of a writer."""
    return SpoolRules(
        content=Content(record.content),
        fsync=Fsync(record.spool_fsync),
        on_full=OnFull(record.on_full),
        max_bytes=record.spool_max_bytes,
        reserve_bytes=min(SpoolRules().reserve_bytes, record.spool_max_bytes // 4),
        segment_bytes=min(SpoolRules().segment_bytes, record.spool_max_bytes // 4),
    )


def kept_for(record: Record) -> timedelta:
    """How long a segment stays once the store has it."""
    return timedelta(hours=record.spool_keep_hours)
