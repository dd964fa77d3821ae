"""Change keys of the TOML file in place: comments and order stay, nothing bad is ever written."""

import os
import re
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.items import AoT

from prx.domain.errors import InvalidInput, SettingsError, StoreError
from prx.settings import lines
from prx.settings.build import from_text, section_in
from prx.settings.loading import ROOTS, from_sources, kind_of, parse, read_text
from prx.settings.problems import ROOT, nearest
from prx.settings.schema import Settings


def set_value(path: Path, key: str, value: str, env: Mapping[str, str] | None = None) -> Settings:
    """Write one key; see `set_values`."""
    return set_values(path, {key: value}, env)


def set_values(path: Path, changes: Mapping[str, str], env: Mapping[str, str] | None = None) -> Settings:
    """Write keys of the file at `path` (made when absent) and return what it now says.

    Args: `changes`: values as typed on a command line, by key (`l1.enabled`, with or without the root).
        `env`: where `env:NAME` values are looked up; `PRX__` variables do not take part, since they are
        not in the file.
    Raises: SettingsError when the file would not be accepted with the changes; it is then untouched.
        StoreError when it cannot be written.
    """
    text = read_text(path) if path.exists() else ""
    if text:
        parse(text, str(path))
    changed = _edited(text, changes)
    lookups = {
        name: v for name, v in (os.environ if env is None else env).items() if not name.startswith("PRX__")
    }
    given_as: dict[lines.Path, str] = {tuple(_parts(key)): f"--set {key}" for key in changes}
    settings = from_sources(changed, str(path), path.absolute(), lookups, given_as)
    write_text(path, changed)
    return settings


def _edited(text: str, changes: Mapping[str, str]) -> str:
    root = next((name for name in ROOTS if name in tomlkit.parse(text)), ROOT)
    for key in changes:
        text = _uncommented(text, (root, *_parts(key)))
    document = tomlkit.parse(text)
    for key, value in changes.items():
        parts = _parts(key)
        table: Any = document
        for part in (root, *parts[:-1]):
            if part not in table:
                table[part] = tomlkit.table(is_super_table=part == root and len(parts) > 1)
            table = table[part]
            if isinstance(table, AoT) or not hasattr(table, "keys"):
                raise InvalidInput(f"{key} lies in a list; edit the file by hand")
        name = parts[-1]
        if name in ("interval", "schedule"):
            table.pop("interval", None)
            name = "schedule"
        table[name] = from_text(value, kind_of(tuple(parts)))
    return tomlkit.dumps(document)


def _uncommented(text: str, path: tuple[str, ...]) -> str:
    """The text with the key's own line no longer a comment, where its table holds it as one.

    So a key of the file that `prx init` wrote changes in its place and keeps its explanation.
    """
    header, name = ".".join(path[:-1]), path[-1]
    found = lines.find_lines(text)
    if found.by_path.get(path) is not None:
        return text
    rows, table = text.split("\n"), ""
    for place, row in enumerate(rows):
        if match := re.match(r"\s*\[+\s*([^\]]+?)\s*\]", row):
            table = match[1]
        elif table == header and re.match(rf"#\s*{re.escape(name)}\s*=", row):
            rows[place] = re.sub(r"^#\s*", "", row)
            candidate = "\n".join(rows)
            return candidate if _is_toml(candidate) else text
    return text


def _is_toml(text: str) -> bool:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return True


def _parts(key: str) -> list[str]:
    parts = [part.strip() for part in key.split(".")]
    parts = parts[1:] if parts[0] in ROOTS else parts
    kind = kind_of(tuple(parts)) if parts else None
    if kind is None:
        from prx.settings.reference import known_keys

        raise SettingsError(f"no key is called {key}{nearest('.'.join(parts), known_keys())}")
    if section_in(kind) is not None:
        raise SettingsError(f"{key} is a table; set one of its keys, such as {key}.enabled=true")
    return parts


def write_text(path: Path, text: str) -> None:
    """Replace the file as a whole: a crash leaves the old or the new text. Raises: StoreError."""
    target = path.resolve()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            if target.exists():
                os.chmod(name, target.stat().st_mode & 0o777)
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(name, target)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise StoreError(
            f"{path} cannot be written ({error.strerror}); check the folder's rights and space"
        ) from error
