"""The SDK in apps that die, fork and share: every call that the app had answered is recorded exactly once."""

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

from prx.domain.records import Interaction, Record
from prx.records.memory import MemoryRecords
from prx.spool.folder import segments
from prx.spool.frames import Frame, pieces
from prx.spool.ship import refill, ship
from prx.wiring.paths import spool_folder

VICTIM = Path(__file__).with_name("sdk_victim.py")
NOW = datetime(2026, 12, 1, 9, tzinfo=UTC)
ENV = {**os.environ, "PRX_CONFIG": "", "PYTHONHASHSEED": "0"}


def recorded(home: Path) -> Counter[str | None]:
    from prx.domain.codec import decode

    records = [
        decode(piece.payload, Record)  # type: ignore[arg-type]
        for segment in segments(spool_folder(home))
        for piece in pieces(segment.read_bytes())
        if isinstance(piece, Frame)
    ]
    return Counter(record.ref for record in records if isinstance(record, Interaction))


@pytest.mark.parametrize("kills", [6, pytest.param(100, marks=pytest.mark.slow)])
def test_an_app_that_is_killed_has_every_answered_call_recorded_once(tmp_path: Path, kills: int) -> None:
    rng = random.Random(kills)
    acknowledged: list[str] = []
    for kill in range(kills):
        command = [sys.executable, str(VICTIM), "forever", str(tmp_path), f"r{kill}"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=ENV) as victim:
            assert victim.stdout is not None
            heard = [victim.stdout.readline() for _ in range(rng.randrange(1, 300))]
            victim.send_signal(signal.SIGKILL)
            heard += victim.stdout.read().splitlines(keepends=True)
        acknowledged += [line.decode().strip() for line in heard if line.endswith(b"\n")]
    found = recorded(tmp_path)
    assert len(acknowledged) >= kills
    assert {name: found[name] for name in acknowledged if found[name] != 1} == {}
    store = MemoryRecords()
    ship(spool_folder(tmp_path), store.append, now=NOW)
    before = store.counts()
    assert refill(spool_folder(tmp_path), store.append).new == 0
    assert store.counts() == before


def test_children_of_a_preloaded_app_record_beside_their_parent(tmp_path: Path) -> None:
    command = [sys.executable, str(VICTIM), "fork", str(tmp_path)]
    done = subprocess.run(command, stdout=subprocess.PIPE, env=ENV, timeout=60, check=False)
    acknowledged = done.stdout.decode().split()
    assert done.returncode == 0
    assert len(acknowledged) == 1 + 3 * 2 * 20 + 20
    assert recorded(tmp_path) == Counter(acknowledged)
    assert len(segments(spool_folder(tmp_path))) == 4
