"""A prompt as constants around slots; what fills a slot is kept verbatim and never becomes a constant."""

import re
from dataclasses import dataclass

_SLOT = re.compile(r"\{(slot_+\d+)\}")
_NO_NAMES: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Template:
    """`constants[0]`, slot `names[0]`, `constants[1]`, ...: one constant more than slots; the first and
    the last may be empty, those between two slots never are."""

    constants: tuple[str, ...]
    names: tuple[str, ...]

    @property
    def text(self) -> str:
        """The template as stored and shown, `{slot_1}` where a slot is."""
        out = [self.constants[0]]
        for name, constant in zip(self.names, self.constants[1:], strict=True):
            out += ["{", name, "}", constant]
        return "".join(out)

    def match(self, text: str) -> dict[str, str] | None:
        """What fills each slot, so that filling gives `text` again; None when the constants do not fit."""
        first, last = self.constants[0], self.constants[-1]
        if not self.names:
            return {} if text == first else None
        end = len(text) - len(last)
        if not text.startswith(first) or not text.endswith(last) or end < len(first):
            return None
        values, at = {}, len(first)
        for name, constant in zip(self.names[:-1], self.constants[1:-1], strict=True):
            found = text.find(constant, at, end)
            if found < 0:
                return None
            values[name] = text[at:found]
            at = found + len(constant)
        values[self.names[-1]] = text[at:end]
        return values


def template_of(constants: tuple[str, ...]) -> Template:
    """A template with slots named in order, by a name that no constant holds."""
    whole = "\n".join(constants)
    stem = "slot_"
    while "{" + stem in whole:
        stem += "_"
    return Template(constants, tuple(f"{stem}{n}" for n in range(1, len(constants))))


def parse(text: str, names: tuple[str, ...] | None = None) -> Template:
    """The template from its stored form; `names`: which placeholders are slots, by default all of their
    form."""
    pieces = _SLOT.split(text)
    constants, found = [pieces[0]], []
    for name, constant in zip(pieces[1::2], pieces[2::2], strict=True):
        if names is None or name in names:
            found.append(name)
            constants.append(constant)
        else:
            constants[-1] += "{" + name + "}" + constant
    return Template(tuple(constants), tuple(found))


def slot_names(text: str) -> frozenset[str]:
    """Names of what looks like a slot in a text."""
    return frozenset(_SLOT.findall(text)) if "{slot_" in text else _NO_NAMES
