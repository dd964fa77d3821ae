"""`prx doctor` says what is damaged, and its exit code says so to scripts."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from prx.cli.call import Outside
from prx.cli.program import main
from prx.domain.records import Interaction, SessionStart
from prx.spool.folder import Position, position_of, segments, set_position
from prx.spool.gaps import count_gap
from prx.spool.rules import SpoolRules
from prx.spool.writer import SpoolWriter
from prx.wiring.app import open_app
from prx.wiring.paths import ledger_file, records_file, spool_folder

NOW = datetime(2026, 12, 1, 9, tzinfo=UTC)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A state folder with a ledger, 2,000 stored records and a committed segment."""
    folder = tmp_path / "home"
    spool = SpoolWriter(spool_folder(folder), now=lambda: NOW, rules=SpoolRules(reserve_bytes=0))
    start = SessionStart(record_id="s", at=NOW, session_id="s")
    calls = [Interaction(record_id=f"i-{n}", at=NOW, session_id="s", response="x" * 300) for n in range(2000)]
    spool.append([start, *calls])
    spool.close()
    app = open_app(home=folder, env={}, now=lambda: NOW)
    app.advance()
    app.close()
    return folder


def doctor(home: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    outside = Outside(open_app, {"USER": "ada", "PRX_HOME": str(home)}, lambda: NOW, home.parent)
    code = main(["doctor", "--json"], outside)
    rows = json.loads(capsys.readouterr().out)
    return code, {row["check"]: row for row in rows}


def test_a_whole_installation_is_ok(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, rows = doctor(home, capsys)
    assert code == 0
    assert {rows[name]["answer"] for name in ("spool", "ledger file", "records file")} == {"ok"}
    assert "2001 records" in rows["spool"]["seen"]


@pytest.mark.parametrize("name", ["ledger file", "records file"])
def test_a_damaged_page_of_a_database_is_found_wherever_it_is(
    home: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    path = (ledger_file if name == "ledger file" else records_file)(home)
    content = bytearray(path.read_bytes())
    for page in range(4096 * 5, len(content), 4096):
        content[page : page + 200] = b"\xa5" * 200
    path.write_bytes(bytes(content))
    code, rows = doctor(home, capsys)
    assert code == 3
    assert rows[name]["answer"] == "failed"
    assert "prx restore" in rows[name]["seen"]
    assert rows["spool"]["answer"] == "ok"


def test_a_damaged_segment_is_found_though_it_was_shipped_before(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    [segment] = segments(spool_folder(home))
    content = bytearray(segment.read_bytes())
    content[len(content) // 2] ^= 0xFF
    segment.write_bytes(bytes(content))
    code, rows = doctor(home, capsys)
    assert code == 3
    assert rows["spool"]["answer"] == "failed"
    assert segment.name in rows["spool"]["seen"]


def test_records_that_were_refused_fail_and_those_that_were_lost_warn(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    count_gap(spool_folder(home), NOW, 7)
    code, rows = doctor(home, capsys)
    assert (code, rows["spool"]["answer"]) == (0, "warning")
    assert "7 records could not be kept" in rows["spool"]["seen"]
    [segment] = segments(spool_folder(home))
    known = position_of(segment)
    set_position(segment, Position(offset=known.offset, committed_at=known.committed_at, held=True))
    code, rows = doctor(home, capsys)
    assert (code, rows["spool"]["answer"]) == (3, "failed")


def test_a_store_that_lost_rows_is_filled_again_from_the_spool(home: Path) -> None:
    records_file(home).unlink()
    for suffix in ("-wal", "-shm"):
        records_file(home).with_name(f"records.sqlite{suffix}").unlink(missing_ok=True)
    app = open_app(home=home, env={}, now=lambda: NOW)
    try:
        assert app.records.counts()["interactions"] == 0
        report = app.advance()
        assert app.records.counts()["interactions"] == 2000
        assert [step.why for step in report.steps if step.what == "refill"] == [
            "the store had lost rows: 2001 are back"
        ]
        assert not any(step.what == "refill" for step in app.advance().steps)
    finally:
        app.close()
