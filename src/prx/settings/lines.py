"""Where a key stands in a TOML text, so that an error can name its line."""

import re
import tomllib
from dataclasses import dataclass

Path = tuple[str | int, ...]
_PART = re.compile(r"""\s*("(?:[^"\\]|\\.)*"|'[^']*'|[A-Za-z0-9_-]+)\s*(\.?)""")
_KEY = re.compile(r"""((?:"(?:[^"\\]|\\.)*"|'[^']*'|[^="'#])+)=""")


@dataclass(frozen=True, slots=True)
class Lines:
    """Line numbers (from 1) by key path; an array of tables counts its entries in the path."""

    by_path: dict[Path, int]

    def of(self, path: Path) -> int | None:
        """Line of the key, else of the nearest table around it; None when the text has neither."""
        for length in range(len(path), 0, -1):
            line = self.by_path.get(path[:length])
            if line is not None:
                return line
        return None


def find_lines(text: str) -> Lines:
    """Lines of every table header and key of a TOML text that parses."""
    found: dict[Path, int] = {}
    counts: dict[Path, int] = {}
    table: Path = ()
    open_value = _OpenValue()
    for number, line in enumerate(text.split("\n"), 1):
        bare = line.strip()
        if open_value.waiting:
            open_value.read(line)
        elif bare.startswith("[["):
            name = _resolve(_split(bare[2:]), counts)
            counts[name] = counts.get(name, -1) + 1
            table = (*name, counts[name])
            found.setdefault(name, number)
            found[table] = number
        elif bare.startswith("["):
            table = _resolve(_split(bare[1:]), counts)
            found.setdefault(table, number)
        elif match := _KEY.match(bare):
            path = (*table, *_split(match[1]))
            for length in range(len(table) + 1, len(path) + 1):
                found.setdefault(path[:length], number)
            open_value.read(bare[match.end() :])
    return Lines(found)


def _split(dotted: str) -> Path:
    parts: list[str | int] = []
    position = 0
    while match := _PART.match(dotted, position):
        parts.append(next(iter(tomllib.loads(f"{match[1]} = 0"))))
        position = match.end()
        if not match[2]:
            break
    return tuple(parts)


def _resolve(name: Path, counts: dict[Path, int]) -> Path:
    """A header below an array of tables belongs to the array's last entry."""
    resolved: Path = ()
    for index, part in enumerate(name):
        resolved = (*resolved, part)
        if resolved in counts and index < len(name) - 1:
            resolved = (*resolved, counts[resolved])
    return resolved


class _OpenValue:
    """Follows a value over lines: open brackets and triple-quoted strings."""

    def __init__(self) -> None:
        self._depth = 0
        self._quote = ""

    @property
    def waiting(self) -> bool:
        return self._depth > 0 or bool(self._quote)

    def read(self, line: str) -> None:
        position = 0
        while position < len(line):
            position = self._inside(line, position) if self._quote else self._outside(line, position)
        if len(self._quote) == 1:
            self._quote = ""

    def _inside(self, line: str, position: int) -> int:
        if line[position] == "\\" and self._quote[0] == '"':
            return position + 2
        if line.startswith(self._quote, position):
            position += len(self._quote)
            self._quote = ""
            return position
        return position + 1

    def _outside(self, line: str, position: int) -> int:
        character = line[position]
        if character == "#":
            return len(line)
        if character in "\"'":
            self._quote = character * 3 if line.startswith(character * 3, position) else character
            return position + len(self._quote)
        self._depth += (character in "[{") - (character in "]}")
        return position + 1
