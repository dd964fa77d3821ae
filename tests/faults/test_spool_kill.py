import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from prx.domain.records import Record
from prx.spool.folder import segments, usage
from prx.spool.ship import Shipped, refill, ship

VICTIM = Path(__file__).with_name("spool_victim.py")
NOW = datetime(2026, 12, 1, 9, tzinfo=UTC)


class CountingStore:
    def __init__(self) -> None:
        self.kept: dict[str, Record] = {}
        self.arrivals: Counter[str] = Counter()

    def append(self, records: Sequence[Record]) -> int:
        new = [r for r in records if r.record_id not in self.kept]
        self.kept.update({r.record_id: r for r in new})
        self.arrivals.update(r.record_id for r in records)
        return len(new)


def start(*arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, str(VICTIM), *arguments], stdout=subprocess.PIPE)


def kill_after(victim: subprocess.Popen[bytes], lines: int) -> list[str]:
    """What the victim had acknowledged when it was killed, after at least `lines` acknowledgements."""
    assert victim.stdout is not None
    heard = [victim.stdout.readline() for _ in range(lines)]
    victim.send_signal(signal.SIGKILL)
    heard += victim.stdout.read().splitlines(keepends=True)
    victim.stdout.close()
    assert victim.wait() == -signal.SIGKILL
    return [line.decode().strip() for line in heard if line.endswith(b"\n")]


def ship_all(folder: Path, store: CountingStore) -> Shipped:
    return ship(folder, store.append, now=NOW)


def check_kills(folder: Path, kills: int, seed: int) -> None:
    rng, store = random.Random(seed), CountingStore()
    acknowledged: list[str] = []
    for round_ in range(kills):
        victim = start("write", str(folder), f"r{round_}")
        acknowledged += kill_after(victim, rng.randrange(0, 250))
        if rng.random() < 0.5:
            ship_all(folder, store)
    shipped = ship_all(folder, store)
    assert all(d.why.startswith("the writer died") for d in shipped.damaged)
    assert set(acknowledged) <= set(store.kept)
    assert all(store.arrivals[name] == 1 for name in acknowledged)
    # At most the one record in flight at each kill was kept without being acknowledged.
    assert len(store.kept) - len(acknowledged) <= kills
    assert refill(folder, store.append).new == 0


def test_twenty_kills_lose_no_acknowledged_record_and_deliver_each_once(tmp_path: Path) -> None:
    check_kills(tmp_path, kills=20, seed=20)


@pytest.mark.slow
def test_two_hundred_kills_lose_no_acknowledged_record_and_deliver_each_once(tmp_path: Path) -> None:
    check_kills(tmp_path, kills=200, seed=200)


def test_a_shipper_killed_at_any_moment_leaves_every_record_in_the_store_once(tmp_path: Path) -> None:
    rng = random.Random(5)
    folder, store = tmp_path / "spool", tmp_path / "store"
    store.mkdir()
    acknowledged = kill_after(start("write", str(folder), "w"), 3000)
    for _ in range(6):
        if not usage(folder).waiting:
            break
        kill_after(start("ship", str(folder), str(store)), rng.randrange(0, 2))
    missing = set(acknowledged) - {path.name for path in store.iterdir()}
    leftover = CountingStore()
    ship_all(folder, leftover)
    assert missing <= set(leftover.kept)
    assert set(refilled(folder)) >= set(acknowledged)


def refilled(folder: Path) -> set[str]:
    store = CountingStore()
    refill(folder, store.append)
    return set(store.kept)


def test_forked_children_write_segments_of_their_own_and_nothing_is_lost(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(VICTIM), "fork", str(tmp_path)], stdout=subprocess.PIPE, check=True, timeout=60
    )
    acknowledged = done.stdout.decode().split()
    store = CountingStore()
    shipped = ship_all(tmp_path, store)
    assert len(acknowledged) == 1 + 4 * 60
    assert sorted(store.kept) == sorted(acknowledged)
    assert shipped.damaged == ()
    assert len(segments(tmp_path)) == 4
