"""Write the reference pages that are made from the code: configuration and command line.

`python docs/build.py` writes them, `python docs/build.py --check` exits 1 when one is out of date.
"""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from prx.cli.program import prx
from prx.ingest.otlp.reference import otlp_page
from prx.settings.reference import KeyRow, sections

IDLE = " (accepted; nothing in this version acts on it yet)"
COMMON = ("json", "agent", "lang", "home", "config")
FOLDER = Path(__file__).parent / "reference"
MADE = "<!-- made by docs/build.py from the code; edit the code, then run it again -->"

CONFIGURATION_HEAD = """# Configuration

PRX Evolution reads one TOML file: `--config FILE`, else `$PRX_CONFIG`, else `./prx.toml`. `prx init` writes
one to start from, `prx evolution config` shows what is in force, `prx evolution config --set KEY=VALUE`
changes a key and keeps the comments of the file.

- Every key stands below `[self_evolution]`; `[evolution]` is the same table.
- A variable `PRX__SECTION__KEY` overrides the file, as in `PRX__EXPERIMENTS__TRAFFIC_SPLIT=0.3`.
- A value may be `"env:NAME"` (an environment variable) or `"file:PATH"` (a file, relative to the
  configuration). A key or address that is secret and missing there counts as not configured; a missing
  `store.url` or `audit.head_key` stops the command instead.
- `interval`, in seconds, is another name of a layer's `schedule`. Schedules are in UTC: `hourly`, `daily`,
  `weekly` and `monthly` mean the next full hour, midnight, Monday and first of the month.
- An unknown key or a bad value stops every command, with file, line, key and what is allowed.
"""

CLI_HEAD = """# Command line

`prx` and `prx-evolution` are the same command.

| Exit code | Meaning |
|---|---|
| 0 | done |
| 1 | refused, or a check says no; the message on standard error says why and what to do |
| 2 | wrong usage: unknown command, option or value |
| 3 | a store, a file or a model endpoint cannot be used |
| 130 | interrupted |

- `--json` (`-j`) answers with one JSON document on standard output; times are ISO 8601 in UTC, a value that
  is not known is `null`, and "not enough data" is named as such.
- `--agent NAME` says which agent is meant (`default` when absent).
- `--home DIR` is the folder of the state (`$PRX_HOME`, else `~/.local/share/prx`), `--config FILE` the
  configuration (`$PRX_CONFIG`, else `./prx.toml`).
- Layers are accepted in every spelling: `L1` or `memory`, `L2` or `prompt`, `L3` or `strategy` (`policy`).
- Ids may be shortened to an end of 4 characters or more that fits one record only.
- In a pipe lines are not broken and ids are whole; `COLUMNS` sets a width. `NO_COLOR` turns colours off.
- Spans are a number and a unit: `90s`, `15m`, `24h`, `30d`, `2w`.
- `--lang` and `$PRX_LANG` choose a language where a translation exists: the fitness table in Spanish (`es`).
- The name in the audit log is `$PRX_ACTOR`, else the user's.
"""


def configuration_page() -> str:
    """Every table and key with default, accepted values and meaning."""
    parts = [MADE, CONFIGURATION_HEAD.rstrip()]
    for page in sections():
        rows = "\n".join(_key_row(row) for row in page.rows)
        table = f"| Key | Default | Allowed | Meaning |\n|---|---|---|---|\n{rows}"
        parts.append(f"## `{page.header}`\n\n{page.doc}\n\n{table}")
    return "\n\n".join(parts) + "\n"


def _key_row(row: KeyRow) -> str:
    cells = (f"`{row.name}`", f"`{row.default}`", row.allowed, row.doc + IDLE * row.idle)
    return "| " + " | ".join(map(_cell, cells)) + " |"


def cli_page() -> str:
    """Every command with its arguments, options and help."""
    parts = [MADE, CLI_HEAD.rstrip()]
    parts += [_command(path, command) for path, command in commands()]
    return "\n\n".join(parts) + "\n"


def commands(
    command: click.Command = prx, path: tuple[str, ...] = ("prx",)
) -> Iterator[tuple[str, click.Command]]:
    """Every command and group below `command` with its full name, in order of name."""
    if len(path) > 1:
        yield " ".join(path), command
    if isinstance(command, click.Group):
        for name in sorted(command.commands):
            yield from commands(command.commands[name], (*path, name))


def _command(path: str, command: click.Command) -> str:
    # Without the program's own names click would keep a help option that lacks -h on the command.
    context = click.Context(command, info_name=path, **prx.context_settings)
    usage = " ".join((path, *command.collect_usage_pieces(context)))
    help_text = "\n".join(line.strip() for line in (command.help or "").splitlines()).strip()
    own = [one for one in command.params if isinstance(one, click.Option) and one.name not in COMMON]
    rows = [record for one in own if (record := one.get_help_record(context))]
    options = "\n".join(f"| `{_cell(name)}` | {_cell(text)} |" for name, text in rows)
    table = f"| Option | Meaning |\n|---|---|\n{options}" if options else ""
    common = ", ".join(f"`--{one.name}`" for one in command.params if one.name in COMMON)
    also = f"Also: {common}." if common else ""
    return "\n\n".join(part for part in (f"## `{path}`", f"    {usage}", help_text, table, also) if part)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


PAGES: dict[str, Callable[[], str]] = {
    "configuration.md": configuration_page,
    "cli.md": cli_page,
    "otlp.md": lambda: f"{MADE}\n\n{otlp_page()}",
}


def stale() -> list[str]:
    """Names of pages that are not what the code says."""
    return [
        name
        for name, make in PAGES.items()
        if not (FOLDER / name).is_file() or (FOLDER / name).read_text(encoding="utf-8") != make()
    ]


def main(arguments: list[str]) -> int:
    """Write the pages, or with --check only compare them."""
    if arguments == ["--check"]:
        old = stale()
        if old:
            sys.stderr.write(f"out of date: {', '.join(old)}; run `python docs/build.py`\n")
        return 1 if old else 0
    FOLDER.mkdir(exist_ok=True)
    for name, make in PAGES.items():
        (FOLDER / name).write_text(make(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
