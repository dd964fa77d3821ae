"""How the recording half of a gateway is, for `/health` and `/metrics`."""

from datetime import datetime
from typing import Any

from prx.gateway.recorder import Recorder
from prx.spool.folder import Usage, usage
from prx.spool.gaps import gaps_of


def problems(recorder: Recorder) -> list[str]:
    """What is not as it should be; empty when all is well."""
    counts, found = recorder.spool.counts, []
    if recorder.poller.failing:
        found.append("ledger: cannot be read, the last known is served")
    if recorder.spool.over:
        found.append("spool: has no room, the champion alone is served and nothing is recorded")
    if counts.gaps:
        found.append(f"spool: {counts.gaps} records were not kept")
    if counts.shed:
        found.append(f"spool: {counts.shed} records lost their texts for want of room")
    if counts.rescued:
        found.append(f"spool: was removed while in use; {counts.rescued} records were written again")
    if counts.unsynced:
        found.append("spool: what was written could not be brought to the disk")
    if recorder.journal.unkept:
        found.append("journal: requests ran without a slot")
    return [*found, *(f"{at}: failed {n} times" for at, n in recorder.runtime.faults.counts.items())]


def spool_health(recorder: Recorder) -> dict[str, Any]:
    """What waits in the spool, and what it could not keep, by all processes together."""
    held, gaps = usage(recorder.spool_folder), gaps_of(recorder.spool_folder)
    return {
        "waiting_bytes": held.waiting,
        "oldest_waiting": held.oldest_waiting,
        "lost_records": gaps.records,
        "last_lost": gaps.last_at,
    }


def gauges(recorder: Recorder, under_way: int, now: datetime) -> dict[str, float]:
    """Numbers that go up and down."""
    held = usage(recorder.spool_folder)
    return {
        "prx_gateway_in_flight": float(under_way),
        "prx_gateway_sessions": float(len(recorder.sessions)),
        "prx_gateway_killed": float(recorder.killed),
        "prx_gateway_champion_only": float(recorder.champion_only),
        "prx_spool_segments": float(held.segments),
        "prx_spool_bytes": float(held.total),
        "prx_spool_waiting_bytes": float(held.waiting),
        "prx_spool_oldest_waiting_seconds": _age(held, now),
    }


def counters(recorder: Recorder) -> dict[str, float]:
    """Numbers that only go up."""
    counts = recorder.spool.counts
    return {
        "prx_spool_records_total": float(counts.written),
        "prx_spool_written_bytes_total": float(counts.bytes),
        "prx_spool_shed_total": float(counts.shed),
        "prx_spool_gaps_total": float(counts.gaps),
        "prx_spool_rescued_total": float(counts.rescued),
        "prx_spool_sync_failures_total": float(counts.unsynced),
        "prx_journal_unkept_total": float(recorder.journal.unkept),
        "prx_ledger_read_failures_total": float(recorder.poller.failures),
        "prx_gateway_faults_total": float(sum(recorder.runtime.faults.counts.values())),
        "prx_gateway_recovered_total": float(recorder.recovered),
    }


def _age(held: Usage, now: datetime) -> float:
    if held.oldest_waiting is None:
        return 0.0
    return max(0.0, (now - held.oldest_waiting).total_seconds())
