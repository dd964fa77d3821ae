"""The command line over the real application: stores on disk, the real engine, no model configured."""

import json
import random
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from evolved_world import NOW

from prx.cli.call import Outside
from prx.cli.program import main, wired

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: str, home: Path = tmp_path / "home") -> tuple[int, str, str]:
        capsys.readouterr()
        env = {"PRX_HOME": str(home), "USER": "ada", "HOME": str(tmp_path)}
        code = main(arguments, Outside(wired, env, lambda: NOW, tmp_path))
        out, err = capsys.readouterr()
        return code, out, err

    return run


def traffic(folder: Path) -> tuple[Path, float]:
    """A file of 30 sessions with told outcomes, and their mean outcome."""
    rng = random.Random(3)
    outcomes = [round(rng.random(), 3) for _ in range(30)]
    lines = []
    for number, outcome in enumerate(outcomes):
        at = (NOW - timedelta(hours=1 + number / 2)).isoformat()
        lines += [
            {"type": "interaction", "record_id": f"r{number}", "at": at, "session_id": f"s{number}",
             "response": "ok", "latency_ms": 500},
            {"type": "feedback", "record_id": f"f{number}", "at": at, "target_kind": "session",
             "target": f"s{number}", "name": "task_outcome", "value": outcome},
        ]  # fmt: skip
    file = folder / "traffic.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    return file, sum(outcomes) / len(outcomes)


def test_imported_outcomes_are_the_task_completion_and_what_is_missing_is_named(
    run: Run, tmp_path: Path
) -> None:
    file, mean = traffic(tmp_path)
    assert run("import", str(file))[0] == 0
    code, out, err = run("evolution", "fitness", "--breakdown", "--json")
    assert (code, err) == (0, "")
    shown = json.loads(out)
    assert shown["dimensions"]["task_completion"]["score"] == pytest.approx(mean)
    missing = {one["dimension"] for one in shown["missing"]}
    assert missing == {"response_relevance", "token_efficiency", "memory_precision", "user_satisfaction"}
    assert shown["sessions"] == 30


@pytest.mark.parametrize(
    "line",
    [
        "status", "history", "config", "decisions", "stats", "experiments", "fitness", "findings",
        "proposals", "versions", "incidents", "digest", "audit verify", "advance", "experiments plan",
    ],
)  # fmt: skip
def test_an_empty_installation_answers_every_question(run: Run, line: str) -> None:
    code, out, err = run("evolution", *line.split())
    assert (code, err) == (0, "")
    assert out.strip()


@pytest.mark.parametrize(
    "line", ["rollback", "experiments create --aa", "propose system --file traffic.jsonl"]
)
def test_what_cannot_be_done_yet_is_refused_with_the_next_step(run: Run, tmp_path: Path, line: str) -> None:
    traffic(tmp_path)
    words = [str(tmp_path / word) if word.endswith(".jsonl") else word for word in line.split()]
    code, out, err = run("evolution", *words)
    assert (code, out) == (1, "")
    assert err.startswith("prx: ")


def test_a_pause_is_kept_on_disk_and_in_the_audit_chain(run: Run) -> None:
    assert run("evolution", "pause", "--why", "release")[0] == 0
    assert "paused (release)" in run("evolution", "status")[1]
    code, out, _ = run("evolution", "audit", "verify", "--json")
    found = json.loads(out)
    assert (code, found["whole"]) == (0, True)
    assert found["rows"] > 0
    assert run("evolution", "audit", "verify", "--head", found["head"])[0] == 0


def test_a_damaged_store_or_a_place_that_cannot_be_is_exit_code_3(run: Run, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    (damaged / "ledger.sqlite").write_bytes(random.Random(1).randbytes(9000))
    file = tmp_path / "file"
    file.write_text("")
    for home in (damaged, file, file / "below"):
        code, out, err = run("evolution", "status", home=home)
        assert (code, out) == (3, "")
        assert err.startswith("prx: ")
        assert str(home) in err
