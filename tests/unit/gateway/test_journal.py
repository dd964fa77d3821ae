"""Requests under way survive their process, and are recorded once."""

import fcntl
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from prx.domain.records import Interaction, Record, Terminal
from prx.gateway import journal as module
from prx.gateway.journal import Journal, Open, recover
from prx.spool.rules import SpoolRules
from prx.spool.writer import SpoolWriter

NOW = datetime(2026, 12, 1, 8, tzinfo=UTC)


def opened(name: str, **more: str) -> Open:
    return Open(record_id=name, at=NOW, session_id=f"s-{name}", **more)


class Dies:
    """A journal whose process is gone: its lock is, its file is not."""

    def __init__(self, folder: Path, slots: int = 8) -> None:
        self.journal = Journal(folder, slots=slots)

    def die(self) -> None:
        fcntl.flock(self.journal._fd, fcntl.LOCK_UN)


@pytest.fixture
def kept() -> list[Record]:
    return []


def recovered(tmp_path: Path, kept: list[Record]) -> int:
    def append(records: Sequence[Record]) -> None:
        kept.extend(records)

    return recover(tmp_path / "gateway", tmp_path / "spool", append)


def test_what_was_under_way_is_recorded_as_crashed_once(tmp_path: Path, kept: list[Record]) -> None:
    victim = Dies(tmp_path / "gateway")
    slots = [victim.journal.enter(opened(f"r{n}", model="m", ref=f"ref{n}")) for n in range(3)]
    victim.journal.leave(slots[1])
    victim.die()
    assert recovered(tmp_path, kept) == 2
    assert recovered(tmp_path, kept) == 0
    assert [(r.record_id, r.terminal, r.ref, r.session_id) for r in kept if isinstance(r, Interaction)] == [
        ("r0", Terminal.CRASHED, "ref0", "s-r0"),
        ("r2", Terminal.CRASHED, "ref2", "s-r2"),
    ]


def test_what_has_its_record_in_the_spool_is_left_alone(tmp_path: Path, kept: list[Record]) -> None:
    spool = SpoolWriter(tmp_path / "spool", now=lambda: NOW, rules=SpoolRules(reserve_bytes=0))
    spool.append([Interaction(record_id="r0", at=NOW, session_id="s-r0")])
    spool.close()
    victim = Dies(tmp_path / "gateway")
    for name in ("r0", "r1"):
        victim.journal.enter(opened(name))
    victim.die()
    assert recovered(tmp_path, kept) == 1
    assert [r.record_id for r in kept] == ["r1"]


def test_the_journal_of_a_living_process_is_left_alone(tmp_path: Path, kept: list[Record]) -> None:
    alive = Journal(tmp_path / "gateway", slots=4)
    alive.enter(opened("r0"))
    assert recovered(tmp_path, kept) == 0
    alive.close()
    assert not list((tmp_path / "gateway").iterdir())


def test_a_journal_stays_when_its_records_could_not_be_kept(tmp_path: Path, kept: list[Record]) -> None:
    victim = Dies(tmp_path / "gateway")
    victim.journal.enter(opened("r0"))
    victim.die()

    def full(_records: Sequence[Record]) -> None:
        raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        recover(tmp_path / "gateway", tmp_path / "spool", full)
    assert recovered(tmp_path, kept) == 1


def test_without_a_free_slot_the_request_is_served_and_counted(tmp_path: Path) -> None:
    journal = Journal(tmp_path, slots=1)
    slot = journal.enter(opened("a"))
    assert journal.enter(opened("b")) is None
    assert journal.unkept == 1
    journal.leave(slot)
    assert journal.enter(opened("c")) is not None


def test_a_slot_that_is_only_half_written_is_no_request(tmp_path: Path, kept: list[Record]) -> None:
    folder = tmp_path / "gateway"
    folder.mkdir()
    slot = bytearray(module._SLOT)
    slot[0], slot[1:3], slot[3:8] = 1, (900).to_bytes(2, "big"), b'{"rec'
    (folder / "1-x.open").write_bytes(bytes(slot))
    assert recovered(tmp_path, kept) == 0


def test_a_very_long_model_name_is_cut(tmp_path: Path, kept: list[Record]) -> None:
    victim = Dies(tmp_path / "gateway")
    assert victim.journal.enter(opened("r0", model="m" * 5000)) is not None
    victim.die()
    assert recovered(tmp_path, kept) == 1


@pytest.mark.parametrize("whole_home", [False, True])
def test_a_journal_that_was_removed_goes_on_in_a_new_file(
    tmp_path: Path, kept: list[Record], whole_home: bool
) -> None:
    home = tmp_path / "home"
    victim = Dies(home / "gateway")
    victim.journal.enter(opened("r0"))
    shutil.rmtree(home) if whole_home else [path.unlink() for path in (home / "gateway").iterdir()]
    slot = victim.journal.enter(opened("r1"))
    victim.journal.look()
    victim.journal.leave(slot)
    victim.journal.enter(opened("r2"))
    victim.die()
    assert recover(home / "gateway", home / "spool", kept.extend) == 2
    assert sorted(r.record_id for r in kept) == ["r0", "r2"]


def test_every_slot_of_a_journal_has_its_place_on_the_disk(tmp_path: Path) -> None:
    Journal(tmp_path, slots=64)
    [path] = tmp_path.iterdir()
    assert path.stat().st_blocks * 512 >= 64 * module._SLOT
