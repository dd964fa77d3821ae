"""What is wrong with a configuration, and where."""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

from prx.domain.errors import SettingsError
from prx.settings.lines import Lines, Path

ROOT = "self_evolution"
REFERENCE = "docs/reference/configuration.md lists every key"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where values come from: a file with its line numbers, the environment, or the command line."""

    name: str
    lines: Lines | None = None
    root: str = ROOT

    def at(self, path: Path) -> str:
        """`prx.toml:12`, or the name alone when no line is known."""
        line = self.lines.of((self.root, *path)) if self.lines else None
        return self.name if line is None else f"{self.name}:{line}"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing to correct."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


def dotted(path: Path) -> str:
    """The key as written in errors and on the reference page: `experiments.auto_converge.enabled`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def nearest(word: str, known: Iterable[str]) -> str:
    """`; did you mean X?` when a known word is close, else the known words."""
    words = list(known)
    close = difflib.get_close_matches(word, words, n=1, cutoff=0.6)
    if close:
        return f"; did you mean {close[0]}?"
    if len(words) <= 12:
        return f"; known here: {', '.join(words)}"
    return f"; {REFERENCE}"


def raise_all(problems: Iterable[Problem]) -> None:
    """Nothing when there are none. Raises: SettingsError with one line each."""
    found = [str(problem) for problem in problems]
    if found:
        raise SettingsError("\n".join(found))
