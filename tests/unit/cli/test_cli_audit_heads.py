"""`prx evolution audit verify` over a real installation that signs its heads."""

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path

import apsw
import pytest

from prx.cli.call import Outside
from prx.cli.program import main, wired
from prx.wiring.app import open_app

NOW = datetime(2026, 12, 1, 8, 0, tzinfo=UTC)
CONFIG = '[self_evolution.audit]\nhead_file = "{file}"\nhead_key = "env:HEAD_KEY"\n'


@pytest.fixture
def outside(tmp_path: Path) -> Outside:
    (tmp_path / "prx.toml").write_text(CONFIG.format(file=tmp_path / "second.jsonl"))
    env = {"PRX_HOME": str(tmp_path / "home"), "HEAD_KEY": "0123456789abcdef0123", "COLUMNS": "200"}
    env["PRX_CONFIG"] = str(tmp_path / "prx.toml")
    return Outside(wired, env, lambda: NOW, tmp_path)


def advance(outside: Outside) -> list[str]:
    """What the engine told of its heads."""
    app = open_app(env=outside.env, now=outside.now)
    with app.ledger.transaction(now=NOW, actor="test") as tx:
        tx.audit("note", "x", {})
    report = app.advance()
    app.close()
    return [f"{step.answer}: {step.why}" for step in report.steps if step.what == "audit_head"]


def test_verify_compares_the_heads_that_the_engine_signed(
    outside: Outside, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evolution", "audit", "verify"], outside) == 0
    assert "no head in" in capsys.readouterr().out
    shutil.copytree(tmp_path / "home", tmp_path / "older")
    (told,) = advance(outside)
    assert told.startswith("done: signed row ")
    assert main(["evolution", "audit", "verify"], outside) == 0
    out = capsys.readouterr().out
    assert "1 head in" in out
    assert "--head" not in out
    connection = apsw.Connection(str(tmp_path / "home" / "ledger.sqlite"))
    for statement in ("DROP TRIGGER audit_kept", "DELETE FROM audit_body", "DELETE FROM audit"):
        connection.execute(statement)
    connection.close()
    assert main(["evolution", "audit", "verify", "--json"], outside) == 1
    answer = json.loads(capsys.readouterr().out)
    assert (answer["whole"], answer["code"], answer["signed_heads"]) == (False, "audit_truncated", 1)


def test_an_older_copy_of_the_state_is_noticed_by_the_engine_and_by_verify(
    outside: Outside, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    advance(outside)
    shutil.copytree(tmp_path / "home", tmp_path / "older")
    second = tmp_path / "second.jsonl"
    app = open_app(env=outside.env, now=outside.now)
    with app.ledger.transaction(now=NOW, actor="test") as tx:
        for number in range(100):
            tx.audit("note", str(number), {})
    app.advance()
    app.close()
    assert len(second.read_text().splitlines()) == 2
    shutil.rmtree(tmp_path / "home")
    shutil.copytree(tmp_path / "older", tmp_path / "home")
    (told,) = advance(outside)
    assert told.startswith("error: the audit log does not hold row")
    assert "restored to an older state" in told
    assert main(["evolution", "audit", "verify"], outside) == 1
    assert "audit_truncated" in capsys.readouterr().out


def test_a_key_that_is_missing_or_short_stops_the_command_and_is_not_shown(
    outside: Outside, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    env = {name: value for name, value in outside.env.items() if name != "HEAD_KEY"}
    gone = Outside(wired, env, outside.now, tmp_path)
    assert main(["evolution", "audit", "verify"], gone) == 1
    assert "the environment has no HEAD_KEY" in capsys.readouterr().err
    short = Outside(wired, {**env, "HEAD_KEY": "hunter2"}, outside.now, tmp_path)
    assert main(["evolution", "audit", "verify"], short) == 1
    said = capsys.readouterr().err
    assert "16 characters or more" in said
    assert "hunter2" not in said


def test_a_store_address_that_is_wrong_or_missing_stops_the_command_and_is_not_shown(
    outside: Outside, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "prx.toml").write_text('[self_evolution.store]\nurl = "env:STATE_URL"\n')
    assert main(["evolution", "status"], outside) == 1
    assert "the environment has no STATE_URL" in capsys.readouterr().err
    wrong = Outside(wired, {**outside.env, "STATE_URL": "mysql://me:hunter2@db/x"}, outside.now, tmp_path)
    assert main(["evolution", "status"], wrong) == 1
    said = capsys.readouterr().err
    assert "begins with postgresql://" in said
    assert "hunter2" not in said
