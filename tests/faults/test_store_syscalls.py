"""A process killed before each of its writing system calls; needs strace."""

import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import apsw
import pytest

from prx.domain.answers import Passed
from prx.domain.ids import system_ids
from prx.domain.layers import Layer
from prx.ledger import open_sqlite, verify_chain
from prx.sqlite import Database, Schema

pytestmark = pytest.mark.full

NOW = datetime(2026, 12, 1, 8, 0, tzinfo=UTC)
CALLS = "pwrite64,write,fdatasync,fsync,ftruncate,unlink,rename"
PRELUDE = """
import sys
from datetime import UTC, datetime
from prx.domain.ids import system_ids
from prx.domain.versions import Manifest, MemoryState, PromptSet, Strategy, Version
from prx.ledger import open_sqlite
from prx.sqlite import Database, Schema
NOW = datetime(2026, 12, 1, 8, 0, tzinfo=UTC)
FIRST = ["CREATE TABLE thing (name TEXT)", "INSERT INTO thing VALUES ('apple')"]
SECOND = ["ALTER TABLE thing ADD COLUMN size INTEGER", "UPDATE thing SET size = LENGTH(name)"]
path, label = sys.argv[1:3]
"""
PROMOTE = """
ledger = open_sqlite(path, system_ids())
with ledger.transaction(now=NOW, actor="engine") as tx:
    texts = {f"prompt{n}": f"You help {n}, {label}. " * 50 for n in range(20)}
    manifest = Manifest(prompt=tx.put_part(PromptSet(texts=texts)), memory=tx.put_part(MemoryState()),
                        strategy=tx.put_part(Strategy()))
    tx.add_version(Version(snapshot_id=tx.ids.snapshot(NOW), agent="a", label=label, created_at=NOW,
                           manifest=manifest))
    before = tx.pointer("a")
    tx.point("a", label, expected=before and before.revision)
print("done", flush=True)
ledger.close()
"""
MIGRATE = """
Database(path, Schema("box", 42, (FIRST, SECOND)), full_sync=True).close()
print("done", flush=True)
"""


def run(script: str, path: Path, label: str, *tracing: str) -> "subprocess.CompletedProcess[str]":
    # CPython writes no bytecode here, so that the counted calls are the store's
    command = [sys.executable, "-B", "-c", PRELUDE + script, str(path), label]
    return subprocess.run([*tracing, *command], check=False, capture_output=True, text=True, timeout=120)


def calls_of(script: str, path: Path, label: str) -> dict[str, int]:
    """How often an undisturbed run makes each writing call."""
    log = path.with_name("calls.txt")
    done = run(script, path, label, "strace", "-f", "-qq", "-o", str(log), "-e", f"trace={CALLS}")
    assert done.stdout == "done\n", done.stderr
    made = re.findall(r"^\d+ +(\w+)\(", log.read_text(), re.MULTILINE)
    return {name: made.count(name) for name in set(made)}


def killed(script: str, path: Path, label: str, call: str, when: int) -> bool:
    """Run with a SIGKILL before the given call; True when the work was acknowledged all the same."""
    inject = ("-e", f"trace={call}", "-e", f"inject={call}:signal=SIGKILL:when={when}")
    done = run(script, path, label, "strace", "-f", "-qq", "-o", "/dev/null", *inject)
    return done.stdout == "done\n"


def points(counted: dict[str, int]) -> list[tuple[str, int]]:
    return [(call, when) for call, number in sorted(counted.items()) for when in range(1, number + 1)]


def check(path: Path) -> str | None:
    """What the agent serves, after every invariant was checked and one more transaction went through."""
    connection = apsw.Connection(str(path))
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    connection.close()
    ledger = open_sqlite(path, system_ids())
    with ledger.view() as view:
        assert isinstance(verify_chain(view.audit_rows()), Passed)
        pointer = view.pointer("a")
        kinds = [row.kind for row in view.audit_rows()]
        assert (
            kinds.count("version.added")
            == kinds.count("pointer.moved")
            == (pointer.revision if pointer else 0)
        )
        if pointer is not None:
            manifest = view.version("a", pointer.label).manifest
            for layer in Layer:
                view.part(manifest.part(layer))
    with ledger.transaction(now=NOW, actor="next") as tx:
        tx.audit("after", "x", {})
    ledger.close()
    return pointer.label if pointer else None


def copy_of(path: Path, folder: Path) -> Path:
    folder.mkdir()
    target = folder / path.name
    if path.exists():
        target.write_bytes(path.read_bytes())
    return target


@pytest.mark.parametrize("fresh", [True, False])
def test_a_promotion_killed_before_any_writing_call_is_wholly_old_or_wholly_new(
    tmp_path: Path, fresh: bool
) -> None:
    source = tmp_path / "ledger.sqlite"
    if not fresh:
        assert run(PROMOTE, source, "v1.0").stdout == "done\n"
    old, new = (None, "v1.0") if fresh else ("v1.0", "v1.1")
    counted = calls_of(PROMOTE, copy_of(source, tmp_path / "count"), new)
    assert counted["fdatasync"] >= 1
    assert counted["pwrite64"] >= 3
    for number, (call, when) in enumerate(points(counted)):
        path = copy_of(source, tmp_path / f"run{number}")
        acknowledged = killed(PROMOTE, path, new, call, when)
        if path.exists():
            assert check(path) in ({new} if acknowledged else {old, new}), (call, when)
        else:
            assert not acknowledged


def test_a_migration_killed_before_any_writing_call_is_old_or_new_and_can_be_run_again(
    tmp_path: Path,
) -> None:
    first = ["CREATE TABLE thing (name TEXT)", "INSERT INTO thing VALUES ('apple')"]
    second = ["ALTER TABLE thing ADD COLUMN size INTEGER", "UPDATE thing SET size = LENGTH(name)"]
    source = tmp_path / "box.sqlite"
    Database(source, Schema("box", 42, (first,)), full_sync=True).close()
    counted = calls_of(MIGRATE, copy_of(source, tmp_path / "count"), "-")
    for number, (call, when) in enumerate(points(counted)):
        path = copy_of(source, tmp_path / f"run{number}")
        killed(MIGRATE, path, "-", call, when)
        connection = apsw.Connection(str(path))
        found = connection.execute("SELECT * FROM thing").fetchall()
        schema = connection.pragma("user_version")
        connection.close()
        assert (schema, found) in [(1, [("apple",)]), (2, [("apple", 5)])], (call, when)
        database = Database(path, Schema("box", 42, (first, second)), full_sync=True)
        with database.reading() as work:
            assert work.rows("SELECT * FROM thing") == [("apple", 5)]
        database.close()
        kept = apsw.Connection(str(path.with_name("box.sqlite.schema-1")))
        assert kept.execute("SELECT * FROM thing").fetchall() == [("apple",)]
        kept.close()


SAY = """
from prx.domain.errors import StoreError
try:
    exec(sys.argv[3])
except StoreError as error:
    print(error, flush=True)
"""


@pytest.mark.parametrize(
    ("call", "error"), [("fdatasync", "EIO"), ("pwrite64", "EIO"), ("pwrite64", "ENOSPC")]
)
def test_a_promotion_whose_writes_fail_is_not_acknowledged_and_says_why(
    tmp_path: Path, call: str, error: str
) -> None:
    source = tmp_path / "ledger.sqlite"
    assert run(PROMOTE, source, "v1.0").stdout == "done\n"
    counted = calls_of(PROMOTE, copy_of(source, tmp_path / "count"), "v1.1")
    said = set[str]()
    for when in range(1, counted[call] + 1):
        path = copy_of(source, tmp_path / f"run{when}")
        inject = ("-e", f"trace={call}", "-e", f"inject={call}:error={error}:when={when}+")
        command = [sys.executable, "-B", "-c", PRELUDE + SAY, str(path), "v1.1", PROMOTE]
        done = subprocess.run(
            ["strace", "-f", "-qq", "-o", "/dev/null", *inject, *command],
            check=False,
            capture_output=True,
            text=True,
            timeout=120,
        )
        acknowledged = done.stdout.startswith("done")
        assert done.returncode == 0, done.stderr
        if not acknowledged:
            assert str(path) in done.stdout
            said.add(done.stdout)
        assert check(path) in ({"v1.1"} if acknowledged else {"v1.0", "v1.1"}), when
    assert said
    assert all("disk" in text for text in said)
