"""Durable records per second: the spool beside raw batched inserts of the same rows into SQLite, in one run.

`python bench/record.py` prints lines to read; `--json` one JSON object per line. Both sides take turns, each
run in an empty folder on the same disk, each round in a process of its own, and both end when all is on the
disk: ours with the last fsync of the spool, SQLite with the commit of the last transaction of 500 rows (WAL,
synchronous FULL, a table without any index). Ours does everything that a record needs on its way there:
encoding, looking for credentials, checksum. SQLite is given finished rows (id, session, time, payload),
prepared before the clock starts. `record_one` writes record by record, as an app does; `record_batch` 500 at
once, as an import does; `record_store` is the whole way, through the spool into the record store with its
indexes, beside the same limit for comparison only.
Of each side the best of many short runs counts: waiting for the disk is part of it, so that CPU time would
not do, and what else the machine does can only add. The limit is what we claim: at least 0.6 of the raw rate.
"""

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

CLAIM = 0.6
RECORDS = 4_000
BATCH = 500
ROUNDS = 7
RUNS = 6
CASES = ("record_one", "record_batch", "record_store")
START = datetime(2026, 12, 1, 8, tzinfo=UTC)
SAID = "Where is my parcel, and when will it come? I have waited for {n} days, and the number is {n}-{n}-A. "
ANSWER = "Parcel {n} left the depot this morning and should arrive tomorrow before noon. "


def records() -> list[Any]:
    """Interactions of about 1.3 kB, each with texts of its own."""
    from prx.domain.records import Interaction, Message, Tokens

    return [
        Interaction(
            record_id=f"01a23198-{n:012x}",
            at=START + timedelta(milliseconds=n),
            session_id=f"s-{n // 4}",
            model="gpt-4o",
            provider="openai",
            intent="conversation",
            messages=(
                Message(role="system", content="You are the support agent of a parcel service. " * 6),
                Message(role="user", content=SAID.format(n=n) * 4),
            ),
            response=ANSWER.format(n=n) * 4,
            tokens=Tokens(input=420, output=60),
            latency_ms=812.5,
            cost_usd=0.00165,
        )
        for n in range(RECORDS)
    ]


def raw(folder: Path) -> float:
    """Seconds for prepared rows, 500 to a transaction."""
    import apsw

    from prx.domain.codec import encode
    from prx.domain.times import to_micros

    rows = [(r.record_id, r.session_id, to_micros(r.at), encode(r)) for r in records()]
    connection = apsw.Connection(str(folder / "raw.sqlite"))
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    # No index, not even for the id: the least that a table can do.
    connection.execute("CREATE TABLE record (id TEXT, session TEXT, at INTEGER, payload BLOB)")
    begin = time.perf_counter()
    for first in range(0, len(rows), BATCH):
        with connection:
            connection.executemany("INSERT INTO record VALUES (?, ?, ?, ?)", rows[first : first + BATCH])
    return time.perf_counter() - begin


def spool(folder: Path, each: int, *, store: bool = False) -> float:
    """Seconds until all are on the disk; with `store`, until the record store has them too."""
    from prx.spool.writer import SpoolWriter

    given = records()
    writer = SpoolWriter(folder / "spool", now=lambda: START)
    kept = open_store(folder) if store else None
    begin = time.perf_counter()
    for first in range(0, len(given), each):
        writer.append(given[first : first + each])
    writer.close()
    if kept is not None:
        from prx.spool.ship import ship

        if ship(folder / "spool", kept.append, now=START).new != RECORDS:
            raise SystemExit("the store did not take every record")
    taken = time.perf_counter() - begin
    if writer.counts.written != RECORDS or writer.counts.shed:
        raise SystemExit(f"the spool kept {writer.counts}")
    return taken


def open_store(folder: Path) -> Any:
    from prx.records.sqlite import open_sqlite

    return open_sqlite(folder / "records.sqlite")


def one_run(name: str, folder: Path) -> float:
    folder.mkdir()
    if name == "raw":
        return raw(folder)
    return spool(folder, 1 if name == "record_one" else BATCH, store=name == "record_store")


def one_round(name: str, parent: Path) -> float:
    """Seconds per record of the best of some runs of one side, in a process of its own."""
    folder = Path(tempfile.mkdtemp(dir=parent))
    command = [sys.executable, __file__, "--one", name, "--folder", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    shutil.rmtree(folder)
    return float(done.stdout) / RECORDS


def measure_all() -> list[dict[str, Any]]:
    """All sides, taking turns."""
    taken: dict[str, list[float]] = {name: [] for name in ("raw", *CASES)}
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as parent:
        for _ in range(ROUNDS):
            for name, rounds in taken.items():
                rounds.append(one_round(name, Path(parent)))
    return [line(name, taken[name], min(taken["raw"])) for name in CASES]


def line(case: str, rounds: list[float], least: float) -> dict[str, Any]:
    ours, claimed = min(rounds), case != "record_store"
    limit = least / CLAIM if claimed else None
    return {
        "bench": "record",
        "case": case,
        "unit": "s",
        "ours": ours,
        "limit": limit,
        "peer": least,
        "peer_name": "raw SQLite inserts",
        "ratio_to_limit": ours / limit if limit else None,
        "ratio_to_peer": ours / least,
        "n": RECORDS * ROUNDS * RUNS,
        "spread": statistics.median(rounds) - min(rounds),
        "note": "" if claimed else "through the spool into the store; no claim",
        "machine": f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}",
        "versions": {"sqlite": sqlite_version()},
    }


def sqlite_version() -> str:
    import apsw

    return apsw.sqlite_lib_version()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    parser.add_argument("--one", choices=("raw", *CASES), help="one round, in seconds (used inside)")
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    if options.one:
        print(min(one_run(options.one, options.folder / str(run)) for run in range(RUNS)))
    else:
        for found in measure_all():
            rate = 1 / found["ours"]
            share = 1 / found["ratio_to_peer"]
            claim = f"claimed: at least {CLAIM}" if found["limit"] else "no claim"
            told = f"{found['case']:14} {rate:8.0f} records/s, {share:.2f} of raw inserts ({claim})"
            print(json.dumps(found) if options.json else told)


if __name__ == "__main__":
    main()
