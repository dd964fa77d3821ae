"""`prx demo` through the command line: what it prints, that it repeats, and that its state can be used."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from prx.demo.run import run
from prx.domain.errors import InvalidInput
from prx.domain.times import parse_time

NOW = parse_time("2026-05-04T09:00:00Z")
LATER = parse_time("2026-12-11T23:40:00Z")
KEYS = (
    "sessions",
    "interactions",
    "findings",
    "proposals",
    "experiments",
    "decisions",
    "versions",
    "promotions",
    "rollbacks",
)
TRUTHS = ("true_fitness_start_known_only_to_the_simulation", "true_fitness_end_known_only_to_the_simulation")
ENDINGS = (
    "promotions_L1",
    "promotions_L2",
    "promotions_L3",
    "experiments_lost",
    "experiments_undecided",
    "rollbacks",
    "rejected",
)
COMMANDS = ("status", "fitness", "experiments", "decisions", "versions", "incidents")


def prx(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "prx.cli", *arguments],
        env={**os.environ, "PRX_HOME": str(home), "PYTHONWARNINGS": "default"},
        cwd=home.parent,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )


def check_json(result: dict[str, Any]) -> None:
    assert result["simulated"] is True
    assert all(isinstance(result[key], int) for key in KEYS)
    assert all(isinstance(result[key], float) for key in ("fitness_start", "fitness_end", *TRUTHS))


def test_a_short_demo_prints_json_and_leaves_a_state_that_every_command_reads(tmp_path: Path) -> None:
    home = tmp_path / "home"
    done = prx(home, "demo", "--seed", "3", "--days", "4", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    check_json(result)
    assert result["seed"] == 3
    assert result["home"] == str(home)
    assert result["sessions"] > 300
    assert max(map(len, done.stderr.splitlines())) <= 80 + len(str(home))
    for command in COMMANDS:
        looked = prx(home, "evolution", command, "--json")
        assert looked.returncode == 0, (command, looked.stderr)
        assert json.loads(looked.stdout) is not None


def test_equal_seeds_give_equal_json_on_any_day_and_at_any_hour(tmp_path: Path) -> None:
    told = [
        run(seed=5, as_json=True, home=tmp_path / f"{at:%d}", env={}, now=at, days=3) for at in (NOW, LATER)
    ]
    assert {**told[0], "home": ""} == {**told[1], "home": ""}
    other = run(seed=6, as_json=True, home=tmp_path / "c", env={}, now=NOW, days=3)
    assert other["interactions"] != told[0]["interactions"]


def test_a_folder_that_is_in_use_is_left_alone_and_another_is_named(tmp_path: Path) -> None:
    kept = tmp_path / "mine.txt"
    kept.write_text("mine")
    result = run(seed=1, as_json=True, home=tmp_path, env={}, now=NOW, days=3)
    assert Path(result["home"]) != tmp_path
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_without_a_named_folder_the_default_one_is_left_to_the_apps(tmp_path: Path) -> None:
    result = run(seed=1, as_json=True, env={"HOME": str(tmp_path)}, now=NOW, days=3)
    assert tmp_path not in Path(result["home"]).parents
    assert (Path(result["home"]) / "ledger.sqlite").is_file()
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_world_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no world is called"):
        run(world="moon", home=tmp_path / "home", env={}, now=NOW)
    assert not (tmp_path / "home").exists()


@pytest.mark.slow
def test_nine_of_twelve_seeds_or_more_show_every_ending_and_all_of_them_end_better(tmp_path: Path) -> None:
    told = [run(seed=k, as_json=True, home=tmp_path / f"{k}", env={}, now=NOW) for k in range(1, 13)]
    assert sum(all(one[key] >= 1 for key in ENDINGS) for one in told) >= 9
    assert all(one[TRUTHS[1]] > one[TRUTHS[0]] for one in told)


@pytest.mark.slow
def test_the_whole_demo_shows_three_layers_a_lost_and_an_undecided_test_and_a_rollback(
    tmp_path: Path,
) -> None:
    result = run(as_json=True, home=tmp_path / "home", env={}, now=NOW)
    check_json(result)
    assert [key for key in ENDINGS if result[key] < 1] == []
    assert result[TRUTHS[1]] > result[TRUTHS[0]]
