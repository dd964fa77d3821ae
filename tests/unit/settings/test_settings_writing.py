"""Changing the file in place."""

import os
from pathlib import Path

import pytest

from prx.domain.errors import InvalidInput, SettingsError, StoreError
from prx.settings import load, set_value, set_values
from prx.settings.reference import sections

ORIGINAL = """# our agent
[evolution]
  # since May
enabled = true  # yes
[evolution.l1]
interval = 300
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "prx.toml"
    path.write_text(ORIGINAL)
    return path


def test_comments_order_and_spacing_stay(file: Path) -> None:
    set_value(file, "enabled", "false", env={})
    assert file.read_text() == ORIGINAL.replace("enabled = true", "enabled = false")


def test_a_new_key_gets_its_table_and_the_root_that_the_file_uses(file: Path) -> None:
    settings = set_values(
        file, {"l3.enabled": "true", "self_evolution.experiments.auto_converge.enabled": "false"}, env={}
    )
    assert settings.l3.enabled
    assert load(file, env={}).experiments.auto_converge.enabled is False
    assert "[evolution.experiments.auto_converge]" in file.read_text()
    assert "self_evolution" not in file.read_text()


def test_a_key_that_stands_as_a_comment_changes_in_its_place(file: Path) -> None:
    file.write_text(
        "[evolution]\n# enabled = false  # the switch\n\n# Prompts.\n[evolution.l2]\n"
        "# enabled = false  # on\n# min_samples = 50 or so\n"
    )
    set_values(file, {"l2.enabled": "true", "l2.min_samples": "60"}, env={})
    text = file.read_text()
    assert "[evolution.l2]\nenabled = true  # on\n# min_samples = 50 or so\nmin_samples = 60\n" in text
    assert text.startswith("[evolution]\n# enabled = false  # the switch\n\n# Prompts.\n[evolution.l2]\n")


def test_the_interval_takes_the_place_of_the_schedule(file: Path) -> None:
    assert set_value(file, "l1.interval", "7200", env={}).l1.schedule == "7200"
    assert set_value(file, "l1.schedule", "daily", env={}).l1.schedule == "daily"
    assert "interval" not in file.read_text()


def test_a_file_that_does_not_exist_is_made(tmp_path: Path) -> None:
    path = tmp_path / "new" / "prx.toml"
    set_value(path, "l1.enabled", "false", env={})
    assert path.read_text() == "[self_evolution.l1]\nenabled = false\n"


@pytest.mark.parametrize(
    ("key", "value", "part"),
    [
        ("l1.enabld", "true", "no key is called l1.enabld; did you mean l1.enabled?"),
        ("l1", "true", "l1 is a table; set one of its keys"),
        ("", "true", "no key is called"),
        ("l1.enabled", "maybe", '--set l1.enabled: l1.enabled must be true or false, not "maybe"'),
        ("fitness.weights.task_completion", "0.5", "the fitness weights sum to 1.25"),
        ("experiments.traffic_split", "-1", "allowed: a number above 0 and below 1"),
    ],
)
def test_a_bad_value_is_refused_and_the_file_stays_as_it_was(
    file: Path, key: str, value: str, part: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        set_value(file, key, value, env={})
    assert part in str(caught.value)
    assert file.read_text() == ORIGINAL
    assert [path.name for path in file.parent.iterdir()] == ["prx.toml"]


def test_two_weights_can_be_changed_together(file: Path) -> None:
    changes = {"fitness.weights.task_completion": "0.35", "fitness.weights.response_relevance": "0.20"}
    assert set_values(file, changes, env={}).fitness.weights.task_completion == 0.35


def test_a_secret_stays_a_reference_in_the_file(file: Path) -> None:
    settings = set_value(file, "models.judge.key", "env:KEY", env={"KEY": "s3cret"})
    assert settings.models.judge.key == "s3cret"
    assert "s3cret" not in file.read_text()


def test_entries_of_a_list_are_edited_by_hand(file: Path) -> None:
    file.write_text('[[evolution.gate.checks]]\nname = "a"\ncommand = ["x"]\n')
    with pytest.raises(InvalidInput, match="by hand"):
        set_value(file, "gate.checks.name", "b", env={})


def test_a_linked_file_is_changed_where_it_is(file: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.toml"
    link.symlink_to(file)
    set_value(link, "enabled", "false", env={})
    assert link.is_symlink()
    assert "enabled = false" in file.read_text()


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be written"):
        set_value(tmp_path / "file" / "prx.toml", "enabled", "true", env={})


def test_the_rights_of_the_file_stay(file: Path) -> None:
    os.chmod(file, 0o640)
    set_value(file, "enabled", "false", env={})
    assert file.stat().st_mode & 0o777 == 0o640


def test_every_scalar_key_can_be_set_to_its_own_default(tmp_path: Path) -> None:
    path = tmp_path / "prx.toml"
    rows = [
        row
        for page in sections()
        for row in page.rows
        if not page.header.startswith("[[") and "NAME" not in row.path and row.path != "gate.checks"
    ]
    set_values(path, {row.path: row.default.strip('"') for row in rows}, env={})
    assert load(path, env={}) == load(env={}, folder=tmp_path / "..")
