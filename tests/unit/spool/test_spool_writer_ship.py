import contextlib
import errno
import os
import shutil
import threading
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest
from spool_records import START, Clock, Store, interaction

from prx.domain.errors import StoreError
from prx.domain.records import Interaction, Record
from prx.domain.times import to_micros
from prx.spool.erase import erase
from prx.spool.folder import RESERVE, Position, position_of, segments, usage
from prx.spool.frames import HEADER_BYTES, Blank, Frame, blank_header, frame, pieces
from prx.spool.gaps import Gaps, gaps_of
from prx.spool.rules import Fsync, OnFull, SpoolFull, SpoolRules
from prx.spool.ship import missed_rows, refill, ship
from prx.spool.writer import SpoolWriter

QUIET = SpoolRules(fsync=Fsync.NEVER, reserve_bytes=0)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store() -> Store:
    return Store()


def writer(folder: Path, clock: Clock, **rules: object) -> SpoolWriter:
    return SpoolWriter(
        folder, now=clock, rules=SpoolRules(**({"fsync": Fsync.NEVER, "reserve_bytes": 0} | rules))
    )  # type: ignore[arg-type]


def names(count: int, prefix: str = "i") -> list[str]:
    return [f"{prefix}-{n}" for n in range(count)]


def test_written_records_reach_the_store_while_the_writer_lives(
    tmp_path: Path, clock: Clock, store: Store
) -> None:
    spool = writer(tmp_path, clock)
    records = [interaction(name) for name in names(1200)]
    spool.append(records)
    shipped = ship(tmp_path, store.append, now=START)
    assert (shipped.records, shipped.new, shipped.finished, shipped.damaged) == (1200, 1200, 0, ())
    assert list(store.kept.values()) == records


def test_a_second_run_hands_over_only_what_is_new(tmp_path: Path, clock: Clock, store: Store) -> None:
    spool = writer(tmp_path, clock)
    spool.append([interaction("a")])
    ship(tmp_path, store.append, now=START)
    spool.append([interaction("b")])
    ship(tmp_path, store.append, now=START)
    assert ship(tmp_path, store.append, now=START).records == 0
    assert store.handed_over == ["a", "b"]


def test_a_crash_between_store_and_position_sends_again_and_the_store_keeps_each_once(
    tmp_path: Path, clock: Clock, store: Store
) -> None:
    writer(tmp_path, clock).append([interaction(name) for name in names(700)])
    store.crash_after_keeping = True
    with pytest.raises(ConnectionError):
        ship(tmp_path, store.append, now=START)
    store.crash_after_keeping = False
    ship(tmp_path, store.append, now=START)
    assert list(store.kept) == names(700)
    assert len(store.handed_over) == 1200


def test_the_unfinished_end_of_a_live_segment_waits_and_is_read_once_complete(
    tmp_path: Path, clock: Clock, store: Store
) -> None:
    spool = writer(tmp_path, clock)
    spool.append([interaction("a")])
    late = frame(b'{"type":"session_end","at":"2026-12-01T08:00:00Z","record_id":"late","session_id":"s"}')
    [segment] = segments(tmp_path)
    with segment.open("ab") as file:
        file.write(late[:30])
    assert ship(tmp_path, store.append, now=START).damaged == ()
    with segment.open("ab") as file:
        file.write(late[30:])
    ship(tmp_path, store.append, now=START)
    assert list(store.kept) == ["a", "late"]


def test_the_torn_end_of_a_dead_writer_is_named_and_the_segment_finished(
    tmp_path: Path, clock: Clock, store: Store
) -> None:
    spool = writer(tmp_path, clock)
    spool.append([interaction("a")])
    spool.close()
    [segment] = segments(tmp_path)
    with segment.open("ab") as file:
        file.write(frame(b"x" * 100)[:50])
    shipped = ship(tmp_path, store.append, now=START)
    assert (shipped.records, shipped.finished) == (1, 1)
    assert [(d.segment, d.end - d.start) for d in shipped.damaged] == [(segment.name, 50)]
    assert "never acknowledged" in shipped.damaged[0].why
    assert usage(tmp_path).waiting == 0
    assert ship(tmp_path, store.append, now=START).damaged == ()


def test_a_damaged_frame_costs_only_itself_and_is_named(tmp_path: Path, clock: Clock, store: Store) -> None:
    spool = writer(tmp_path, clock)
    spool.append([interaction(name) for name in names(3)])
    [segment] = segments(tmp_path)
    content = bytearray(segment.read_bytes())
    content[len(content) // 2] ^= 0xFF
    segment.write_bytes(bytes(content))
    shipped = ship(tmp_path, store.append, now=START)
    assert list(store.kept) == ["i-0", "i-2"]
    assert [d.why for d in shipped.damaged] == ["checksum or length does not fit the payload"]


def test_a_record_of_a_newer_release_is_named_and_its_segment_kept_for_a_refill(
    tmp_path: Path, clock: Clock, store: Store
) -> None:
    spool = writer(tmp_path, clock)
    spool.append([interaction("a")])
    spool.close()
    [segment] = segments(tmp_path)
    with segment.open("ab") as file:
        file.write(frame(b'{"type":"from_the_future","record_id":"f"}'))
    shipped = ship(tmp_path, store.append, now=START)
    assert (shipped.records, len(shipped.damaged)) == (1, 1)
    ship(tmp_path, store.append, now=START + timedelta(days=400))
    assert segments(tmp_path) == [segment]


def test_committed_segments_stay_72_hours_and_can_refill_a_store_that_lost_rows(
    tmp_path: Path, clock: Clock, store: Store
) -> None:
    spool = writer(tmp_path, clock)
    spool.append([interaction(name) for name in names(5)])
    spool.close()
    ship(tmp_path, store.append, now=START)
    del store.kept["i-1"], store.kept["i-3"]
    assert ship(tmp_path, store.append, now=START + timedelta(hours=71)).expired == 0
    again = refill(tmp_path, store.append)
    assert (again.records, again.new) == (5, 2)
    assert sorted(store.kept) == names(5)
    assert ship(tmp_path, store.append, now=START + timedelta(hours=72)).expired == 1
    assert segments(tmp_path) == []


def test_segments_rotate_by_size_and_by_age(tmp_path: Path, clock: Clock, store: Store) -> None:
    spool = writer(tmp_path, clock, segment_bytes=1500, segment_age=timedelta(minutes=10))
    for name in names(6):
        spool.append([interaction(name, text="x" * 500)])
        clock.forward(seconds=1)
    assert len(segments(tmp_path)) == 3
    spool.append([interaction("old")])
    clock.forward(minutes=11)
    spool.append([interaction("new")])
    ship(tmp_path, store.append, now=clock())
    assert list(store.kept) == [*names(6), "old", "new"]
    assert all(position_of(s).committed_at == clock() for s in segments(tmp_path))


def test_only_one_process_ships_at_a_time(tmp_path: Path, clock: Clock) -> None:
    writer(tmp_path, clock).append([interaction("a")])
    seen = []

    def nested(records: object) -> int:
        seen.append(ship(tmp_path, lambda _: 0, now=START))
        return 1

    ship(tmp_path, nested, now=START)
    assert [inner.busy for inner in seen] == [True]


def test_a_folder_that_cannot_be_written_is_named_with_what_to_do(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="PRX_HOME"):
        SpoolWriter(tmp_path / "file" / "spool", now=clock)


def test_only_the_owner_can_read_what_was_recorded(tmp_path: Path, clock: Clock) -> None:
    spool = writer(tmp_path / "spool", clock)
    spool.append([interaction("a")])
    [segment] = segments(tmp_path / "spool")
    assert segment.stat().st_mode & 0o077 == 0
    assert segment.parent.stat().st_mode & 0o077 == 0


def test_bodies_are_shed_before_envelopes_and_then_the_gap_is_counted(
    tmp_path: Path, clock: Clock, store: Store
) -> None:
    spool = writer(tmp_path, clock, max_bytes=20_000, shed_share=0.5)
    for name in names(100):
        spool.append([interaction(name, text="x" * 1000)])
        clock.forward(seconds=2)
    counts = spool.counts
    assert counts.written + counts.gaps == 100
    assert 0 < counts.shed < counts.written
    assert counts.gaps > 0
    assert usage(tmp_path).total <= 20_000
    ship(tmp_path, store.append, now=START)
    texts = [r.messages[0].content for r in store.kept.values() if isinstance(r, Interaction)]
    full = sum(text != "" for text in texts)
    assert full == counts.written - counts.shed
    assert all(texts[:full])
    assert not any(texts[full:])


def test_a_full_spool_refuses_when_its_operator_said_so(tmp_path: Path, clock: Clock) -> None:
    spool = writer(tmp_path, clock, max_bytes=3_000, on_full=OnFull.REFUSE)
    with pytest.raises(SpoolFull, match="spool_max_bytes"):
        spool.append([interaction(name) for name in names(100)])


def test_committed_segments_make_room_before_anything_is_shed(
    tmp_path: Path, clock: Clock, store: Store
) -> None:
    spool = writer(tmp_path, clock, max_bytes=20_000, segment_bytes=4_000)
    for name in names(100):
        spool.append([interaction(name, text="x" * 1000)])
        ship(tmp_path, store.append, now=clock())
        clock.forward(seconds=2)
    assert (spool.counts.shed, spool.counts.gaps) == (0, 0)
    assert list(store.kept) == names(100)
    assert usage(tmp_path).total <= 20_000


class Disk:
    """A disk with `room` bytes on which a full write leaves part of the data behind, as write(2) may."""

    def __init__(self, room: int) -> None:
        self.room = room

    def write(self, fd: int, data: bytes) -> int:
        if self.room <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = os.write(fd, data[: self.room])
        self.room -= written
        return written


def test_a_full_disk_gives_the_reserve_to_envelopes_and_leaves_no_half_frame(
    tmp_path: Path, clock: Clock, store: Store
) -> None:
    disk = Disk(room=2_000)
    rules = SpoolRules(fsync=Fsync.NEVER, reserve_bytes=4096)
    spool = SpoolWriter(tmp_path, now=clock, rules=rules, write=disk.write)
    assert (tmp_path / RESERVE).stat().st_size == 4096
    spool.append([interaction("a", text="x" * 1000)])

    def write(fd: int, data: bytes) -> int:
        if not (tmp_path / RESERVE).exists() and disk.room <= 0:
            disk.room = 4096
        return disk.write(fd, data)

    spool._write = write  # the disk gets its reserve back when the file goes
    spool.append([interaction("b", text="x" * 1000)])
    assert not (tmp_path / RESERVE).exists()
    shipped = ship(tmp_path, store.append, now=START)
    assert shipped.damaged == ()
    kept = [r for r in store.kept.values() if isinstance(r, Interaction)]
    assert [(r.record_id, len(r.messages[0].content)) for r in kept] == [("a", 1000), ("b", 0)]


def test_a_full_disk_without_reserve_counts_the_gap_and_serving_goes_on(tmp_path: Path, clock: Clock) -> None:
    spool = SpoolWriter(tmp_path, now=clock, rules=QUIET, write=Disk(room=100).write)
    spool.append([interaction("a"), interaction("b")])
    assert (spool.counts.written, spool.counts.gaps) == (0, 2)
    assert usage(tmp_path).total == 0


def test_threads_share_a_writer_without_losing_a_record(tmp_path: Path, clock: Clock, store: Store) -> None:
    spool = writer(tmp_path, clock, segment_bytes=20_000)
    threads = [
        threading.Thread(target=lambda p=prefix: [spool.append([interaction(n)]) for n in names(100, p)])
        for prefix in "abcd"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ship(tmp_path, store.append, now=START)
    assert sorted(store.kept) == sorted(n for prefix in "abcd" for n in names(100, prefix))


def test_sync_and_close_leave_everything_on_disk_and_the_writer_usable(
    tmp_path: Path, clock: Clock, store: Store
) -> None:
    spool = writer(tmp_path, clock, fsync=Fsync.BATCH, sync_seconds=0.001)
    spool.append([interaction("a")])
    spool.sync()
    spool.close()
    clock.forward(seconds=1)
    spool.append([interaction("b")])
    spool.close()
    shipped = ship(tmp_path, store.append, now=START)
    assert shipped.finished == 2
    assert list(store.kept) == ["a", "b"]


def test_close_waits_for_a_sync_under_way(tmp_path: Path, clock: Clock, store: Store) -> None:
    began, ends = threading.Event(), threading.Event()

    def slow(fd: int) -> None:
        began.set()
        assert ends.wait(30)
        os.fsync(fd)

    rules = SpoolRules(fsync=Fsync.BATCH, sync_seconds=3600)
    spool = SpoolWriter(tmp_path, now=clock, rules=rules, fsync=slow)
    spool.append([interaction("a")])
    syncing = threading.Thread(target=spool.sync)
    syncing.start()
    assert began.wait(30)
    closing = threading.Thread(target=spool.close)
    closing.start()
    closing.join(0.2)
    assert closing.is_alive()
    ends.set()
    syncing.join()
    closing.join()
    assert ship(tmp_path, store.append, now=START).finished == 1


def test_usage_tells_what_waits_and_since_when(tmp_path: Path, clock: Clock, store: Store) -> None:
    spool = writer(tmp_path, clock)
    spool.append([interaction("a")])
    before = usage(tmp_path)
    assert before.waiting == before.total > 0
    assert before.oldest_waiting == START
    ship(tmp_path, store.append, now=START)
    after = usage(tmp_path)
    assert (after.waiting, after.oldest_waiting, after.total) == (0, None, before.total)


def test_an_unreadable_position_starts_over_instead_of_losing(
    tmp_path: Path, clock: Clock, store: Store
) -> None:
    writer(tmp_path, clock).append([interaction("a")])
    [segment] = segments(tmp_path)
    segment.with_suffix(".pos").write_bytes(b"{half")
    assert position_of(segment) == Position()
    ship(tmp_path, store.append, now=START)
    assert list(store.kept) == ["a"]


def test_a_record_that_the_store_refuses_holds_up_none_of_the_others(tmp_path: Path, clock: Clock) -> None:
    class Choosy(Store):
        def append(self, records: Sequence[Record]) -> int:
            for record in records:
                to_micros(record.at)  # as both record stores do
            return super().append(records)

    store = Choosy()
    bad = interaction("no zone", at=START.replace(tzinfo=None))
    spool = writer(tmp_path, clock)
    spool.append([interaction("a"), bad, interaction("b")])
    spool.close()
    shipped = ship(tmp_path, store.append, now=START)
    assert (list(store.kept), shipped.records, shipped.finished) == (["a", "b"], 2, 1)
    assert [damage.why for damage in shipped.damaged] == [
        "2026-12-01T08:00:00 has no zone; pass an aware time such as datetime.now(UTC)"
    ]
    assert position_of(segments(tmp_path)[0]).held, "the refused record stays until a person looked at it"
    assert ship(tmp_path, store.append, now=START).damaged == ()


def test_a_store_that_is_down_stops_the_shipping_and_moves_no_position(tmp_path: Path, clock: Clock) -> None:
    def down(_records: Sequence[Record]) -> int:
        raise StoreError("the disk is full")

    writer(tmp_path, clock).append([interaction("a")])
    with pytest.raises(StoreError, match="disk is full"):
        ship(tmp_path, down, now=START)
    assert position_of(segments(tmp_path)[0]) == Position()


@pytest.mark.parametrize("told", ['{"offset":-5}', '{"offset":99999999}', '{"offset":"x"}', "\xff"])
def test_a_position_that_cannot_be_true_ships_the_segment_from_its_start(
    tmp_path: Path, clock: Clock, store: Store, told: str
) -> None:
    spool = writer(tmp_path, clock)
    spool.append([interaction("a"), interaction("b")])
    spool.close()
    segments(tmp_path)[0].with_suffix(".pos").write_bytes(told.encode("latin-1"))
    ship(tmp_path, store.append, now=START)
    assert list(store.kept) == ["a", "b"]


def test_erased_records_leave_their_place_and_nothing_else(
    tmp_path: Path, clock: Clock, store: Store
) -> None:
    spool = writer(tmp_path, clock)
    spool.append([interaction(name) for name in names(6)])
    ship(tmp_path, store.append, now=clock())
    size = segments(tmp_path)[0].stat().st_size
    doomed = {"i-1", "i-4"}

    def refused(records: Sequence[Record]) -> frozenset[str]:
        return frozenset(one.record_id for one in records if one.record_id in doomed)

    assert erase(tmp_path, refused) == 2
    assert erase(tmp_path, refused) == 0
    data = segments(tmp_path)[0].read_bytes()
    assert (len(data), b"i-1" in data, b"i-4" in data, b"i-5" in data) == (size, False, False, True)
    # the writer that has the segment open goes on at its end, and what is shipped is the rest
    spool.append([interaction("i-6")])
    spool.close()
    late = Store()
    done = ship(tmp_path, late.append, now=clock())
    assert (sorted(late.kept), done.damaged, done.finished) == (["i-6"], (), 1)
    everything = Store()
    refill(tmp_path, everything.append)
    assert sorted(everything.kept) == ["i-0", "i-2", "i-3", "i-5", "i-6"]


@pytest.mark.parametrize("written", [0, 1, 20])
def test_an_erasure_cut_off_inside_a_record_is_finished_by_the_next(
    tmp_path: Path, clock: Clock, store: Store, written: int
) -> None:
    spool = writer(tmp_path, clock)
    spool.append([interaction(name) for name in names(3)])
    spool.close()
    path = segments(tmp_path)[0]
    data = bytearray(path.read_bytes())
    first, second, _ = (piece for piece in pieces(bytes(data)) if isinstance(piece, Frame))
    data[second.start : second.start + HEADER_BYTES] = blank_header(len(second.payload))
    begin = second.start + HEADER_BYTES
    data[begin : begin + written] = bytes(written)
    path.write_bytes(data)
    assert [type(piece) for piece in pieces(bytes(data))] == [Frame, Blank, Frame]
    erase(tmp_path, lambda _: frozenset())
    left = path.read_bytes()
    assert not any(left[begin : second.end])
    assert left[: first.end] == data[: first.end]
    assert ship(tmp_path, store.append, now=clock()).records == 2


@pytest.mark.parametrize("how", ["removed", "moved", "folder removed", "home removed"])
def test_a_spool_that_is_removed_under_a_running_app_loses_no_record_that_was_not_shipped(
    tmp_path: Path, clock: Clock, store: Store, how: str
) -> None:
    folder = tmp_path / "home" / "spool"
    spool = writer(folder, clock)
    spool.append([interaction("a"), interaction("b")])
    [segment] = segments(folder)
    if how == "removed":
        segment.unlink()
    elif how == "moved":
        (tmp_path / "home").rename(tmp_path / "elsewhere")
    else:
        shutil.rmtree(folder if how == "folder removed" else folder.parent)
    spool.append([interaction("c")])
    ship(folder, store.append, now=START)
    assert list(store.kept) == ["a", "b", "c"]
    assert (spool.counts.rescued, spool.counts.gaps) == (2, 0)
    assert folder.stat().st_mode & 0o077 == folder.parent.stat().st_mode & 0o077 == 0


def test_a_spool_that_is_removed_before_it_is_closed_is_written_again(
    tmp_path: Path, clock: Clock, store: Store
) -> None:
    spool = writer(tmp_path / "spool", clock)
    spool.append([interaction("a")])
    shutil.rmtree(tmp_path / "spool")
    spool.close()
    ship(tmp_path / "spool", store.append, now=START)
    assert list(store.kept) == ["a"]
    shutil.rmtree(tmp_path / "spool")
    spool.append([interaction("b")])
    assert [path.parent for path in segments(tmp_path / "spool")] == [tmp_path / "spool"]


def test_a_folder_that_cannot_be_made_again_counts_what_was_lost(
    tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    spool = writer(tmp_path / "spool", clock)
    spool.append([interaction("a"), interaction("b")])
    shutil.rmtree(tmp_path / "spool")
    (tmp_path / "spool").write_text("in the way")
    spool.append([interaction("c")])
    assert (spool.counts.rescued, spool.counts.gaps, spool.over) == (0, 3, True)
    assert "was removed" in caplog.text


def test_lost_records_are_counted_for_all_processes_and_over_restarts(tmp_path: Path, clock: Clock) -> None:
    for _ in range(2):
        spool = SpoolWriter(tmp_path, now=clock, rules=QUIET, write=Disk(room=100).write)
        spool.append([interaction("a"), interaction("b")])
        assert spool.over
        spool.close()
    assert gaps_of(tmp_path) == Gaps(4, START)
    (tmp_path / "gaps.bin").write_bytes(b"damaged")
    assert gaps_of(tmp_path) == Gaps()


def test_a_spool_has_room_again_as_soon_as_a_record_was_kept(tmp_path: Path, clock: Clock) -> None:
    disk = Disk(room=0)
    spool = SpoolWriter(tmp_path, now=clock, rules=QUIET, write=disk.write)
    spool.append([interaction("a")])
    assert spool.over
    disk.room = 10_000
    spool.append([interaction("b")])
    assert not spool.over


def test_only_an_operator_who_wants_it_has_calls_refused(tmp_path: Path, clock: Clock) -> None:
    for on_full in OnFull:
        spool = writer(tmp_path / on_full.value, clock, max_bytes=70_000, on_full=on_full)
        assert not spool.refuses
        with contextlib.suppress(SpoolFull):
            spool.append([interaction(name, text="x" * 1000) for name in names(60)])
        clock.forward(seconds=2)
        assert spool.refuses is (on_full is OnFull.REFUSE)


@pytest.mark.parametrize("lost", [(40, 60), (0, 60), (0, 1), (20, 25)])
def test_a_store_that_lost_rows_is_noticed_and_a_whole_one_is_left_alone(
    tmp_path: Path, clock: Clock, store: Store, lost: tuple[int, int]
) -> None:
    spool = writer(tmp_path, clock, segment_bytes=1_000_000)
    for name in names(60):
        spool.append([interaction(name, text="x" * 40_000)])
        clock.forward(seconds=1)
    ship(tmp_path, store.append, now=clock())
    spool.append([interaction("not shipped yet")])
    before = len(store.handed_over)
    assert not missed_rows(tmp_path, store.append)
    assert len(store.handed_over) - before < 40
    assert "not shipped yet" not in store.kept
    for name in names(60)[slice(*lost)]:
        del store.kept[name]
    assert missed_rows(tmp_path, store.append)
    refill(tmp_path, store.append)
    assert set(store.kept) >= set(names(60))


def test_the_reserve_is_for_envelopes_until_the_disk_has_room_again(
    tmp_path: Path, clock: Clock, store: Store
) -> None:
    disk = Disk(room=1_500)
    rules = SpoolRules(fsync=Fsync.NEVER, reserve_bytes=4096)
    spool = SpoolWriter(tmp_path, now=clock, rules=rules, write=disk.write)
    spool.append([interaction("a", text="x" * 1000)])

    def write(fd: int, data: bytes) -> int:
        if not (tmp_path / RESERVE).exists() and disk.room <= 1_500:
            disk.room = 4096  # the disk gets its reserve back when the file goes
        return disk.write(fd, data)

    spool._write = write
    for name in names(6, "b"):
        spool.append([interaction(name, text="x" * 1000)])
    clock.forward(seconds=2)
    disk.room = 100_000
    spool.append([interaction("c", text="x" * 1000)])
    assert (tmp_path / RESERVE).exists()
    ship(tmp_path, store.append, now=START)
    kept = [
        (r.record_id, len(r.messages[0].content)) for r in store.kept.values() if isinstance(r, Interaction)
    ]
    assert kept == [("a", 1000), *((name, 0) for name in names(6, "b")), ("c", 1000)]
