"""Backups made while others write, and restores that are whole or do not happen."""

import json
import random
import shutil
import stat
import subprocess
import sys
import tarfile
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path

import apsw
import msgspec
import pytest

from prx.cli.call import Outside
from prx.cli.program import main, wired
from prx.domain.answers import Passed
from prx.domain.errors import EvolutionError, InvalidInput, StoreError, StoreTooNew
from prx.domain.events import Due, Event, EventName
from prx.domain.ids import system_ids
from prx.domain.records import SessionStart
from prx.gateway.prompts.store import Learned, PromptFiles
from prx.ledger import open_sqlite, verify_chain
from prx.records import open_sqlite as open_records
from prx.settings import Settings
from prx.settings.schema import DecisionDatabase, DecisionLog, Store
from prx.wiring.app import open_app
from prx.wiring.archive import fingerprint, unpack, write
from prx.wiring.backup import BackedUp, Restored, back_up, restore

NOW = datetime(2026, 12, 1, 8, 0, tzinfo=UTC)
LATER = NOW + timedelta(days=1)
WRITER = """
import sys
from datetime import UTC, datetime
import prx
from prx.domain.events import Due
from prx.domain.ids import system_ids
from prx.ledger import open_sqlite
from prx.wiring.app import open_app
from prx.wiring.archive import fingerprint, unpack, write
from pathlib import Path
home = Path(sys.argv[1])
app = open_app(home=home, config=None, env={}, durable=False)
evolution = prx.open(home, env={})
for number in range(100000):
    with app.ledger.transaction(now=datetime.now(UTC), actor="w") as tx:
        tx.put(Due(due_id=f"{number}-a", agent="w", job="a", at=tx.now))
        tx.audit("pair", "w", {"number": number})
        tx.put(Due(due_id=f"{number}-b", agent="w", job="b", at=tx.now))
    with evolution.session(user="u", ref=f"r{number}"):
        pass
    evolution.flush()
    print(number, flush=True)
    if number % 3 == 0:
        app.ship()
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A state folder with a little of everything."""
    folder = tmp_path / "home"
    app = open_app(home=folder, env={}, settings=Settings())
    with app.ledger.transaction(now=NOW, actor="test") as tx:
        tx.put(Due(due_id="d", agent="a", job="j", at=NOW))
        tx.audit("note", "first", {})
        tx.emit(Event(event_id="e", at=NOW, agent="a", name=EventName.ALERT, summary="s"))
    app.records.append([SessionStart(record_id="r", at=NOW, session_id="s")])
    app.close()
    (folder / "spool").mkdir(exist_ok=True)
    (folder / "spool" / "one.seg").write_bytes(b"segment")
    (folder / "spool" / "one.pos").write_bytes(b"{}")
    (folder / "spool" / "reserve.bin").write_bytes(bytes(100))
    (folder / "secret.key").write_text("s" * 40)
    return folder


def backed_up(home: Path, target: Path, **given: object) -> BackedUp:
    options = {"settings": Settings(), "ids": system_ids(), "now": NOW, "force": False, **given}
    return back_up(home, target=target, **options)  # type: ignore[arg-type]


def restored(source: Path, home: Path, *, force: bool = False) -> Restored:
    return restore(source, home, ids=system_ids(), now=LATER, actor="person:ada", force=force)


def content(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_what_comes_back_is_what_was_there_and_its_numbers_go_on(home: Path, tmp_path: Path) -> None:
    made = backed_up(home, tmp_path / "b.tar")
    assert (made.sessions, made.audit_rows) == (1, 1)
    assert stat.S_IMODE((tmp_path / "b.tar").stat().st_mode) == 0o600
    other = tmp_path / "other"
    done = restored(tmp_path / "b.tar", other)
    assert (done.made_at, done.set_aside, done.audit_rows) == (NOW, None, 2)
    assert stat.S_IMODE(other.stat().st_mode) == 0o700
    assert (other / "spool" / "one.seg").read_bytes() == b"segment"
    assert (other / "secret.key").read_text() == "s" * 40
    assert not (other / "spool" / "reserve.bin").exists()
    ledger, records = (
        open_sqlite(other / "ledger.sqlite", system_ids()),
        open_records(other / "records.sqlite"),
    )
    with ledger.transaction(now=LATER, actor="x") as tx:
        rows = tx.audit_rows()
        assert [(row.seq, row.kind, row.actor) for row in rows] == [
            (1, "note", "test"),
            (2, "store.restored", "person:ada"),
        ]
        assert json.loads(rows[1].body or "") == {"head": made.audit_head, "made_at": NOW.isoformat()}
        assert isinstance(verify_chain(rows), Passed)
        assert tx.get(Due, "d").job == "j"
        assert tx.emit(Event(event_id="f", at=NOW, agent="a", name=EventName.ALERT, summary="s")) == 2
    assert records.append([SessionStart(record_id="r", at=NOW, session_id="s")]) == 0
    ledger.close()
    records.close()


def test_a_backup_during_writes_is_consistent_and_loses_nothing_acknowledged(tmp_path: Path) -> None:
    home = tmp_path / "home"
    child = subprocess.Popen([sys.executable, "-c", WRITER, str(home)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    try:
        for attempt in range(3):
            acknowledged = [int(child.stdout.readline()) for _ in range(10)][-1]
            file, other = tmp_path / f"{attempt}.tar", tmp_path / f"restored-{attempt}"
            backed_up(home, file)
            restored(file, other)
            app = open_app(home=other, env={}, settings=Settings())
            app.ship()
            with app.ledger.view() as view:
                rows, first, second = view.audit_rows(), view.find(Due, state="a"), view.find(Due, state="b")
            assert len(first) == len(second) == len(rows) - 1 > acknowledged
            assert isinstance(verify_chain(rows), Passed)
            refs = {trace.start.ref for trace in app.records.traces()}
            assert {f"r{number}" for number in range(acknowledged + 1)} <= refs
            app.close()
    finally:
        child.kill()
        child.communicate()


def test_a_folder_in_use_is_refused_and_set_aside_by_force(home: Path, tmp_path: Path) -> None:
    backed_up(home, tmp_path / "b.tar")
    (home / "new").write_text("written after the backup")
    before = content(home)
    with pytest.raises(InvalidInput, match=r"is not empty; nothing was restored.*--force"):
        restored(tmp_path / "b.tar", home)
    assert content(home) == before
    done = restored(tmp_path / "b.tar", home, force=True)
    assert done.set_aside is not None
    assert content(Path(done.set_aside)) == before
    assert not (home / "new").exists()
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(["b.tar", "home", Path(done.set_aside).name])


def test_a_process_that_has_the_old_state_open_is_told_to_restart(home: Path, tmp_path: Path) -> None:
    backed_up(home, tmp_path / "b.tar")
    ledger = open_sqlite(home / "ledger.sqlite", system_ids())
    restored(tmp_path / "b.tar", home, force=True)
    with pytest.raises(StoreError, match="was replaced by another file"), ledger.view():
        pass
    ledger.close()


def test_an_empty_folder_is_filled(home: Path, tmp_path: Path) -> None:
    made = backed_up(home, tmp_path / "b.tar")
    (tmp_path / "empty").mkdir()
    assert restored(tmp_path / "b.tar", tmp_path / "empty").files == made.files
    databases = sorted(path.name for path in (tmp_path / "empty").glob("*.sqlite"))
    assert databases == sorted(path.name for path in home.glob("*.sqlite"))


@pytest.mark.parametrize("seed", range(8))
def test_a_damaged_backup_restores_nothing_or_the_truth(home: Path, tmp_path: Path, seed: int) -> None:
    file = tmp_path / "b.tar"
    backed_up(home, file)
    good, other = file.read_bytes(), tmp_path / "other"
    restored(file, other)
    truth = {name: body for name, body in content(other).items() if not name.startswith("ledger")}
    shutil.rmtree(other)
    rng, refused = random.Random(seed), 0
    for _ in range(6):
        bad = bytearray(good)
        for _ in range(rng.choice([1, 1, 20])):
            bad[rng.randrange(len(bad))] ^= 1 << rng.randrange(8)
        file.write_bytes(bad[: rng.randrange(len(bad))] if rng.random() < 0.3 else bad)
        error = refusal(file, other)
        if error is not None:
            refused += 1
            assert "nothing was" in str(error)
            assert not other.exists()
        else:  # a flip in the padding between two files changes nothing
            found = content(other)
            assert {name: body for name, body in found.items() if not name.startswith("ledger")} == truth
            shutil.rmtree(other)
    assert refused > 0
    assert {p.name for p in tmp_path.iterdir()} == {"b.tar", "home"}


def refusal(file: Path, home: Path) -> EvolutionError | None:
    try:
        restored(file, home)
    except EvolutionError as error:
        return error
    return None


def rewritten(file: Path, change: "dict[str, bytes | None]") -> None:
    """The tar with other contents of some members, hashes left as they were."""
    with tarfile.open(file) as tar:
        kept = {one.name: content.read() for one in tar if (content := tar.extractfile(one)) is not None}
    with tarfile.open(file, "w") as tar:
        for name, body in {**kept, **change}.items():
            if body is not None:
                member = tarfile.TarInfo(name)
                member.size = len(body)
                tar.addfile(member, BytesIO(body))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"secret.key": b"another"}, "secret.key is not what the manifest says"),
        ({"secret.key": None}, "does not hold exactly what its manifest says"),
        ({"extra": b"x"}, "does not hold exactly what its manifest says"),
        ({"../outside": b"x"}, "which no backup holds"),
        ({"/etc/outside": b"x"}, "which no backup holds"),
        ({"manifest.json": b"{}"}, "its manifest was changed"),
        ({"manifest.json": None}, "has no manifest"),
    ],
)
def test_a_changed_backup_is_named_for_what_it_is(
    home: Path, tmp_path: Path, change: "dict[str, bytes | None]", said: str
) -> None:
    backed_up(home, tmp_path / "b.tar")
    rewritten(tmp_path / "b.tar", change)
    with pytest.raises(InvalidInput, match=said):
        restored(tmp_path / "b.tar", tmp_path / "other")
    assert not (tmp_path / "other").exists()
    assert not (tmp_path / "outside").exists()


@pytest.mark.parametrize("database", ["ledger.sqlite", "records.sqlite"])
def test_a_backup_of_a_newer_schema_is_refused_before_anything_is_written(
    home: Path, tmp_path: Path, database: str
) -> None:
    backed_up(home, tmp_path / "b.tar")
    shutil.copytree(home, tmp_path / "newer")
    raw(tmp_path / "newer" / database, "PRAGMA user_version = 99")
    with pytest.raises(StoreTooNew, match="schema 99"):
        backed_up(tmp_path / "newer", tmp_path / "c.tar")
    assert not (tmp_path / "c.tar").exists()
    # a newer release made the backup: its hashes are true
    unpacked = tmp_path / "unpacked"
    manifest = unpack(tmp_path / "b.tar", unpacked)
    raw(unpacked / database, "PRAGMA user_version = 99")
    files = {name: unpacked / name for name in manifest.files}
    hashes = {name: fingerprint(path) for name, path in files.items()}
    write(tmp_path / "d.tar", files, msgspec.structs.replace(manifest, files=hashes))
    with pytest.raises(StoreTooNew, match="schema 99"):
        restored(tmp_path / "d.tar", tmp_path / "other")
    assert not (tmp_path / "other").exists()


def raw(path: Path, sql: str) -> None:
    connection = apsw.Connection(str(path))
    connection.execute(sql)
    connection.close()


def test_a_state_whose_audit_log_was_changed_is_not_backed_up(home: Path, tmp_path: Path) -> None:
    raw(home / "ledger.sqlite", "DROP TRIGGER audit_fixed")
    raw(home / "ledger.sqlite", "UPDATE audit SET actor = 'me'")
    with pytest.raises(InvalidInput, match=r"audit row 1 .*was edited; nothing was written"):
        backed_up(home, tmp_path / "b.tar")
    assert not (tmp_path / "b.tar").exists()


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("home/b.tar", "in the state folder itself"),
        ("nowhere/b.tar", "does not exist"),
        ("there", "is there already"),
    ],
)
def test_a_target_that_cannot_be_is_refused(home: Path, tmp_path: Path, target: str, said: str) -> None:
    (tmp_path / "there").write_text("mine")
    with pytest.raises(InvalidInput, match=said):
        backed_up(home, tmp_path / target)
    assert (tmp_path / "there").read_text() == "mine"
    backed_up(home, tmp_path / "there", force=True)


def test_a_ledger_under_another_name_comes_back_under_it(tmp_path: Path) -> None:
    settings = Settings(decision_log=DecisionLog(database=DecisionDatabase(path="log/decisions.db")))
    (tmp_path / "home" / "log").mkdir(parents=True)
    app = open_app(home=tmp_path / "home", env={}, settings=settings)
    with app.ledger.transaction(now=NOW, actor="test") as tx:
        tx.audit("note", "mine", {})
    backed_up(tmp_path / "home", tmp_path / "b.tar", settings=settings)
    app.close()
    restored(tmp_path / "b.tar", tmp_path / "other")
    app = open_app(home=tmp_path / "other", env={}, settings=settings)
    with app.ledger.view() as view:
        assert [row.kind for row in view.audit_rows()] == ["note", "store.restored"]
    app.close()
    assert not (tmp_path / "other" / "ledger.sqlite").exists()


def test_a_ledger_outside_of_the_state_folder_is_said_not_skipped(home: Path, tmp_path: Path) -> None:
    outside = DecisionDatabase(path=str(tmp_path / "elsewhere.db"))
    with pytest.raises(InvalidInput, match=r"elsewhere\.db, outside of .*nothing was written"):
        backed_up(home, tmp_path / "b.tar", settings=Settings(decision_log=DecisionLog(database=outside)))


def test_a_store_in_postgres_is_refused_with_the_command_to_run(home: Path, tmp_path: Path) -> None:
    settings = Settings(store=Store(url="postgresql://prx:wrong-secret@db.local:5433/state"))
    with pytest.raises(InvalidInput, match="pg_dump --format=custom") as caught:
        backed_up(home, tmp_path / "b.tar", settings=settings)
    assert "'postgresql://prx@db.local:5433/state'" in str(caught.value)
    assert "wrong-secret" not in str(caught.value)


@pytest.fixture
def outside(home: Path, tmp_path: Path) -> Outside:
    def refused(**_: object) -> object:
        raise AssertionError("backup and restore open no installation")

    environment = {"PRX_HOME": str(home), "PRX_ACTOR": "ada"}
    return Outside(refused, environment, lambda: NOW, tmp_path)  # type: ignore[arg-type]


def test_the_commands_answer_as_text_and_as_json(
    outside: Outside, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["backup", "b.tar"], outside) == 0
    assert f"{tmp_path}/b.tar" in capsys.readouterr().out
    assert main(["backup", "b.tar"], outside) == 1
    assert "--force" in capsys.readouterr().err
    assert main(["restore", "b.tar"], outside) == 1
    assert "is not empty; nothing was restored" in capsys.readouterr().err
    assert main(["restore", "b.tar", "--home", str(tmp_path / "new"), "--json"], outside) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["home"], told["set_aside"]) == (str(tmp_path / "new"), None)
    assert main(["restore", "none.tar"], outside) == 1
    assert main(["backup", "x.tar", "--home", str(tmp_path / "void")], outside) == 3
    assert "nothing to back up" in capsys.readouterr().err


def test_learned_and_accepted_prompts_come_back(home: Path, tmp_path: Path) -> None:
    files = PromptFiles(home)
    files.learn(lambda _known: Learned(agent="default", name="system", text="Be brief."))
    kept = files.accept("default", "system", new_name="support", now=NOW, by="ada")
    backed_up(home, tmp_path / "b")
    restored(tmp_path / "b", tmp_path / "new")
    assert PromptFiles(tmp_path / "new").accepted() == (kept,)
    assert len(PromptFiles(tmp_path / "new").learned()) == 1


def test_a_restore_says_which_erasures_it_undid(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    app = open_app(home=home, env={}, settings=Settings())
    app.records.append([SessionStart(record_id="a", at=NOW, session_id="of-ann", user="ann")])
    app.close()
    outside = Outside(wired, {"PRX_HOME": str(home)}, lambda: NOW, tmp_path)
    backed_up(home, tmp_path / "before")
    assert main(["erase", "--user", "ann", "--yes"], outside) == 0
    backed_up(home, tmp_path / "after")
    capsys.readouterr()
    assert main(["restore", "before", "--force"], outside) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "1 erasure since the backup came undone (2026-12-01 08:00 UTC): repeat `prx erase`" in said
    assert main(["erase", "--user", "ann", "--yes"], outside) == 0
    assert restored(tmp_path / "after", tmp_path / "fresh").erase_again == ()
