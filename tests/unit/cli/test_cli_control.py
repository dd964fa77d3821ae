"""What a person says reaches the engine, and nothing else does."""

import json
from pathlib import Path

import pytest
from cli_terminal import Terminal

from prx.domain.errors import EvolutionError
from prx.domain.layers import Layer


@pytest.mark.parametrize(
    ("arguments", "given"),
    [
        ((), {"target": None, "layer": None, "snapshot": None}),
        (("v1.2",), {"target": "v1.2", "layer": None, "snapshot": None}),
        (("--layer", "prompt", "v1.1"), {"target": "v1.1", "layer": Layer.PROMPT, "snapshot": None}),
        (("--snapshot", "snap_1"), {"target": None, "layer": None, "snapshot": "snap_1"}),
        (
            ("--operation", "op-1", "v1.2"),
            {"target": "v1.2", "layer": None, "snapshot": None, "operation": "op-1"},
        ),
        (("--layer", "L3", "--yes"), {"target": None, "layer": Layer.STRATEGY, "snapshot": None}),
    ],
)
def test_rollback_has_five_spellings(
    terminal: Terminal, arguments: tuple[str, ...], given: dict[str, object]
) -> None:
    answer = terminal("evolution", "rollback", *arguments)
    assert (answer.code, terminal.engine.asked) == (
        0,
        [("rollback", {"agent": "default", "operation": None, **given})],
    )
    assert "v1.0 (was v1.1)" in answer.out


class TypedOnTerminal:
    """Standard input of a person at a terminal."""

    def __init__(self, text: str) -> None:
        self.lines = [text]

    def isatty(self) -> bool:
        return True

    def readline(self, _size: int = -1) -> str:
        return self.lines.pop(0) if self.lines else ""


@pytest.mark.parametrize(("typed", "code", "verbs"), [("y\n", 0, ["rollback"]), ("n\n", 130, [])])
def test_on_a_terminal_rollback_asks_first(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, typed: str, code: int, verbs: list[str]
) -> None:
    monkeypatch.setattr("sys.stdin", TypedOnTerminal(typed))
    answer = terminal("evolution", "rollback")
    assert (answer.code, [verb for verb, _ in terminal.engine.asked]) == (code, verbs)
    assert "serve v1.0 again instead of v1.1. Do it?" in answer.out + answer.err


@pytest.mark.parametrize("verb", ["approve", "reject", "confirm"])
def test_a_proposal_is_named_by_the_end_of_its_id(terminal: Terminal, verb: str) -> None:
    whole = terminal.world.ids["waiting"]
    answer = terminal("evolution", verb, whole[-8:])
    assert answer.code == 0
    [(asked, given)] = terminal.engine.asked
    assert (asked, given["proposal_id"]) == (verb, whole)


def test_the_person_is_named_to_the_engine(terminal: Terminal) -> None:
    terminal("evolution", "approve", terminal.world.ids["waiting"])
    assert terminal.engine.asked[0][1]["actor"] == "person:ada"
    terminal.env["PRX_ACTOR"] = "grace"
    terminal("evolution", "approve", terminal.world.ids["waiting"])
    assert terminal.engine.asked[1][1]["actor"] == "person:grace"


@pytest.mark.parametrize("verb", ["pause", "resume", "kill"])
def test_the_engine_is_paused_resumed_and_killed_with_a_reason(terminal: Terminal, verb: str) -> None:
    assert terminal("evolution", verb, "--why", "release").code == 0
    assert terminal.engine.asked == [(verb, {"agent": "default", "why": "release"})]


def test_a_prompt_is_proposed_from_a_file(terminal: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "new.txt"
    file.write_text("\ufeffAnswer in French.\n", encoding="utf-8")
    answer = terminal("evolution", "propose", "system", "--file", str(file), "--json")
    assert answer.code == 0
    assert terminal.engine.asked == [
        ("propose", {"agent": "default", "name": "system", "text": "Answer in French.\n"})
    ]
    assert json.loads(answer.out)["proposal"]["proposal_id"] == terminal.world.ids["won"]


@pytest.mark.parametrize(
    ("content", "part"),
    [(b"  \n", "holds no text"), (b"caf\xe9", "is not UTF-8"), (None, "cannot be read")],
)
def test_a_file_that_is_no_prompt_is_refused(
    terminal: Terminal, tmp_path: Path, content: bytes | None, part: str
) -> None:
    file = tmp_path / "new.txt"
    if content is not None:
        file.write_bytes(content)
    answer = terminal("evolution", "propose", "system", "--file", str(file))
    assert (answer.code, terminal.engine.asked) == (1, [])
    assert part in answer.err


@pytest.mark.parametrize(
    ("arguments", "given"),
    [
        ((), {"layer": Layer.MEMORY, "dry_run": False}),
        (("--level", "l2", "--dry-run"), {"layer": Layer.PROMPT, "dry_run": True}),
        (("-l", "Policy"), {"layer": Layer.STRATEGY, "dry_run": False}),
    ],
)
def test_trigger_runs_one_layer(
    terminal: Terminal, arguments: tuple[str, ...], given: dict[str, object]
) -> None:
    answer = terminal("evolution", "trigger", *arguments)
    assert (answer.code, terminal.engine.asked) == (0, [("trigger", {"agent": "default", **given})])
    assert "14 of 40 sessions, 100 needed" in answer.out


def test_experiments_are_cancelled_converged_and_created_by_name(terminal: Terminal) -> None:
    running = terminal.world.ids["running"]
    assert "cancelled" in terminal("evolution", "experiments", "cancel", running[-6:]).out
    terminal("evolution", "experiments", "converge", running)
    terminal("evolution", "experiments", "create", "--aa", "--layer", "l3")
    assert terminal.engine.asked == [
        ("cancel", {"experiment_id": running}),
        ("converge", {"experiment_id": running}),
        ("create_aa", {"agent": "default", "layer": Layer.STRATEGY}),
    ]


def test_an_experiment_on_a_change_is_not_created_by_hand(terminal: Terminal) -> None:
    answer = terminal("evolution", "experiments", "create")
    assert (answer.code, terminal.engine.asked) == (1, [])
    assert "prx evolution propose" in answer.err


def test_an_incident_is_acknowledged(terminal: Terminal) -> None:
    incident = terminal.world.ids["incident"]
    answer = terminal("evolution", "incidents", "ack", incident[-8:])
    assert terminal.engine.asked == [("acknowledge", {"agent": "default", "incident_id": incident})]
    assert "acknowledged 2026-11-20 12:00" in answer.out
    assert "Next:" in terminal("evolution", "incidents").out
    assert "Next:" not in answer.out


@pytest.mark.parametrize(
    "line", ["approve {waiting}", "rollback", "trigger", "pause", "experiments cancel {running}", "fitness"]
)
def test_what_the_engine_refuses_is_told_without_a_traceback(
    terminal: Terminal, refusal: EvolutionError, line: str
) -> None:
    terminal.engine.refuse = refusal
    answer = terminal("evolution", *(word.format_map(terminal.world.ids) for word in line.split()))
    assert (answer.code, answer.out, answer.err) == (1, "", f"prx: {refusal}\n")
    assert [app.closed for app in terminal.apps] == [1]
