"""Prompt templates: placeholders, immutable sections, and the text that a request really held."""

import re
from collections import Counter
from collections.abc import Mapping

from prx.domain.errors import InvalidInput

FIXED_START = "<!-- prx:fixed -->"
FIXED_END = "<!-- /prx:fixed -->"
_PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_MARKER = re.compile(f"{re.escape(FIXED_START)}|{re.escape(FIXED_END)}")
# anything that a careless reader or another tool may take for a marker
_LOOSE_MARKER = re.compile(r"<!--\s*/?\s*prx\s*:\s*fixed\s*-->", re.IGNORECASE)


def placeholders(text: str) -> Counter[str]:
    """How often each `{name}` occurs."""
    return Counter(_PLACEHOLDER.findall(text))


def fixed_sections(text: str) -> tuple[str, ...]:
    """Immutable sections in order, without their markers. Raises: InvalidInput when markers do not pair."""
    marks = list(_MARKER.finditer(text))
    if len(marks) != len(_LOOSE_MARKER.findall(text)):
        raise InvalidInput(f"a marker of a fixed section is misspelt; write {FIXED_START} and {FIXED_END}")
    expected = [FIXED_START, FIXED_END] * (len(marks) // 2)
    if [mark[0] for mark in marks] != expected:
        raise InvalidInput(f"fixed sections do not pair; every {FIXED_START} needs its {FIXED_END}, unnested")
    starts, ends = marks[::2], marks[1::2]
    return tuple(text[start.end() : end.start()] for start, end in zip(starts, ends, strict=True))


def render(text: str, values: Mapping[str, str]) -> str:
    """The template with every placeholder filled. Raises: InvalidInput naming those without a value."""
    missing = sorted(set(placeholders(text)) - set(values))
    if missing:
        raise InvalidInput(f"no value was recorded for {', '.join(missing)}; this text cannot be rendered")
    return _PLACEHOLDER.sub(lambda match: values[match[1]], text)
