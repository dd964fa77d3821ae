"""How results reach a terminal, a pipe or a program."""

import io
import json
import os
import re
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from prx.views.fullform import full

NARROW = 80
WIDE = 150
_GAP = 2
# recorded text may hold terminal commands, reordering marks, or words that nobody sees and a model reads;
# only the line break and the tab may pass, and the joiners that emoji and some scripts need
_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    r"\ufff9-\ufffb\U000e0000-\U000e0fff]"
)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: `wraps` for running text (never narrower than `least`), `right` for numbers."""

    title: str
    wraps: bool = False
    right: bool = False
    least: int = 12


def screen_width(env: Mapping[str, str]) -> int | None:
    """Columns of the terminal, or what COLUMNS says; None in a pipe, where lines are not broken."""
    told = env.get("COLUMNS", "")
    if told.isascii() and told.isdigit() and int(told) > 0:
        return int(told)
    if not sys.stdout.isatty():
        return None
    return shutil.get_terminal_size((NARROW, 24)).columns


def table(columns: Sequence[Column], rows: Iterable[Sequence[str]], width: int | None) -> str:
    """Aligned text without lines around it; running text wraps so that a row fits `width`.

    Where even then there is no room, rows get longer than `width`: nothing is cut off.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, show_edge=False)
    for column in columns:
        grid.add_column(
            Text(column.title),
            no_wrap=not column.wraps,
            overflow="fold",
            justify="right" if column.right else "left",
            min_width=column.least if column.wraps else None,
        )
    cells = [[clean(cell) for cell in row] for row in rows]
    for row in cells:
        grid.add_row(*map(Text, row))
    room = 100_000 if width is None else max(width, _least_width(columns, cells))
    target = io.StringIO()
    Console(file=target, width=room, color_system=None, force_terminal=False).print(grid)
    return "\n".join(line.rstrip() for line in target.getvalue().splitlines())


def _least_width(columns: Sequence[Column], cells: Sequence[Sequence[str]]) -> int:
    from rich.cells import cell_len

    fixed = (
        column.least if column.wraps else max(map(cell_len, (column.title, *(row[place] for row in cells))))
        for place, column in enumerate(columns)
    )
    return sum(fixed) + _GAP * (len(columns) - 1)


def listing(columns: Sequence[Column], rows: Iterable[Sequence[str]], width: int | None) -> str:
    """A table whose last column is running text; below `NARROW` that text stands under its row, indented."""
    if width is None or width >= NARROW:
        return table(columns, rows, width)
    taken = list(rows)
    lines = table(columns[:-1], (row[:-1] for row in taken), width).splitlines()
    shown = [lines[0]]
    for line, row in zip(lines[1:], taken, strict=True):
        shown += [line, wrapped(row[-1], width, "    ")]
    return "\n".join(shown)


def pairs(rows: Iterable[tuple[str, str]], width: int | None = None) -> str:
    """Names and values, the values aligned; empty values are left out."""
    shown = [(f"{name}:", value) for name, value in rows if value]
    return table((Column(""), Column("", wraps=True)), shown, width).removeprefix("\n") if shown else ""


def blocks(*parts: str) -> str:
    """Parts with an empty line between those that hold something."""
    return "\n\n".join(part.strip("\n") for part in parts if part.strip("\n"))


def clean(text: str) -> str:
    """The text without characters that would steer a terminal."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))


def wrapped(text: str, width: int | None, indent: str = "", hanging: str = "") -> str:
    """Running text broken at `width`, every line indented, continued ones by `hanging` more."""
    import textwrap

    lines = [indent + line for line in clean(text).splitlines()]
    if width is None:
        return "\n".join(lines)
    wrap = textwrap.TextWrapper(width, subsequent_indent=indent + hanging, break_long_words=False)
    return "\n".join("\n".join(wrap.wrap(line)) for line in lines)


def folded(text: str, width: int | None) -> str:
    """Ready-made lines, those longer than `width` continued under their last column."""
    if width is None:
        return text
    return "\n".join(_folded(line, width) for line in text.splitlines())


def _folded(line: str, width: int) -> str:
    import textwrap

    if len(line) <= width:
        return line
    gaps = (gap.end() for gap in re.finditer(r"\S  +(?=\S)", line))
    column = max((end for end in gaps if end <= width // 2), default=0)
    folded_lines = textwrap.wrap(
        line[column:],
        width,
        initial_indent=line[:column],
        subsequent_indent=" " * (column or 2),
        break_long_words=False,
    )
    return "\n".join(folded_lines)


def diff_text(lines: Iterable[str]) -> str:
    """A diff, removed and added lines coloured where colours are wanted."""
    colours = {"+": "green", "-": "red", "@": "cyan"}
    return "\n".join(_coloured(clean(line), colours.get(line[:1])) for line in lines)


def _coloured(line: str, colour: str | None) -> str:
    wanted = colour and sys.stdout.isatty() and "NO_COLOR" not in os.environ
    return click.style(line, fg=colour) if wanted else line


def to_line(value: Any) -> str:
    """A value of a record on one line, as JSON."""
    return harmless(json.dumps(full(value), ensure_ascii=False))


def to_json(value: Any) -> str:
    """One JSON document, every field present."""
    return harmless(json.dumps(full(value), indent=2, ensure_ascii=False, allow_nan=False))


def harmless(written: str) -> str:
    """JSON with every character that would steer a terminal escaped; it means the same."""
    return _CONTROL.sub(lambda found: json.dumps(found[0])[1:-1], written)
