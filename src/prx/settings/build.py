"""From loose values, as TOML or the environment give them, to the typed Settings."""

import dataclasses
import tomllib
import typing
from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType, UnionType
from typing import Any

from prx.settings.keys import Check
from prx.settings.lines import Path
from prx.settings.problems import Origin, Problem, dotted, nearest

Resolve = Callable[[str], str]
"""Content behind `env:NAME` or `file:PATH`. Raises: LookupError saying what is missing."""

_NAMES: dict[type, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text in quotes",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Declared:
    """A key as its section declares it."""

    name: str
    kind: Any
    default: Any
    doc: str
    check: Check | None
    alias: str
    secret: bool
    idle: bool
    required: bool = False


@cache
def declared(section: type) -> Mapping[str, Declared]:
    """Keys and subsections of a section class by name, in order of declaration."""
    hints = typing.get_type_hints(section)
    found: dict[str, Declared] = {}
    for item in dataclasses.fields(section):
        if item.metadata.get("outside"):
            continue
        default = item.default if item.default is not dataclasses.MISSING else _made(item)
        found[item.name] = Declared(
            name=item.name,
            kind=hints[item.name],
            default=default,
            doc=item.metadata.get("doc", ""),
            check=item.metadata.get("check"),
            alias=item.metadata.get("alias", ""),
            secret=bool(item.metadata.get("secret")),
            idle=bool(item.metadata.get("idle")),
            required=bool(item.metadata.get("required")),
        )
    return MappingProxyType(found)


def _made(item: "dataclasses.Field[Any]") -> Any:
    return item.default_factory() if item.default_factory is not dataclasses.MISSING else None


def section_in(kind: Any) -> type | None:
    """The section class that a kind holds: itself, the entries of a list, or the values of a named table."""
    inner = (
        typing.get_args(kind)[-1] if is_named(kind) else typing.get_args(kind)[0] if is_list(kind) else kind
    )
    return inner if isinstance(inner, type) and dataclasses.is_dataclass(inner) else None


def is_list(kind: Any) -> bool:
    """Whether the kind is a list (`tuple[X, ...]`)."""
    return typing.get_origin(kind) is tuple


def is_named(kind: Any) -> bool:
    """Whether the kind is a table of named entries (`Mapping[str, X]`)."""
    return typing.get_origin(kind) is not None and not is_list(kind) and not isinstance(kind, UnionType)


class Builder:
    """Collects everything that is wrong instead of stopping at the first fault."""

    def __init__(self, origin: Callable[[Path], Origin], resolve: Resolve) -> None:
        self._origin = origin
        self._resolve = resolve
        self.problems: list[Problem] = []
        self.notes: list[str] = []

    def blame(self, path: Path, what: str) -> None:
        """Add a problem at the place where `path` was given."""
        self.problems.append(Problem(self._origin(path).at(path), what))

    def _note(self, path: Path, what: str) -> None:
        self.notes.append(f"{self._origin(path).at(path)}: {what}")

    def section(self, kind: type, values: Any, path: Path) -> Any:
        """A section from its table; keys not given, or given wrongly, keep their default."""
        if not isinstance(values, Mapping):
            self.blame(path, f"{dotted(path)} must be a table of keys, not {_shown(values)}")
            return kind()
        keys = declared(kind)
        given = self._canonical(keys, values, path)
        built = {
            name: self._value(keys[name], value, (*path, name))
            for name, value in given.items()
            if name in keys
        }
        return kind(**{name: value for name, value in built.items() if value is not _FAULTY})

    def _canonical(
        self, keys: Mapping[str, Declared], values: Mapping[str, Any], path: Path
    ) -> dict[str, Any]:
        aliases = {key.alias: key.name for key in keys.values() if key.alias}
        given: dict[str, Any] = {}
        for name, value in values.items():
            key = aliases.get(name, name)
            if key not in keys:
                self.blame((*path, name), f"unknown key {dotted((*path, name))}{nearest(name, keys)}")
            elif key in given:
                self.blame((*path, name), f"{dotted((*path, key))} and {name} are the same key; keep one")
            else:
                given[key] = value
        return given

    def _value(self, key: Declared, value: Any, path: Path) -> Any:
        section = section_in(key.kind)
        if is_list(key.kind):
            return self._list(key, section, value, path)
        if is_named(key.kind):
            return self._named(section, value, path)
        if section is not None:
            return self.section(section, self._shorthand(path, value), path)
        return self._scalar(key, value, path)

    def _shorthand(self, path: Path, value: Any) -> Any:
        if path == ("models", "judge") and isinstance(value, str) and value.startswith("checker:"):
            return {"checker": value.removeprefix("checker:")}
        return value

    def _list(self, key: Declared, section: type | None, value: Any, path: Path) -> Any:
        if section is None and isinstance(value, str):
            return (value,)
        if not isinstance(value, list | tuple):
            self.blame(path, f"{dotted(path)} must be a list, not {_shown(value)}")
            return _FAULTY
        if section is not None:
            return tuple(self.section(section, entry, (*path, i)) for i, entry in enumerate(value))
        element = dataclasses.replace(key, kind=typing.get_args(key.kind)[0])
        built = [self._scalar(element, entry, (*path, i)) for i, entry in enumerate(value)]
        return _FAULTY if _FAULTY in built else tuple(built)

    def _named(self, section: type | None, value: Any, path: Path) -> Any:
        if not isinstance(value, Mapping) or section is None:
            self.blame(path, f"{dotted(path)} must be tables, one for each name, not {_shown(value)}")
            return _FAULTY
        return MappingProxyType({name: self.section(section, v, (*path, name)) for name, v in value.items()})

    def _scalar(self, key: Declared, value: Any, path: Path) -> Any:
        value = self._behind(key, value, path)
        if value is _FAULTY:
            return value
        fitted = fit(value, key.kind)
        if fitted is None:
            given = "the value" if key.secret else _shown(value)
            self.blame(path, f"{dotted(path)} must be {allowed(key)}, not {given}")
            return _FAULTY
        if key.check is not None and not key.check.accepts(fitted):
            given = dotted(path) if key.secret else f"{dotted(path)} = {_shown(value)}"
            self.blame(path, f"{given} is not accepted; allowed: {allowed(key)}")
            return _FAULTY
        if key.idle and fitted != key.default:
            self._note(path, f"{dotted(path)} is set, but nothing in this version acts on it yet")
        return fitted

    def _behind(self, key: Declared, value: Any, path: Path) -> Any:
        if not isinstance(value, str) or not value.startswith(("env:", "file:")):
            return value
        try:
            return from_text(self._resolve(value), key.kind)
        except LookupError as error:
            text = f"{dotted(path)} = {_shown(value)}: {error.args[0]}"
            if key.secret and not key.required:
                self._note(path, f"{text}; it counts as not configured")
                return key.default
            self.blame(path, text)
            return _FAULTY


class _Faulty:
    """Stands for a value that was refused, so that its key keeps the default."""


_FAULTY = _Faulty()


def fit(value: Any, kind: Any) -> Any:
    """The value as `kind` (a whole number is a number, a number of seconds is a schedule), or None."""
    kinds = typing.get_args(kind) or (kind,)
    if isinstance(value, bool):
        return value if bool in kinds else None
    if isinstance(value, int):
        return _whole(value, kinds)
    if isinstance(value, float):
        return value if float in kinds else None
    return value if isinstance(value, str) and str in kinds else None


def _whole(value: int, kinds: tuple[Any, ...]) -> Any:
    if int in kinds:
        return value
    if float in kinds:
        return float(value) if abs(value) < 2**63 else None
    return str(value) if str in kinds else None


def from_text(text: str, kind: Any) -> Any:
    """A value written as bare text (environment, `--set`, `env:`, `file:`) for a key of this kind.

    A text key takes it as it is; other kinds read it as TOML, and keep the text when it is none.
    """
    if kind is str:
        return text
    try:
        return tomllib.loads(f"value = {text.strip()}")["value"]
    except (tomllib.TOMLDecodeError, KeyError):
        return text


def allowed(key: Declared) -> str:
    """What the key takes, in words."""
    kinds = typing.get_args(key.kind) if isinstance(key.kind, UnionType) else (key.kind,)
    if key.check is None:
        return " or ".join(_NAMES.get(kind, "a list of texts") for kind in kinds)
    whole = "a whole number " if kinds == (int,) else "a number " if kinds == (float,) else ""
    return f"{whole}{key.check.allowed}"


def _shown(value: Any) -> str:
    text = repr(value) if not isinstance(value, str) else f'"{value}"'
    if isinstance(value, bool):
        text = str(value).lower()
    return text if len(text) <= 60 else f"{text[:57]}..."
