"""Brings what a machine keeps of its own (spool, memory) to where the erasures of the record store are."""

import os
from dataclasses import dataclass
from pathlib import Path

from prx.domain.records import SessionEnd
from prx.memory import MemoryStore
from prx.records.port import RecordStore
from prx.spool.erase import erase as erase_spooled
from prx.wiring.paths import spool_folder

_SEEN = "erasures.seen"


@dataclass(frozen=True, slots=True)
class Followed:
    """What was removed here: records that waited in the spool or were kept there, and memory entries."""

    spooled: int = 0
    memories: tuple[str, ...] = ()


def follow_erasures(home: Path, records: RecordStore, memory: MemoryStore | None) -> Followed:
    """Remove what tombstones stand on, where there are erasures that this folder has not followed yet.

    Every step can be done again, so a crash in between costs nothing. Raises: StoreError, OSError.
    """
    records.erasures.carry_out()
    newest = records.erasures.erasures(after=_seen(home))
    return remove_here(home, records, memory, newest[-1].number) if newest else Followed()


def remove_here(home: Path, records: RecordStore, memory: MemoryStore | None, number: int) -> Followed:
    """Remove what tombstones stand on from this folder, and note that it was done up to erasure `number`."""
    memories = () if memory is None else _forget(records, memory)
    spooled = erase_spooled(spool_folder(home), records.erasures.refused)
    staged = home / f"{_SEEN}.part"
    staged.write_text(f"{number}\n", encoding="ascii")
    os.replace(staged, home / _SEEN)
    return Followed(spooled, memories)


def _forget(records: RecordStore, memory: MemoryStore) -> tuple[str, ...]:
    written = memory.sessions()
    ids = records.erasures.refused([one for one in written if one.record_id])
    ends = {
        one.session_id: SessionEnd(record_id=one.session_id, at=one.at, session_id=one.session_id)
        for one in written
    }
    sessions = records.erasures.refused(list(ends.values()))
    return memory.forget(sorted(sessions), sorted(ids)) if sessions or ids else ()


def _seen(home: Path) -> int:
    try:
        return int((home / _SEEN).read_text(encoding="ascii"))
    except (FileNotFoundError, ValueError, UnicodeDecodeError):
        return 0
