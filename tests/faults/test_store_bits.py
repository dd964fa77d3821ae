"""Flipped bits, a cut log, copies made during writes: nothing false is ever handed out."""

import random
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest

from prx.domain.answers import Failed, Passed
from prx.domain.baselines import Baseline
from prx.domain.errors import EvolutionError, StoreError
from prx.domain.events import Control, Due, Event, EventName
from prx.domain.ids import Ids, system_ids
from prx.domain.layers import Layer
from prx.domain.versions import Manifest, MemoryState, PromptSet, Strategy, Version
from prx.ledger import Ledger, open_sqlite, verify_chain
from prx.sqlite import check_file, copy_file

FILES = 40
NOW = datetime(2026, 12, 1, 8, 0, tzinfo=UTC)


def promote(ledger: Ledger, number: int) -> None:
    with ledger.transaction(now=NOW + timedelta(minutes=number), actor="engine") as tx:
        texts = {f"prompt{n}": f"You help {n} in version {number}." for n in range(10)}
        manifest = Manifest(
            prompt=tx.put_part(PromptSet(texts=texts)),
            memory=tx.put_part(MemoryState()),
            strategy=tx.put_part(Strategy()),
        )
        label = f"v1.{number}"
        tx.add_version(
            Version(
                snapshot_id=tx.ids.snapshot(tx.now),
                agent="a",
                label=label,
                created_at=tx.now,
                manifest=manifest,
            )
        )
        before = tx.pointer("a")
        tx.point("a", label, expected=before and before.revision)
        tx.put(Due(due_id=f"due-{number}", agent="a", job="analyze", at=tx.now, runs=number))
        tx.emit(Event(event_id=f"e{number}", at=tx.now, agent="a", name=EventName.APPLIED, summary=label))


def everything(ledger: Ledger) -> Any:
    """All that a ledger can tell, verified on the way. Raises: EvolutionError for what is damaged."""
    with ledger.view() as view:
        rows = view.audit_rows()
        answer = verify_chain(rows)
        if isinstance(answer, Failed):
            raise StoreError(answer.why)
        versions = view.find(Version)
        parts = [view.part(version.manifest.part(layer)) for version in versions for layer in Layer]
        named = [view.version("a", version.label) for version in versions]
        dues = [view.get(Due, due.due_id) for due in view.find(Due)]
        rest = (view.find(Control), view.find(Baseline), view.agents(), view.events(), view.pointer("a"))
        return rows, versions, parts, named, dues, rest


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    path = tmp_path_factory.mktemp("bits") / "ledger.sqlite"
    ledger = open_sqlite(path, Ids(random.Random(5)))
    for number in range(8):
        promote(ledger, number)
    told = everything(ledger)
    ledger.close()
    return path, told


def told_by(path: Path) -> Any:
    """What the file tells, or the error with which it refuses."""
    ledger = None
    try:
        ledger = open_sqlite(path, system_ids())
        return everything(ledger)
    except EvolutionError as error:
        return error
    finally:
        if ledger is not None:
            ledger.close()


def flip(data: bytearray, rng: random.Random) -> None:
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def blank(data: bytearray, rng: random.Random) -> None:
    start = rng.randrange(len(data))
    data[start : start + 512] = bytes(len(data[start : start + 512]))


def swap(data: bytearray, rng: random.Random) -> None:
    one, other = (rng.randrange(len(data) // 512) * 512 for _ in range(2))
    data[one : one + 512], data[other : other + 512] = data[other : other + 512], data[one : one + 512]


@pytest.mark.parametrize("damage", [flip, blank, swap])
def test_damage_is_noticed_or_changes_nothing_that_is_told(
    filled: tuple[Path, Any], tmp_path: Path, damage: Callable[[bytearray, random.Random], None]
) -> None:
    source, truth = filled
    noticed = 0
    for seed in range(FILES):
        rng, data = random.Random(seed), bytearray(source.read_bytes())
        damage(data, rng)
        path = tmp_path / f"{seed}.sqlite"
        path.write_bytes(data)
        told = told_by(path)
        if isinstance(told, EvolutionError):
            noticed += 1
        elif told != truth:
            # a damaged index hides rows without any sign in the rows themselves; the full check finds it
            assert isinstance(check_file(path), Failed), seed
            noticed += 1
    assert noticed >= 5


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("UPDATE document SET body = replace(body, '\"runs\":3', '\"runs\":4')", "due 'due-3' is damaged"),
        ("UPDATE document SET state = 'other' WHERE kind = 'due'", "due 'due-0' is damaged"),
        ("UPDATE pointer SET revision = revision + 1", "pointer of agent 'a' is damaged"),
        ("UPDATE pointer SET label = 'v1.3', revision = revision + 1", "pointer of agent 'a' is damaged"),
    ],
)
def test_a_row_that_is_well_formed_and_false_is_refused(
    filled: tuple[Path, Any], tmp_path: Path, change: str, said: str
) -> None:
    path = tmp_path / "ledger.sqlite"
    copy_file(filled[0], path)
    connection = apsw.Connection(str(path))
    connection.execute(change)
    connection.close()
    told = told_by(path)
    assert isinstance(told, StoreError)
    assert said in str(told)
    assert isinstance(check_file(path), Passed)


def test_a_cut_log_leaves_whole_transactions_up_to_the_cut(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    ledger = open_sqlite(path, system_ids())
    promote(ledger, 0)
    ledger.close()
    ledger = open_sqlite(path, system_ids())
    for number in range(1, 4):
        promote(ledger, number)
    main, log = path.read_bytes(), path.with_name("ledger.sqlite-wal").read_bytes()
    ledger.close()
    frame = 4096 + 24
    cuts = [
        32 + frame * count + shift for count in range((len(log) - 32) // frame + 1) for shift in (-1, 0, 1)
    ]
    seen = set[int]()
    for cut in cuts:
        copy = tmp_path / f"cut{cut}" / "ledger.sqlite"
        copy.parent.mkdir()
        copy.write_bytes(main)
        copy.with_name("ledger.sqlite-wal").write_bytes(log[: max(cut, 0)])
        rows, versions, _, _, dues, rest = told_by(copy)
        assert len(versions) == len(dues) == len(rest[3]) == rest[4].revision == len(rows) // 3
        assert isinstance(check_file(copy), Passed)
        seen.add(len(versions))
    assert seen == {1, 2, 3, 4}


def test_a_copy_made_during_writes_is_whole_and_its_chain_is_valid(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    ledger = open_sqlite(path, system_ids(), busy_seconds=60)
    promote(ledger, 0)
    copied = threading.Event()

    def write() -> None:
        number = 1
        while not copied.is_set():
            promote(ledger, number)
            number += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(3):
            copy_file(path, tmp_path / f"copy{number}.sqlite")
    finally:
        copied.set()
        writer.join()
    for number in range(3):
        copy = tmp_path / f"copy{number}.sqlite"
        rows, versions, _, _, dues, rest = told_by(copy)
        assert len(versions) == len(dues) == rest[4].revision == len(rows) // 3
    ledger.close()


def test_a_copy_that_cannot_be_made_leaves_what_was_there(tmp_path: Path) -> None:
    target = tmp_path / "kept.sqlite"
    target.write_text("kept")
    with pytest.raises(StoreError, match="no such file"):
        copy_file(tmp_path / "nothing.sqlite", target)
    (tmp_path / "text.sqlite").write_text("no database " * 1000)
    with pytest.raises(StoreError, match="no SQLite database"):
        copy_file(tmp_path / "text.sqlite", target)
    assert target.read_text() == "kept"


def test_a_sound_file_passes_the_full_check(filled: tuple[Path, Any]) -> None:
    assert isinstance(check_file(filled[0]), Passed)
