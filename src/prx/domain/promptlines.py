"""The lines of a prompt: which are fixed, which speaks about an intent, what placeholders they hold."""

import re
from collections import Counter
from collections.abc import Iterable

from prx.domain.words import mentioned_share, words

FIXED_START = "<!-- prx:fixed -->"
FIXED_END = "<!-- /prx:fixed -->"
_FIXED = re.compile(rf"{re.escape(FIXED_START)}.*?(?:{re.escape(FIXED_END)}|\Z)", re.DOTALL)
_PLACEHOLDER = re.compile(r"\{[^\W\d]\w*\}")
_MENTIONS_FROM = 0.99
_LABEL_END = (":", "：", " - ", " – ", " — ")
_MARKERS = "-*•·>#0123456789.) \t`'\""
_MAX_LABEL = 60


def fixed_sections(text: str) -> tuple[str, ...]:
    """The immutable sections, marks included, in order; an open one reaches to the end."""
    return tuple(match.group() for match in _FIXED.finditer(text))


def editable_lines(text: str) -> tuple[str, ...]:
    """Lines that lie wholly outside of fixed sections, that hold more than space, and that occur once."""
    outside = _FIXED.sub("\0", text)
    every = Counter(text.splitlines())
    return tuple(
        line for line in outside.splitlines() if line.strip() and "\0" not in line and every[line] == 1
    )


def placeholders(text: str) -> Counter[str]:
    """Placeholders such as `{name}` with how often each occurs."""
    return Counter(_PLACEHOLDER.findall(text))


def line_about(text: str, intent: str) -> str | None:
    """The line that is about `intent`: labelled with it, else the shortest that has all of its words.

    None when no line mentions it. Words as in `words`, so CJK labels compare by bigrams.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    wanted = words(intent)
    if not wanted:
        return None
    labelled = [line for line in lines if words(label_of(line) or "") == wanted]
    if labelled:
        return labelled[0]
    telling = [line for line in lines if mentioned_share(intent, words(line)) >= _MENTIONS_FROM]
    return min(telling, key=lambda line: (len(line), lines.index(line)), default=None)


def label_of(line: str) -> str | None:
    """The name before a colon or dash, such as `card_arrival` in `- card_arrival: when a card ...`."""
    ends = [at for mark in _LABEL_END if (at := line.find(mark)) > 0]
    label = line[: min(ends)].strip(_MARKERS) if ends else ""
    return label if 0 < len(label) <= _MAX_LABEL else None


def known_labels(texts: Iterable[str], intents: Iterable[str]) -> dict[str, str]:
    """Spelling to use by `key_of`: intents as recorded, and labels of prompt lines, which win."""
    labels = [label for text in texts for line in text.splitlines() if (label := label_of(line))]
    return {key_of(name): name for name in (*intents, *labels) if key_of(name)}


def key_of(label: str) -> str:
    """`label` without case, separators and marks."""
    return " ".join(words(label))
