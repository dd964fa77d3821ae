"""Mistakes get a message and an exit code, never a traceback."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from cli_terminal import Terminal

from prx.domain.errors import ModelUnavailable


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("evolution nonsense", "No such command 'nonsense'"),
        ("evolution statu", "status"),
        ("evolution history --limit 0", "0 is not in the range"),
        ("evolution history --level l9", "no layer is called 'l9'"),
        ("evolution decisions --last 5", "'5' is no duration"),
        ("evolution decisions --last 0d", "is no duration"),
        ("evolution decisions --last 100000d", "use at most 99999d"),
        ("evolution fitness --history --last 999999d", "use at most 99999d"),
        ("evolution decisions --verdict maybe", "'maybe' is not one of"),
        ("evolution experiments --details", "--details and --plot need --id"),
        ("evolution experiments --id {experiment} --plot picture.png", "must end in .svg"),
        ("evolution approve", "Missing argument"),
        ("evolution config --set l1.enabled", "is no KEY=VALUE"),
        ("evolution propose system", "Missing option '--file'"),
        ("evolution fitness --lang xx", "'xx' is not one of"),
        ("export nothing", "is not one of"),
    ],
)
def test_wrong_usage_is_exit_code_2(terminal: Terminal, line: str, part: str) -> None:
    answer = terminal(*(word.format_map(terminal.world.ids) for word in line.split()))
    assert (answer.code, answer.out) == (2, "")
    assert part in answer.err
    assert "Traceback" not in answer.err


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("evolution approve 0000-nope", "`prx evolution proposals` lists what there is"),
        ("evolution experiments --id 0000-nope", "`prx evolution experiments` lists"),
        ("evolution experiments cancel 0000-nope", "`prx evolution experiments` lists"),
        ("evolution decisions --id 0000-nope", "`prx evolution decisions` lists"),
        ("evolution findings --id 0000-nope", "`prx evolution findings` lists"),
        ("evolution incidents ack 0000-nope", "`prx evolution incidents` lists"),
        ("evolution versions show v9.9", "v9.9"),
        ("evolution versions diff v1.0 nope", "`prx evolution versions list` lists"),
        ("evolution status --agent nobody", "no agent is called 'nobody'; known agents: default"),
        ("evolution pause --agent nobody", "no agent is called 'nobody'"),
        ("evolution digest --date 2027-01-01", "is not here yet"),
        ("evolution digest --date yesterday", "is no time"),
        ("evolution audit verify --head 3", "is no head"),
        ("evolution config --set l1.enabld=true", "did you mean l1.enabled?"),
        ("evolution config --set fitness.weights.task_completion=0.15", "sum to 0.9"),
        ("evolution config --set experiments.traffic_split=-1", "allowed: a number above 0 and below 1"),
        ("evolution status --config gone.toml", "there is no file"),
    ],
)
def test_a_refusal_is_exit_code_1_and_says_what_to_do(terminal: Terminal, line: str, part: str) -> None:
    answer = terminal(*line.split())
    assert (answer.code, answer.out) == (1, "")
    assert part in answer.err
    assert answer.err.startswith("prx: ")
    assert terminal.engine.asked == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("evolution", "rollback", "", "--yes"),
        ("evolution", "rollback", " ", "--yes"),
        ("evolution", "rollback", "--snapshot", "", "--yes"),
        ("evolution", "kill", "--agent", ""),
        ("evolution", "advance", "--home", ""),
        ("evolution", "status", "--config", ""),
    ],
)
def test_an_unset_variable_of_a_script_does_not_act_on_something_else(
    terminal: Terminal, arguments: tuple[str, ...]
) -> None:
    answer = terminal(*arguments)
    assert (answer.code, answer.out) == (2, "")
    assert "empty" in answer.err
    assert terminal.engine.asked == []


@pytest.mark.parametrize("line", ["evolution decisions --tail", "evolution history --limit"])
def test_more_rows_than_any_store_holds_are_all_rows(terminal: Terminal, line: str) -> None:
    assert terminal(*line.split(), "9" * 23).out == terminal(*line.split(), "1000").out != ""


@pytest.mark.parametrize("character", ["\0", "\x1b", "\x9b"])
def test_a_prompt_with_control_characters_is_refused_with_its_line(
    terminal: Terminal, character: str
) -> None:
    file = terminal.folder / "new.txt"
    file.write_text(f"Help.\nBe {character}kind.\n", encoding="utf-8")
    answer = terminal("evolution", "propose", "system", "--file", str(file))
    assert answer.code == 1
    assert f"U+{ord(character):04X} in line 2" in answer.err
    assert terminal.engine.asked == []


def test_a_store_that_cannot_be_used_is_exit_code_3(terminal: Terminal) -> None:
    terminal.broken = "the ledger was written by a newer release; upgrade prx-evolution"
    answer = terminal("evolution", "status")
    assert (answer.code, answer.err) == (3, f"prx: {terminal.broken}\n")
    checked = terminal("doctor")
    assert checked.code == 3
    assert "newer release" in checked.out


def test_a_model_that_does_not_answer_is_exit_code_3(terminal: Terminal) -> None:
    terminal.engine.refuse = ModelUnavailable("the judge did not answer; nothing was decided")
    assert terminal("evolution", "trigger").code == 3


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device", "/data/x"), PermissionError(13, "no", "/x")]
)
def test_a_full_or_closed_disk_is_named(terminal: Terminal, error: OSError) -> None:
    terminal.engine.refuse = error
    answer = terminal("evolution", "advance")
    assert answer.code == 3
    assert str(error.filename) in answer.err
    assert "free space" in answer.err


def test_control_c_ends_quietly(terminal: Terminal) -> None:
    terminal.engine.refuse = KeyboardInterrupt()  # type: ignore[assignment]
    answer = terminal("evolution", "advance")
    assert answer.code == 130
    assert "Traceback" not in answer.err
    assert [app.closed for app in terminal.apps] == [1]


def test_a_changed_audit_log_is_exit_code_1(terminal: Terminal) -> None:
    answer = terminal("evolution", "audit", "verify", "--head", f"999:{'0' * 64}")
    assert answer.code == 1
    assert "NOT WHOLE (audit_truncated)" in answer.out


def test_a_bad_configuration_is_told_line_by_line(terminal: Terminal) -> None:
    text = "[self_evolution.l2]\nmin_sample = 3\nschedule = 'never'\n"
    (terminal.folder / "prx.toml").write_text(text)
    answer = terminal("evolution", "status")
    assert answer.code == 1
    assert "prx.toml:2: unknown key l2.min_sample; did you mean min_samples?" in answer.err
    assert "prx.toml:3: l2.schedule" in answer.err


def test_help_is_exit_code_0(terminal: Terminal) -> None:
    answer = terminal("evolution", "rollback", "-h")
    assert (answer.code, answer.err) == (0, "")
    assert "--snapshot" in answer.out


def test_a_reader_that_leaves_is_no_error(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "prx.cli", "evolution", "config"]
    env = {**os.environ, "PRX_HOME": str(tmp_path)}
    with os.fdopen(writing, "wb") as gone:
        done = subprocess.run(
            command, stdout=gone, stderr=subprocess.PIPE, text=True, env=env, cwd=tmp_path, check=False
        )
    assert (done.returncode, done.stderr) == (141, "")


def test_listing_and_help_load_neither_engine_nor_numbers(tmp_path: Path) -> None:
    code = "import sys, prx.cli.program; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    heavy = {"numpy", "scipy", "rich", "prx.wiring.app", "prx.engine.engine", "prx.demo.run"}
    assert heavy & set(done.stdout.split()) == set()


def test_an_interrupt_while_loading_is_quiet_too() -> None:
    code = (
        "import sys\n"
        "class Interrupted:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'prx.cli.program': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupted())\n"
        "from prx.cli.main import run\n"
        "run()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "prx: interrupted\n")
