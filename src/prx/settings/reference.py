"""The configuration reference, made from the declarations."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from prx.settings.build import allowed, declared, is_list, is_named, section_in
from prx.settings.problems import ROOT
from prx.settings.schema import Settings


@dataclass(frozen=True, slots=True)
class KeyRow:
    """One key: its name in the section, default, accepted values, meaning; `idle` when nothing acts on it."""

    name: str
    path: str
    default: str
    allowed: str
    doc: str
    idle: bool


@dataclass(frozen=True, slots=True)
class SectionPage:
    """One table of the file."""

    header: str
    doc: str
    rows: tuple[KeyRow, ...]


def sections() -> Iterator[SectionPage]:
    """Every table of the file in order, the root first."""
    yield from _pages(Settings, (), f"[{ROOT}]")


def known_keys() -> tuple[str, ...]:
    """Dotted names of all keys below the root."""
    return tuple(row.path for page in sections() for row in page.rows)


def _pages(section: type, path: tuple[str, ...], header: str) -> Iterator[SectionPage]:
    keys = declared(section)
    plain = [key for key in keys.values() if section_in(key.kind) is None]
    rows = tuple(
        KeyRow(
            key.name,
            ".".join((*path, key.name)),
            toml_text(key.default),
            allowed(key),
            key.doc,
            key.idle,
        )
        for key in plain
    )
    if rows:
        yield SectionPage(header, (section.__doc__ or "").strip().split("\n\n")[0], rows)
    for key in keys.values():
        inner = section_in(key.kind)
        if inner is None:
            continue
        below = (*path, key.name)
        name = ".".join((ROOT, *below))
        if is_list(key.kind):
            yield from _pages(inner, below, f"[[{name}]]")
        elif is_named(key.kind):
            yield from _pages(inner, (*below, "NAME"), f"[{name}.NAME]")
        else:
            yield from _pages(inner, below, f"[{name}]")


def toml_text(value: Any) -> str:
    """A value as TOML writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, float):
        return f"{value:g}" if value != int(value) or abs(value) >= 1e15 else str(int(value))
    if isinstance(value, tuple | list):
        return "[" + ", ".join(map(toml_text, value)) + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k} = {toml_text(v)}" for k, v in value.items()) + "}"
    return str(value)
