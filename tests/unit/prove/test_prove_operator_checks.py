"""The operator's checks: exit codes, bounded output, death of the whole process group."""

import fcntl
import json
import sys
from pathlib import Path

from prove_world import NOW, add, proposal

from prx.domain.answers import Broken, Failed, NotEnoughData, Passed
from prx.domain.proposals import ProofStep
from prx.prove import OperatorCheck, overall, run_checks


def step(code: str, *arguments: str, timeout_s: float = 20.0, required: bool = True) -> ProofStep:
    command = (sys.executable, "-c", code, *arguments)
    check = OperatorCheck("mine", command, timeout_s, required)
    (found,) = run_checks([check], proposal(add("Be brief.")), {"triage": "text"}, NOW)
    return found


def test_the_exit_code_is_the_answer() -> None:
    steps = [step(f"raise SystemExit({code})") for code in (0, 1, 2, 3, 77)]
    assert [s.answer for s in steps] == ["pass", "fail", "not_enough_data", "error", "error"]
    assert steps[1].code == "operator_check"
    assert steps[0].name == "check.mine"


def test_what_it_says_is_kept_harmless_and_short() -> None:
    found = step("print('\\x1b[31mred\\x1b[0m ' + 'x' * 10_000_000)")
    assert found.answer == "pass"
    assert found.numbers["said"].startswith("red xxx")
    assert len(found.numbers["said"]) <= 200


def test_it_is_given_the_proposal_and_the_text_after_the_change(tmp_path: Path) -> None:
    copy = tmp_path / "given.json"
    step("import sys; open(sys.argv[1], 'wb').write(sys.stdin.buffer.read())", str(copy))
    given = json.loads(copy.read_bytes())
    assert given["proposal"]["proposal_id"] == "p1"
    assert given["texts"] == {"triage": "text"}


def test_nothing_in_a_command_reaches_a_shell(tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    step("pass", f"; touch {trap}", f"$(touch {trap})", f"`touch {trap}`")
    assert not trap.exists()


def test_a_check_that_hangs_is_killed_with_its_children_and_is_an_error(tmp_path: Path) -> None:
    """The child holds a lock on a file; once the group is dead, the lock is free."""
    held = tmp_path / "held"
    child = (
        "import fcntl, sys, time; f = open(sys.argv[1], 'w'); fcntl.flock(f, fcntl.LOCK_EX); "
        "print('locked', flush=True); time.sleep(600)"
    )
    parent = (
        "import subprocess, sys, time; "
        "p = subprocess.Popen([sys.executable, '-c', sys.argv[2], sys.argv[1]], "
        "stdout=subprocess.PIPE); print(p.stdout.readline().decode(), flush=True); time.sleep(600)"
    )
    found = step(parent, str(held), child, timeout_s=3.0)
    assert found.answer == "error"
    assert "did not end within 3 s and was killed: locked" in found.why
    with held.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_child_left_behind_by_a_check_that_ended_is_killed_too(tmp_path: Path) -> None:
    held = tmp_path / "held"
    child = (
        "import fcntl, sys, time; f = open(sys.argv[1], 'w'); fcntl.flock(f, fcntl.LOCK_EX); "
        "print('locked', flush=True); time.sleep(600)"
    )
    parent = (
        "import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', sys.argv[2], sys.argv[1]], "
        "stdout=subprocess.PIPE); p.stdout.readline()"
    )
    assert step(parent, str(held), child).answer == "pass"
    with held.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_command_that_does_not_exist_is_an_error_that_names_it() -> None:
    (found,) = run_checks([OperatorCheck("gone", ("/nope/check",))], proposal(add("x")), {}, NOW)
    assert found.answer == "error"
    assert "check gone could not start" in found.why
    (found,) = run_checks([OperatorCheck("void", ())], proposal(add("x")), {}, NOW)
    assert found.answer == "error"


def test_a_check_that_is_not_required_is_shown_but_decides_nothing() -> None:
    failing = step("raise SystemExit(1)", required=False)
    passing = step("pass")
    assert failing.answer == "fail"
    assert isinstance(overall([failing, passing]), Passed)
    assert isinstance(overall([failing]), NotEnoughData)
    assert isinstance(overall([step("raise SystemExit(1)"), passing]), Failed)
    assert isinstance(overall([step("raise SystemExit(9)"), passing]), Broken)
