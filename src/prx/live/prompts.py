"""Prompt templates: `{name}` is filled where a value was given, everything else stays as it is."""

import re
from collections.abc import Mapping

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

    def fill(match: re.Match[str]) -> str:
        name = match["name"]
        if name is None:
            return ""
        return str(values[name]) if name in values else match[0]

    return _PIECE.sub(fill, template)


def placeholders(template: str) -> frozenset[str]:
    """Names that stand in braces in the template."""
    return frozenset(match["name"] for match in _PLACEHOLDER.finditer(template))


def fixed_sections(template: str) -> tuple[str, ...]:
    """Texts between the markers, in order; a section that is not closed reaches to the end."""
    sections = []
    for piece in template.split(FIXED_OPEN)[1:]:
        sections.append(piece.split(FIXED_CLOSE, 1)[0])
    return tuple(sections)
