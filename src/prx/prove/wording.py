"""What an edit may not bring into a prompt: addresses, tools, roles, permissions, talk to the examiner."""

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from prx.domain.answers import Failed
from prx.domain.codec import content_hash
from prx.domain.plaintext import folded, skeleton


@dataclass(frozen=True, slots=True)
class _Forbidden:
    code: str
    what: str
    pattern: re.Pattern[str]


@dataclass(frozen=True, slots=True)
class _Tables:
    forbidden: tuple[_Forbidden, ...]
    tools: re.Pattern[str]
    safeguards: re.Pattern[str]
    digest: str


def new_wording(before: str, after: str, known_tools: Iterable[str] = ()) -> Failed | None:
    """What `after` brings in that `before` had not and an edit may not; None when nothing."""
    old, new = _forms(before), _forms(after)
    for row in _tables().forbidden:
        gained = _hits(row.pattern, new) - _hits(row.pattern, old)
        if gained:
            return Failed(f"the change brings in {row.what}: {min(gained)[:80]!r}", row.code)
    known = {tool.casefold() for tool in known_tools}
    tools = {hit for hit in _tools(new) - _tools(old) if hit not in known}
    if tools:
        return Failed(f"the change names a tool that is not there: {min(tools)[:80]!r}", "new_tool_name")
    return None


def lost_safeguards(before: str, after: str) -> Failed | None:
    """Whether `after` holds fewer words of confirmation, record keeping, safety and privacy."""
    old, new = (_tables().safeguards.findall(folded(text)) for text in (before, after))
    if len(new) >= len(old):
        return None
    gone = sorted(set(old) - set(new)) or sorted(set(old))
    return Failed(f"the change takes out a safeguard ({', '.join(gone)[:80]})", "removes_safeguard")


def wording_digest() -> str:
    """Content hash of the tables, recorded with every gate."""
    return _tables().digest


@cache
def _tables() -> _Tables:
    raw = tomllib.loads(resources.files("prx.prove").joinpath("wording.toml").read_text(encoding="utf-8"))
    fragments: dict[str, str] = raw["fragments"]

    def compiled(section: dict[str, Any]) -> re.Pattern[str]:
        joined = "|".join(section["patterns"])
        for name, fragment in fragments.items():
            joined = joined.replace(f"<{name}>", fragment)
        return re.compile(joined)

    forbidden = tuple(_Forbidden(row["code"], row["what"], compiled(row)) for row in raw["forbidden"])
    return _Tables(forbidden, compiled(raw["tools"]), compiled(raw["safeguards"]), content_hash(raw))


def _forms(text: str) -> tuple[str, ...]:
    """Line by line for what begins a line, as one line for phrases broken over lines; lookalikes folded."""
    lines = [folded(line) for line in text.splitlines()]
    return ("\n".join(lines), " ".join(lines), skeleton(text))


def _hits(pattern: re.Pattern[str], forms: tuple[str, ...]) -> set[str]:
    return {match[0].strip() for form in forms for match in pattern.finditer(form)}


def _tools(forms: tuple[str, ...]) -> set[str]:
    return {
        next(group for group in match.groups() if group)
        for form in forms
        for match in _tables().tools.finditer(form)
    }
