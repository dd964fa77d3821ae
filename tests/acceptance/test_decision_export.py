"""The decision files follow the ledger, whatever happened to them, and never stop the engine."""

import json
import os
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prx.domain.codec import encode
from prx.domain.decisions import Decision, Verdict
from prx.domain.errors import SettingsError
from prx.domain.ids import Ids
from prx.domain.layers import Layer
from prx.settings.loading import from_sources
from prx.wiring.app import App, open_app
from prx.wiring.decisionfiles import ExportRules, reconcile

T0 = datetime(2026, 3, 2, tzinfo=UTC)


def decision(k: int, *, at: datetime | None = None, verdict: Verdict | None = None) -> Decision:
    return Decision(
        decision_id=f"d{k:05d}",
        cycle_id="c",
        layer=Layer.PROMPT,
        timestamp=at or T0 + timedelta(hours=k),
        proposal={"type": "prompt_edit", "description": f"change {k} – größer"},
        rationale="r",
        data_points=k,
        verdict=verdict,
    )


def held(folder: Path) -> dict[str, list[str]]:
    return {
        path.name: [json.loads(line)["decision_id"] for line in path.read_text("utf-8").splitlines()]
        for path in sorted(folder.iterdir())
    }


def test_a_file_holds_so_many_decisions_and_then_the_next_begins(tmp_path: Path) -> None:
    rules = ExportRules(tmp_path, max_entries=3)
    reconcile([decision(k) for k in range(7)], rules, T0)
    assert held(tmp_path) == {
        "decisions-000001.jsonl": ["d00000", "d00001", "d00002"],
        "decisions-000002.jsonl": ["d00003", "d00004", "d00005"],
        "decisions-000003.jsonl": ["d00006"],
    }


def test_a_line_is_the_decision_as_the_ledger_has_it(tmp_path: Path) -> None:
    reconcile([decision(1)], ExportRules(tmp_path), T0)
    (path,) = tmp_path.iterdir()
    assert path.read_bytes() == encode(decision(1)) + b"\n"
    assert path.stat().st_mode & 0o777 == 0o600


def test_json_is_one_indented_list_and_replaces_the_other_format(tmp_path: Path) -> None:
    reconcile([decision(1)], ExportRules(tmp_path), T0)
    done = reconcile([decision(1), decision(2)], ExportRules(tmp_path, "json"), T0)
    (path,) = tmp_path.iterdir()
    assert path.name == "decisions-000001.json"
    assert [one["decision_id"] for one in json.loads(path.read_text())] == ["d00001", "d00002"]
    assert path.read_text().startswith('[\n  {\n    "')
    assert done.removed == ("decisions-000001.jsonl",)


@pytest.mark.parametrize(("days", "files"), [(0, 3), (10_000, 3), (2, 2)])
def test_a_file_goes_when_its_last_decision_is_past_the_retention(
    tmp_path: Path, days: int, files: int
) -> None:
    rules = ExportRules(tmp_path, max_entries=24, retention_days=days)
    decisions = [decision(k) for k in range(72)]
    reconcile(decisions, ExportRules(tmp_path, max_entries=24, retention_days=0), T0)
    reconcile(decisions, rules, T0 + timedelta(hours=73))
    assert len(held(tmp_path)) == files
    assert "decisions-000003.jsonl" in held(tmp_path)


def test_an_amended_decision_is_written_anew_and_the_other_files_stay(tmp_path: Path) -> None:
    rules = ExportRules(tmp_path, max_entries=2)
    reconcile([decision(k) for k in range(6)], rules, T0)
    amended = [decision(k, verdict=Verdict.APPROVED if k == 3 else None) for k in range(6)]
    assert reconcile(amended, rules, T0).written == ("decisions-000002.jsonl",)
    assert reconcile(amended, rules, T0).written == ()


@given(st.lists(st.sampled_from(["lose", "cut", "edit", "stray"]), max_size=5), st.integers(0, 9))
def test_whatever_happens_to_the_files_they_are_made_whole_again(
    tmp_path_factory: pytest.TempPathFactory, faults: list[str], seed: int
) -> None:
    folder = tmp_path_factory.mktemp("decisions")
    rules, decisions = ExportRules(folder, max_entries=4), [decision(k) for k in range(10)]
    reconcile(decisions, rules, T0)
    (folder / "notes.txt").write_text("mine")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    chance = random.Random(seed)
    for fault in faults:
        path = folder / f"decisions-00000{chance.randint(1, 3)}.jsonl"
        if fault == "lose":
            path.unlink(missing_ok=True)
        elif fault == "cut" and path.exists():
            path.write_bytes(path.read_bytes()[: chance.randint(0, 200)])
        elif fault == "edit" and path.exists():
            path.write_bytes(path.read_bytes().replace(b'"r"', b'"x"'))
        elif fault == "stray":
            (folder / "decisions-000009.jsonl").write_text("{}\n")
            (folder / "decisions-000001.jsonl.part").write_text("{")
    reconcile(decisions, rules, T0)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


TOML = """\
[self_evolution.decision_log]
storage = "file"
path = "{path}"
max_entries = 2
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "home"
    for path in tmp_path.rglob("*"):
        if path.is_dir():
            path.chmod(0o700)


def opened(home: Path, toml: str = TOML.format(path="")) -> App:
    settings = from_sources(toml, "test", None, {})
    return open_app(
        home=home, env={}, settings=settings, now=lambda: T0, ids=Ids(random.Random(1)), durable=False
    )


def put(app: App, *decisions: Decision) -> None:
    with app.ledger.transaction(now=T0, actor="test") as tx:
        for one in decisions:
            tx.put(one)


def test_the_files_are_there_after_a_run_and_made_anew_at_the_next_start(folder: Path) -> None:
    app = opened(folder)
    put(app, decision(1), decision(2), decision(3))
    report = app.advance()
    assert [step.answer for step in report.steps if step.what == "decision_files"] == ["done"]
    place = folder / "decisions"
    assert sum(map(len, held(place).values())) == 3
    put(app, decision(4))
    app.close()
    assert sum(map(len, held(place).values())) == 4
    (place / "decisions-000001.jsonl").write_text('{"half": ')
    opened(folder).close()
    assert sum(map(len, held(place).values())) == 4


@pytest.mark.parametrize("off", ["enabled = false\n", 'storage = "database"\n'])
def test_no_file_is_written_where_none_is_wanted(folder: Path, off: str) -> None:
    wanted = 'storage = "file"\n' if "enabled" in off else ""
    app = opened(folder, f"[self_evolution.decision_log]\n{wanted}{off}")
    put(app, decision(1))
    app.advance()
    app.close()
    assert not (folder / "decisions").exists()


def test_another_folder_may_be_named(folder: Path, tmp_path: Path) -> None:
    app = opened(folder, TOML.format(path=tmp_path / "elsewhere"))
    put(app, decision(1))
    app.close()
    assert held(tmp_path / "elsewhere") == {"decisions-000001.jsonl": ["d00001"]}


def test_a_folder_that_cannot_be_written_stops_nothing_and_is_said(folder: Path, tmp_path: Path) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_text("a file where the folder should be")
    app = opened(folder, TOML.format(path=blocked))
    put(app, decision(1))
    report = app.advance()
    (step,) = [step for step in report.steps if step.what == "decision_files"]
    assert step.answer == "error"
    assert "the ledger has every decision" in step.why
    assert str(blocked) in step.why
    blocked.unlink()
    report = app.advance()
    assert [step.answer for step in report.steps if step.what == "decision_files"] == ["done"]
    assert held(blocked) == {"decisions-000001.jsonl": ["d00001"]}
    app.close()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_is_said_too(folder: Path, tmp_path: Path) -> None:
    place = tmp_path / "read-only"
    place.mkdir(mode=0o500)
    app = opened(folder, TOML.format(path=place))
    put(app, decision(1))
    assert any(step.what == "decision_files" and step.answer == "error" for step in app.advance().steps)
    app.close()


def test_the_ledger_may_lie_in_a_file_of_its_own(folder: Path, tmp_path: Path) -> None:
    toml = f'[self_evolution.decision_log.database]\npath = "{tmp_path / "decisions.db"}"\n'
    app = opened(folder, toml)
    put(app, decision(1))
    app.close()
    assert not (folder / "ledger.sqlite").exists()
    again = opened(folder, toml)
    with again.ledger.view() as view:
        assert [one.decision_id for one in view.find(Decision)] == ["d00001"]
    again.close()


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        ('[self_evolution.decision_log.database]\nbackend = "postgres"\n', "no address is given"),
        (
            '[self_evolution.store]\nurl = "postgresql://a:b@localhost:1/c"\n'
            '[self_evolution.decision_log.database]\npath = "x.db"\n',
            "leave one of them out",
        ),
    ],
)
def test_a_ledger_without_a_place_or_with_two_is_refused(folder: Path, toml: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        opened(folder, toml)
