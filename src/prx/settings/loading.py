"""Where the configuration comes from: a TOML file, then the environment."""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from prx.domain.codec import content_hash
from prx.domain.errors import SettingsError
from prx.settings import lines
from prx.settings.build import Builder, declared, from_text, is_named, section_in
from prx.settings.problems import REFERENCE, ROOT, Origin, Problem, dotted, nearest, raise_all
from prx.settings.rules import conflicts
from prx.settings.schema import Settings

DEFAULT_FILE = Path("prx.toml")
PREFIX = "PRX__"
ROOTS = (ROOT, "evolution")


@dataclass(frozen=True, slots=True)
class FileContent:
    """The evolution table of a TOML text, and where its keys stand."""

    values: Mapping[str, Any]
    origin: Origin


def find_file(explicit: Path | None, env: Mapping[str, str], folder: Path) -> Path | None:
    """The file to read: `--config`, else `$PRX_CONFIG`, else `prx.toml` in `folder` if there is one.

    Raises: SettingsError when a file that was named does not exist.
    """
    named = explicit or (Path(env["PRX_CONFIG"]) if env.get("PRX_CONFIG") else None)
    if named is None:
        default = folder / DEFAULT_FILE
        return default if default.is_file() else None
    path = folder / named.expanduser()
    if not path.is_file():
        source = "--config" if explicit else "PRX_CONFIG"
        raise SettingsError(
            f"there is no file {path} ({source} names it); write one with `prx init`, or name another"
        )
    return path


def load(
    explicit: Path | None = None, env: Mapping[str, str] | None = None, folder: Path | None = None
) -> Settings:
    """The configuration in force: defaults, then the file, then `PRX__SECTION__KEY` variables.

    Args: `explicit`: the file given with `--config`. `env`: environment (this process's when None).
        `folder`: where `prx.toml` is looked for and from where relative names start (the working
        folder when None).
    Raises: SettingsError with one line for everything that is wrong: file, line, key, allowed values.
    """
    env = os.environ if env is None else env
    folder = Path.cwd() if folder is None else folder
    path = find_file(explicit, env, folder)
    text = read_text(path) if path else ""
    settings = from_sources(text, str(_short(path, folder)) if path else "", path, env)
    return replace(settings, file=path)


def from_sources(
    text: str,
    name: str,
    path: Path | None,
    env: Mapping[str, str],
    given_as: Mapping[lines.Path, str] | None = None,
) -> Settings:
    """Settings from a TOML text and an environment.

    `path` is where `file:` values start from; `given_as` names, for errors, keys of the text that a
    person gave in another way.
    """
    content = parse(text, name)
    given, from_env, problems = _environment(env)
    from_env.update(given_as or {})
    root = path.parent if path else Path.cwd()

    def origin(key: lines.Path) -> Origin:
        variable = next((from_env[key[:n]] for n in range(len(key), 0, -1) if key[:n] in from_env), None)
        return Origin(variable) if variable else content.origin

    builder = Builder(origin, lambda value: _behind(value, env, root))
    builder.problems.extend(problems)
    settings: Settings = builder.section(Settings, _merged(content.values, given), ())
    if not builder.problems:
        for key, what in conflicts(settings):
            builder.blame(key, what)
    raise_all(builder.problems)
    return replace(settings, notes=tuple(builder.notes))


def read_text(path: Path) -> str:
    """The file's text. Raises: SettingsError when it cannot be read or is not UTF-8."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path} is not UTF-8 (byte {error.start}); save it as UTF-8") from error
    except OSError as error:
        raise SettingsError(
            f"{path} cannot be read ({error.strerror}); check the file and its rights"
        ) from error


def parse(text: str, name: str) -> FileContent:
    """The `[self_evolution]` (or `[evolution]`) table of a TOML text.

    Raises: SettingsError for bad TOML, both roots, or a table that is neither.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{name}: not valid TOML: {error}") from error
    except RecursionError as error:
        raise SettingsError(f"{name}: not valid TOML: nested too deeply") from error
    found = lines.find_lines(text)
    raise_all(
        Problem(Origin(name, found, key).at(()), _misplaced(key)) for key in document if key not in ROOTS
    )
    roots = [root for root in ROOTS if root in document]
    if len(roots) == 2:
        raise SettingsError(f"{name}: [{ROOT}] and [evolution] are the same table; keep [{ROOT}]")
    root = roots[0] if roots else ROOT
    return FileContent(document.get(root, {}), Origin(name, found, root))


def _misplaced(key: str) -> str:
    if key in declared(Settings):
        return f"{key} must stand below [{ROOT}]"
    return f"unknown table or key {key}{nearest(key, ROOTS)}"


def _short(path: Path, folder: Path) -> Path:
    return path.relative_to(folder) if path.is_relative_to(folder) else path


def _behind(value: str, env: Mapping[str, str], root: Path) -> str:
    kind, _, name = value.partition(":")
    if kind == "env":
        if name not in env:
            raise LookupError(f"the environment has no {name}")
        return env[name]
    path = root / Path(name).expanduser()
    try:
        return path.read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise LookupError(f"{path} cannot be read ({reason})") from error


def _environment(
    env: Mapping[str, str],
) -> tuple[dict[str, Any], dict[lines.Path, str], list[Problem]]:
    """Values of `PRX__...` variables as a tree, the variable of each key, and the names that fit no key."""
    tree: dict[str, Any] = {}
    variables: dict[lines.Path, str] = {}
    problems: list[Problem] = []
    for variable in sorted(name for name in env if name.startswith(PREFIX)):
        words = [word.lower() for word in variable.removeprefix(PREFIX).split("__")]
        path: lines.Path = tuple(words[1:] if words[0] in ROOTS else words)
        kind = kind_of(path)
        if kind is None:
            problems.append(Problem(variable, f"no key is called {dotted(path)}{_hint(path)}"))
            continue
        branch = tree
        for part in path[:-1]:
            branch = branch.setdefault(str(part), {})
        branch[str(path[-1])] = from_text(env[variable], kind)
        variables[path] = variable
    return tree, variables, problems


def kind_of(path: lines.Path) -> Any:
    """Type of the key at `path`, or None when there is no such key."""
    section: type | None = Settings
    kind: Any = None
    parts = list(path)
    while parts:
        if section is None:
            return None
        part = parts.pop(0)
        keys = declared(section)
        key = keys.get(str(part)) or next((k for k in keys.values() if part and k.alias == part), None)
        if key is None:
            return None
        kind, section = key.kind, section_in(key.kind)
        if is_named(kind) and parts:
            parts.pop(0)
            kind = section
    return kind


def _hint(path: lines.Path) -> str:
    for length in range(len(path) - 1, -1, -1):
        section = section_in(kind_of(path[:length])) if length else Settings
        if section is not None:
            return nearest(str(path[length]), declared(section))
    return f"; {REFERENCE}"


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Both trees; `above` wins. An alias above replaces the key below."""
    merged = dict(below)
    for name, value in above.items():
        if name in ("interval", "schedule"):
            merged.pop("interval", None)
            merged.pop("schedule", None)
        under = merged.get(name)
        both = isinstance(value, Mapping) and isinstance(under, Mapping)
        merged[name] = _merged(under, value) if both else value  # type: ignore[arg-type]
    return merged


def settings_hash(settings: Settings) -> str:
    """`sha256:...` of every key in force. A secret enters only as given or not, so nothing of it leaks."""
    return content_hash(plain(settings))


def plain(settings: Settings) -> dict[str, Any]:
    """The configuration as tables and values; a secret shows as `(set)` or an empty text."""
    return _plain(settings)


def _plain(section: Any) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    for key in declared(type(section)).values():  # type: ignore[arg-type]
        value = getattr(section, key.name)
        if key.secret:
            shown[key.name] = "(set)" if value else ""
        elif is_named(key.kind):
            shown[key.name] = {name: _plain(entry) for name, entry in value.items()}
        elif isinstance(value, tuple):
            shown[key.name] = [entry if isinstance(entry, str) else _plain(entry) for entry in value]
        else:
            shown[key.name] = _plain(value) if section_in(key.kind) else value
    return shown
