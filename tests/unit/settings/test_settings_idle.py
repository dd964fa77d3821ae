"""A key either does something, or says that it does not."""

import re
from pathlib import Path

import pytest

from prx.settings import load
from prx.settings.reference import KeyRow, sections

SOURCE = Path(__file__).parents[3] / "src" / "prx"
CODE = "\n".join(
    path.read_text(encoding="utf-8") for path in sorted(SOURCE.rglob("*.py")) if "settings" not in path.parts
)
ROWS = [row for page in sections() for row in page.rows]


ACTIVE = [row for row in ROWS if not row.idle and "weights" not in row.path]
IDLE = [row for row in ROWS if row.idle]


@pytest.mark.parametrize("row", ACTIVE, ids=lambda row: row.path)
def test_a_key_is_read_somewhere(row: KeyRow) -> None:
    assert re.search(rf"\.{row.name}\b", CODE), f"nothing reads {row.path}; mark it idle or use it"


@pytest.mark.parametrize("row", IDLE, ids=lambda row: row.path)
def test_an_idle_key_is_read_nowhere(row: KeyRow) -> None:
    section, name = row.path.rsplit(".", 1)
    used = rf"\.{re.escape(section.removesuffix('.NAME'))}\.{name}\b"
    assert not re.search(used, CODE), f"{row.path} is used; it is no longer idle"


@pytest.mark.parametrize("row", [row for row in IDLE if row.default.replace(".", "").isdigit()][:1])
def test_setting_an_idle_key_is_accepted_with_a_note(row: KeyRow, tmp_path: Path) -> None:
    section, name = row.path.rsplit(".", 1)
    changed = float(row.default) * 0.99 if "." in row.default else int(row.default) + 1
    (tmp_path / "prx.toml").write_text(f"[self_evolution.{section}]\n{name} = {changed}\n")
    assert load(env={}, folder=tmp_path).notes == (
        f"prx.toml:2: {row.path} is set, but nothing in this version acts on it yet",
    )
