"""Writes records and says on stdout which ones the spool has accepted, until somebody kills it."""

import itertools
import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from prx.domain.records import Interaction, Message
from prx.spool.rules import Fsync, SpoolRules
from prx.spool.ship import ship
from prx.spool.writer import SpoolWriter

START = datetime(2026, 12, 1, 8, tzinfo=UTC)


def record(name: str) -> Interaction:
    # Lengths differ, so that a kill meets frames in every state.
    text = name * (1 + int(name.rsplit("-", 1)[1]) * 37 % 400)
    return Interaction(
        record_id=name, at=START, session_id=name, messages=(Message(role="user", content=text),)
    )


def acknowledge(name: str) -> None:
    os.write(1, f"{name}\n".encode())


def write_forever(folder: Path, prefix: str) -> None:
    ticks = itertools.count()
    rules = SpoolRules(fsync=Fsync.BATCH, segment_bytes=60_000, reserve_bytes=0, sync_seconds=0.001)
    spool = SpoolWriter(folder, now=lambda: START + timedelta(microseconds=next(ticks)), rules=rules)
    for number in itertools.count():
        name = f"{prefix}-{number}"
        spool.append([record(name)])
        acknowledge(name)


def ship_forever(folder: Path, store: Path) -> None:
    """Ships into one file per record, so that a kill may fall between any two of them."""

    def append(records: object) -> int:
        new = 0
        for item in records:  # type: ignore[attr-defined]
            try:
                os.close(os.open(store / item.record_id, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
                new += 1
            except FileExistsError:
                pass
        acknowledge(f"batch-{len(records)}")  # type: ignore[arg-type]
        return new

    while True:
        ship(folder, append, now=START)


def write_in_children(folder: Path, children: int, each: int) -> None:
    """The parent writes, forks, and parent and children go on with the same writer object."""
    spool = SpoolWriter(
        folder, now=lambda: datetime.now(UTC), rules=SpoolRules(reserve_bytes=0, sync_seconds=0.001)
    )
    spool.append([record("before-0")])
    acknowledge("before-0")
    kids = []
    for child in range(children):
        kid = os.fork()
        if kid == 0:
            for number in range(each):
                spool.append([record(f"child{child}-{number}")])
                acknowledge(f"child{child}-{number}")
            os._exit(0)
        kids.append(kid)
    for number in range(each):
        spool.append([record(f"parent-{number}")])
        acknowledge(f"parent-{number}")
    for kid in kids:
        os.waitpid(kid, 0)


if __name__ == "__main__":
    task, target, *more = sys.argv[1:]
    if task == "write":
        write_forever(Path(target), more[0])
    elif task == "ship":
        ship_forever(Path(target), Path(more[0]))
    else:
        write_in_children(Path(target), children=3, each=60)
