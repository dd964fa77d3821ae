"""Every documented command exists, with the documented flags, help and a reference entry."""

import importlib.util
from pathlib import Path
from types import ModuleType

import click
import pytest

from prx.cli.program import prx

ROOT = Path(__file__).parents[3]

DOCUMENTED: dict[str, set[str]] = {
    "status": {"--json", "-j"},
    "history": {"--limit", "-n", "--level", "--layer", "-l", "--json", "-j"},
    "config": {"--set", "--json", "-j"},
    "trigger": {"--level", "--layer", "-l", "--dry-run"},
    "decisions": {"--tail", "--layer", "--last", "--verdict", "--outcome", "--id", "--format"},
    "stats": {"--last"},
    "experiments": {"--status", "--id", "--details"},
    "experiments list": set(),
    "experiments show": set(),
    "experiments plan": set(),
    "experiments create": {"--aa"},
    "experiments cancel": set(),
    "experiments converge": set(),
    "fitness": {"--history", "--last", "--breakdown"},
    "rollback": {"--snapshot", "--layer", "--yes", "--agent"},
    "approve": set(),
    "reject": set(),
    "confirm": set(),
    "propose": {"--file"},
    "pause": set(),
    "resume": set(),
    "kill": set(),
    "findings": set(),
    "proposals": set(),
    "digest": {"--date"},
    "incidents": set(),
    "incidents list": set(),
    "incidents ack": set(),
    "versions": set(),
    "versions list": set(),
    "versions show": set(),
    "versions diff": set(),
    "audit verify": set(),
    "audit export": set(),
}
TOP = {
    *("demo", "init", "serve", "worker", "prompts", "memory", "import", "export", "backup", "restore"),
    *("doctor", "erase", "evolution"),
}


def docs_builder() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_build", ROOT / "docs" / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


BUILDER = docs_builder()
COMMANDS: dict[str, click.Command] = dict(BUILDER.commands())


def flags(command: click.Command) -> set[str]:
    return {name for one in command.params if isinstance(one, click.Option) for name in one.opts}


@pytest.mark.parametrize("name", DOCUMENTED)
def test_a_documented_command_has_the_documented_flags(name: str) -> None:
    command = COMMANDS[f"prx evolution {name}"]
    assert DOCUMENTED[name] <= flags(command)


def test_the_top_level_holds_what_is_there_and_nothing_that_only_will_be() -> None:
    assert set(prx.commands) == TOP


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_and_option_has_help_and_the_first_sentence_fits_the_list(path: str) -> None:
    command = COMMANDS[path]
    assert command.help
    assert not command.get_short_help_str(limit=60).endswith("...")
    without = [one.opts for one in command.params if isinstance(one, click.Option) and not one.help]
    assert without == []


@pytest.mark.parametrize("path", [path for path in COMMANDS if not isinstance(COMMANDS[path], click.Group)])
def test_every_command_answers_in_json_and_says_where_its_state_is(path: str) -> None:
    assert {"--json", "-j", "--home", "--config"} <= flags(COMMANDS[path])


AGENT_COMMANDS = [path for path in COMMANDS if path.startswith("prx evolution ") and " audit" not in path]


@pytest.mark.parametrize("path", AGENT_COMMANDS)
def test_every_command_about_an_agent_takes_its_name_and_a_language(path: str) -> None:
    assert {"--agent", "--lang"} <= flags(COMMANDS[path])


def test_the_reference_pages_are_what_the_code_says() -> None:
    assert BUILDER.stale() == [], "run `python docs/build.py`"


def test_building_the_reference_leaves_every_command_its_short_help_flag() -> None:
    BUILDER.cli_page()
    parent = click.Context(BUILDER.prx, info_name="prx", **BUILDER.prx.context_settings)
    for path, command in COMMANDS.items():
        option = command.get_help_option(click.Context(command, info_name=path, parent=parent))
        assert option is not None, path
        assert set(option.opts) == {"-h", "--help"}, path


def test_every_command_is_named_in_the_reference() -> None:
    page = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    assert [path for path in COMMANDS if f"## `{path}`" not in page] == []


def test_a_page_that_was_edited_by_hand_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BUILDER, "FOLDER", tmp_path / "reference")
    assert BUILDER.main([]) == 0
    assert BUILDER.main(["--check"]) == 0
    page = tmp_path / "reference" / "cli.md"
    page.write_text(page.read_text().replace("prx evolution status", "prx evolution state"))
    assert BUILDER.stale() == ["cli.md"]
    assert BUILDER.main(["--check"]) == 1
