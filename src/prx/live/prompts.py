"""Prompt templates: `{name}` is filled where a value was given, everything else stays as it is."""

import re
from collections.abc import Mapping
from functools import lru_cache

FIXED_OPEN = "<!-- prx:fixed -->"
FIXED_CLOSE = "<!-- /prx:fixed -->"
_MARKER = r"(?P<marker><!-- /?prx:fixed -->(?:\r?\n)?)"
_NAME = r"\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)\}"
_PIECE = re.compile(f"{_MARKER}|{_NAME}")
_PLACEHOLDER = re.compile(_NAME)


def render(template: str, values: Mapping[str, object]) -> str:
    """The text for the model: given values in place, markers of fixed sections taken out.

    One pass: a value is never searched for placeholders or markers. Braces around anything that is not the
    name of a given value, such as JSON, stay untouched.
    """
    return "".join(
        [
            text if name is None or name not in values else str(values[name])
            for text, name in _pieces(template)
        ]
    )


@lru_cache(maxsize=512)
def placeholders(template: str) -> frozenset[str]:
    """Names that stand in braces in the template."""
    return frozenset(match["name"] for match in _PLACEHOLDER.finditer(template))


@lru_cache(maxsize=512)
def _pieces(template: str) -> tuple[tuple[str, str | None], ...]:
    """The template without its markers, as texts; a placeholder comes with its name."""
    pieces: list[tuple[str, str | None]] = []
    at = 0
    for match in _PIECE.finditer(template):
        pieces.append((template[at : match.start()], None))
        if match["name"] is not None:
            pieces.append((match[0], match["name"]))
        at = match.end()
    return (*pieces, (template[at:], None))


def fixed_sections(template: str) -> tuple[str, ...]:
    """Texts between the markers, in order; a section that is not closed reaches to the end."""
    sections = []
    for piece in template.split(FIXED_OPEN)[1:]:
        sections.append(piece.split(FIXED_CLOSE, 1)[0])
    return tuple(sections)
