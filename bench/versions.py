"""Time of a promote and of a restore with 10,000 versions stored, and rows per second of an audit check.

`python bench/versions.py` prints lines to read; `--json` one JSON object per line. The limit of a promote and
of a restore is three times one bare durable SQLite commit of the same bytes: the bytes are what the case adds
to the write-ahead log, the bare commit writes one row of that size, with the same sync, in the same run, turn
by turn. The peer of the audit check is the least that any check must do: read the rows and hash each twice.
"""

import argparse
import hashlib
import json
import os
import platform
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import apsw

from prx.domain.changes import AddLine, PromptPatch
from prx.domain.ids import Ids
from prx.domain.layers import Layer
from prx.domain.proposals import ProofStep, Proposal, ProposalState
from prx.domain.versions import PromptSet, VersionSource
from prx.engine.filing import Filing, file_proposal
from prx.ledger import Ledger, open_sqlite
from prx.ledger.port import Transaction
from prx.release.applied import current
from prx.release.promote import initial_version, new_version, promote
from prx.release.rollback import execute_rollback, plan_rollback
from prx.views.audit import verify

VERSIONS = int(os.environ.get("PRX_BENCH_VERSIONS", "10000"))
TURNS = int(os.environ.get("PRX_BENCH_TURNS", "300"))
PROMPTS, LETTERS, TIMES = 20, 500, 3
NOW = datetime(2026, 12, 1, 8, 0, tzinfo=UTC)
STATES = (
    ProposalState.GATED, ProposalState.SHADOWING, ProposalState.JUDGED, ProposalState.AWAITING_APPROVAL,
)  # fmt: skip
PROOFS = tuple(
    ProofStep(name=name, answer="pass", why="arranged", at=NOW)
    for name in ("gate.scope", "gate.replay", "shadow", "judge")
)


class Bench:
    """A ledger with many versions, and beside it a file for bare commits."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "ledger.sqlite"
        self.rng, self.clock = random.Random(7), NOW
        self.ids = Ids(random.Random(8))
        self.ledger: Ledger = open_sqlite(self.path, self.ids, full_sync=False)
        self.bare = apsw.Connection(str(folder / "bare.sqlite"))
        for pragma in ("journal_mode=wal", "synchronous=full", "wal_autocheckpoint=0"):
            self.bare.execute(f"PRAGMA {pragma}")
        self.bare.execute("CREATE TABLE row (number INTEGER PRIMARY KEY, body BLOB)")

    def fill(self) -> None:
        """Store the versions, without waiting for the disk; then open the ledger as users have it."""
        with self.ledger.transaction(now=NOW, actor="bench") as tx:
            self._add(tx, first=True)
        for _ in range(0, VERSIONS - 1, 100):
            with self.ledger.transaction(now=self.tick(), actor="bench") as tx:
                for _ in range(100):
                    self._add(tx)
        self.ledger.close()
        self.ledger = open_sqlite(self.path, self.ids)

    def proposal(self) -> Proposal:
        """A proposal that may be promoted."""
        with self.ledger.transaction(now=self.tick(), actor="bench") as tx:
            line = f"- {self.rng.random()}"
            filed = file_proposal(
                tx,
                Filing(
                    agent="default", change=PromptPatch(prompt="prompt0", ops=(AddLine(line),)),
                    description="a line", rationale="bench", trigger="bench", author="engine",
                    fingerprint=line, risk=0.1, data_points=1,
                ),
            )  # fmt: skip
            for state in STATES:
                filed = tx.move(filed, state, why="bench", proofs=PROOFS)
            return filed

    def promoted(self, proposal: Proposal) -> None:
        """One promotion, as the engine does it."""
        with self.ledger.transaction(now=self.tick(), actor="engine") as tx:
            promote(tx, proposal, why="bench", evidence="live", baseline={})

    def restored(self) -> None:
        """One rollback of the last change, checked as always."""
        with self.ledger.transaction(now=self.tick(), actor="person:bench") as tx:
            execute_rollback(tx, plan_rollback(tx, "default"), why="bench")

    def commit(self, size: int) -> None:
        """One bare durable commit of `size` bytes."""
        self.bare.execute("INSERT INTO row (body) VALUES (zeroblob(?))", (size,))

    def written(self) -> int:
        """Bytes of the write-ahead log."""
        return self.path.with_name(f"{self.path.name}-wal").stat().st_size

    def tick(self) -> datetime:
        """The next minute."""
        self.clock += timedelta(minutes=1)
        return self.clock

    def _add(self, tx: Transaction, *, first: bool = False) -> None:
        if first:
            texts = {f"prompt{n}": self._text() for n in range(PROMPTS)}
            initial_version(
                tx, "default", prompts=PromptSet(texts=texts), source=VersionSource.INITIAL, note="first"
            )
            return
        part = tx.part(current(tx, "default").manifest.prompt)
        assert isinstance(part, PromptSet)
        texts = {**part.texts, f"prompt{self.rng.randrange(PROMPTS)}": self._text()}
        new_version(
            tx, "default", Layer.PROMPT, PromptSet(texts=texts), source=VersionSource.ENGINE, note="n"
        )

    def _text(self) -> str:
        return "".join(self.rng.choices("abcdefgh ", k=LETTERS))


def seconds(work: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    began = clock()
    work()
    return clock() - began


def turns(bench: Bench) -> list[dict[str, object]]:
    """Promotes and restores in turn, each followed by a bare commit of as many bytes."""
    took: dict[str, list[float]] = {"promote": [], "restore": []}
    bare: dict[str, list[float]] = {"promote": [], "restore": []}
    sizes: dict[str, int] = {}
    for _ in range(TURNS):
        proposal = bench.proposal()
        for case, work in (("promote", lambda p=proposal: bench.promoted(p)), ("restore", bench.restored)):
            checkpoint(bench)
            before = bench.written()
            took[case].append(seconds(work))
            sizes.setdefault(case, max(bench.written() - before, 4096))
            bare[case].append(seconds(lambda size=sizes[case]: bench.commit(size)))
    return [line(case, took[case], bare[case], sizes[case]) for case in took]


def checkpoint(bench: Bench) -> None:
    """Empty both logs, so that neither side pays for a checkpoint of what came before."""
    for path in (bench.path, Path(bench.bare.filename)):
        connection = apsw.Connection(str(path))
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.close()


def line(case: str, took: list[float], bare: list[float], size: int) -> dict[str, object]:
    ours, least = p99(took), p99(bare)
    return {
        "case": f"{case}_p99_at_{VERSIONS}_versions",
        "ours": ours,
        "unit": "s",
        "limit": TIMES * least,
        "peer": least,
        "peer_name": f"bare commit of {size} bytes",
        "ratio_to_limit": ours / (TIMES * least),
        "ratio_to_peer": ours / least,
        "median": statistics.median(took),
        "n": len(took),
        "spread": max(took) - min(took),
        **machine(),
    }


def p99(values: list[float]) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[98]


def audit(bench: Bench) -> dict[str, object]:
    """Rows per CPU second of the whole check, chain and records, beside reading and hashing alone."""
    rows = 0

    def ours() -> None:
        nonlocal rows
        with bench.ledger.view() as view:
            found = verify(view)
        assert found.whole, found.why
        rows = found.rows

    def least() -> None:
        connection = apsw.Connection(str(bench.path))
        sql = (
            "SELECT a.hash, b.body FROM audit AS a LEFT JOIN audit_body AS b ON b.seq = a.seq ORDER BY a.seq"
        )
        for link, body in connection.execute(sql):
            hashlib.sha256(body.encode()).hexdigest()
            hashlib.sha256(link.encode()).hexdigest()
        connection.close()

    mine, bare = [], []
    for _ in range(3):
        mine.append(seconds(ours, time.process_time))
        bare.append(seconds(least, time.process_time))
    speed, peer = rows / min(mine), rows / min(bare)
    return {
        "case": "audit_verify",
        "ours": speed,
        "unit": "rows/CPU s",
        "limit": None,
        "peer": peer,
        "peer_name": "read and hash only",
        "ratio_to_limit": None,
        "ratio_to_peer": speed / peer,
        "n": rows,
        "spread": rows / min(mine) - rows / max(mine),
        **machine(),
    }


def machine() -> dict[str, Any]:
    return {
        "machine": f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}",
        "versions": {"sqlite": apsw.sqlite_lib_version()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="prx-bench-", dir=os.environ.get("PRX_BENCH_DIR")) as folder:
        bench = Bench(Path(folder))
        bench.fill()
        lines = [*turns(bench), audit(bench)]
        bench.ledger.close()
        bench.bare.close()
    for one in lines:
        if options.json:
            print(json.dumps(one))
        else:
            shown = {
                key: one[key] for key in ("ours", "limit", "peer", "ratio_to_limit", "ratio_to_peer", "n")
            }
            print(one["case"], {k: round(v, 6) if isinstance(v, float) else v for k, v in shown.items()})


if __name__ == "__main__":
    main()
