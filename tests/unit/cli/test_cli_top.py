"""init, config, import, export, doctor."""

import json
from pathlib import Path

import pytest
from cli_terminal import Terminal

from prx.settings import load


def test_the_starting_file_changes_nothing_until_a_key_is_uncommented(terminal: Terminal) -> None:
    assert terminal("init").code == 0
    path = terminal.folder / "prx.toml"
    assert load(path, env={}) == load(env={}, folder=terminal.folder / "elsewhere")
    text = path.read_text().replace("# min_sample_size = 100", "min_sample_size = 120")
    path.write_text(text)
    assert load(path, env={}).experiments.min_sample_size == 120


def test_init_does_not_replace_a_file_unless_told(terminal: Terminal) -> None:
    path = terminal.folder / "prx.toml"
    path.write_text("# mine\n")
    answer = terminal("init")
    assert (answer.code, path.read_text()) == (1, "# mine\n")
    assert "--force" in answer.err
    assert terminal("init", "--force").code == 0
    assert path.read_text() != "# mine\n"


def test_config_changes_the_file_and_shows_what_is_in_force(terminal: Terminal) -> None:
    path = terminal.folder / "prx.toml"
    path.write_text("# ours\n[self_evolution]\nenabled = false # for now\n")
    answer = terminal("evolution", "config", "--set", "l1.interval=7200", "--set", "enabled=true")
    assert answer.code == 0
    assert "enabled = true # for now" in path.read_text()
    assert path.read_text().startswith("# ours\n")
    shown = json.loads(terminal("evolution", "config", "--json").out)
    assert (shown["enabled"], shown["l1"]["schedule"]) == (True, "7200")


def test_config_and_doctor_read_and_change_the_file_of_the_state_folder_where_no_other_is(
    terminal: Terminal, tmp_path: Path
) -> None:
    home = tmp_path / "state"
    home.mkdir()
    own = home / "prx.toml"
    own.write_text("[self_evolution]\nauto_apply = true\n")
    place = ("--home", str(home))
    assert json.loads(terminal("evolution", "config", "--json", *place).out)["auto_apply"] is True
    assert str(own) in terminal("doctor", *place).out
    assert terminal("evolution", "config", "--set", "enabled=true", *place).code == 0
    assert own.read_text() == "[self_evolution]\nauto_apply = true\nenabled = true\n"
    assert not (terminal.folder / "prx.toml").exists()
    (terminal.folder / "prx.toml").write_text("")
    assert json.loads(terminal("evolution", "config", "--json", *place).out)["auto_apply"] is False


def test_a_named_file_is_made_by_the_first_key_set(terminal: Terminal) -> None:
    path = terminal.folder / "own.toml"
    assert terminal("evolution", "config", "--config", str(path), "--set", "l2.enabled=true").code == 0
    assert path.read_text() == "[self_evolution.l2]\nenabled = true\n"


def test_the_printed_configuration_is_a_file_that_can_be_read_again(terminal: Terminal) -> None:
    (terminal.folder / "prx.toml").write_text(
        '[self_evolution.metrics.refunds]\nbetter = "lower"\n'
        '[[self_evolution.gate.checks]]\nname = "lint"\ncommand = ["make", "lint"]\n'
        '[self_evolution.models.judge]\nbase_url = "http://x/v1"\nmodel = "m"\nkey = "s3cret"\n'
    )
    printed = terminal("evolution", "config").out
    assert "s3cret" not in printed
    again = terminal.folder / "again.toml"
    again.write_text(printed)
    first, second = load(env={}, folder=terminal.folder), load(again, env={})
    assert (first.metrics, first.gate, first.experiments) == (second.metrics, second.gate, second.experiments)


def test_sessions_and_records_are_exported_as_lines(terminal: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "scores.jsonl"
    assert json.loads(terminal("export", "scores", "--out", str(file), "--json").out)["rows"] == 120
    assert len([json.loads(line) for line in file.read_text().splitlines()]) == 120
    assert terminal("export", "scores", "--out", str(file)).code == 1
    lines = terminal("export", "decisions").out.splitlines()
    assert [json.loads(line)["agent"] for line in lines if "agent" in json.loads(line)] == []
    assert len(lines) == 7
    assert len(terminal("evolution", "audit", "export").out.splitlines()) > 20


def test_a_file_is_imported_once_and_its_bad_lines_are_named(terminal: Terminal, tmp_path: Path) -> None:
    rows = [
        {"type": "interaction", "record_id": "r1", "at": "2026-11-20T10:00:00Z", "session_id": "s",
         "response": "a"},
        {"type": "feedback", "record_id": "f1", "at": "2026-11-20T10:01:00Z", "target_kind": "session",
         "target": "s", "name": "thumb", "value": 1.0},
    ]  # fmt: skip
    file = tmp_path / "own.jsonl"
    file.write_text("\n".join([json.dumps(row) for row in rows] + ["{half a line"]))
    first = terminal("import", str(file), "--json")
    assert first.code == 0, first.err
    [result] = json.loads(first.out)
    assert (result["interactions"], result["feedback"], result["malformed"]) == (1, 1, 1)
    assert result["problems"][0]["line"] == 3
    [again] = json.loads(terminal("import", str(file), "--json").out)
    assert again["new"] == 0
    assert "Malformed:" in terminal("import", str(file), width=80).out


def test_of_several_files_the_good_ones_are_imported_and_the_bad_one_is_named(
    terminal: Terminal, tmp_path: Path
) -> None:
    row = {"type": "interaction", "record_id": "r", "at": "2026-11-20T10:00:00Z", "session_id": "s"}
    (tmp_path / "good.jsonl").write_text(json.dumps(row))
    answer = terminal("import", str(tmp_path / "gone.jsonl"), str(tmp_path / "good.jsonl"), "--json")
    assert answer.code == 1
    assert "gone.jsonl" in answer.err
    assert [one["new"] for one in json.loads(answer.out)] == [1]


def test_credentials_of_an_imported_file_do_not_reach_the_store(terminal: Terminal, tmp_path: Path) -> None:
    secret = "sk-proj-" + "a1B2" * 8
    rows = [
        {"type": "call", "session": "s", "id": "c", "response": f"use {secret}", "error": f"401 {secret}",
         "messages": [{"role": "user", "content": f"my key is {secret}"}]},
        {"type": "prompt_seen", "record_id": "p", "at": "2026-11-20T10:00:00Z", "agent": "default",
         "name": "system", "text": f"Call with {secret}"},
    ]  # fmt: skip
    file = tmp_path / "log.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    assert terminal("import", str(file)).code == 0
    stored = terminal("export", "sessions").out
    assert "my key is [redacted:provider-key]" in stored
    assert secret not in stored
    assert secret not in repr(terminal.world.records.prompts_seen(after=0, limit=10))


@pytest.mark.parametrize("name", ["gone.jsonl", "empty.jsonl"])
def test_a_file_without_records_is_refused(terminal: Terminal, tmp_path: Path, name: str) -> None:
    (tmp_path / "empty.jsonl").write_text("")
    answer = terminal("import", str(tmp_path / name))
    assert answer.code == 1
    assert name in answer.err


def test_doctor_names_versions_paths_stores_and_models(terminal: Terminal) -> None:
    rows = {row["check"]: row for row in json.loads(terminal("doctor", "--json").out)}
    own = {"versions", "configuration", "models", "spool", "home", "records", "agents", "audit chain"}
    assert set(rows) == own
    assert rows["agents"]["seen"] == "default v1.1"
    assert "120 sessions" in rows["records"]["seen"]
    assert {row["answer"] for row in rows.values()} == {"ok"}


def test_doctor_warns_of_a_missing_key(terminal: Terminal) -> None:
    (terminal.folder / "prx.toml").write_text('[self_evolution.models.judge]\nkey = "env:GONE"\n')
    assert "the environment has no GONE" in terminal("doctor").out
