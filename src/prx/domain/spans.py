"""What somebody said, as spans short enough to be found again wherever they were copied to."""

import re
from collections.abc import Iterator
from datetime import datetime

from prx.domain.plaintext import folded
from prx.domain.times import to_micros

WORDS = 6
"""Words in a row that are taken as copied (the length from which a span may enter nothing shared)."""
LETTERS = 12
"""The same for scripts without spaces, in letters."""
LEAST_WORDS = 4
"""A whole message of fewer words than `WORDS`, and at least these, is one span."""
_UNSPACED = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
_PIECE = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+")
_ONE = re.compile(rf"[{_UNSPACED}]")
# a name of its own: letters with digits, or an address
_OWN = re.compile(r"[\w.+@:/-]{6,}")
_DATE = re.compile(r"\d{4}-\d\d(-\d\d)?([t ]?[\d:.+z-]*)?")


class Said:
    """Spans of somebody's texts, each with the time at which it was said first.

    Args: `known`: names that are everybody's (models, tools, prompts), never taken as somebody's own.
    """

    def __init__(self, known: frozenset[str] = frozenset()) -> None:
        self._known = frozenset(folded(name) for name in known)
        self._first: dict[str, int] = {}

    def __bool__(self) -> bool:
        return bool(self._first)

    def only(self, spans: frozenset[str]) -> "Said":
        """These of its spans."""
        kept = Said(self._known)
        kept._first = {span: self._first[span] for span in spans}
        return kept

    def add(self, text: str, at: datetime) -> None:
        """Take in one text that was said at `at`."""
        when = to_micros(at)
        for span in self._spans(text, whole=True):
            self._first[span] = min(self._first.get(span, when), when)

    def first(self, span: str) -> int:
        """When the span was said first, in microseconds since 1970."""
        return self._first[span]

    def within(self, text: str) -> frozenset[str]:
        """The spans that the text holds."""
        return frozenset(span for span in self._spans(text, whole=False) if span in self._first)

    def _spans(self, text: str, *, whole: bool) -> Iterator[str]:
        plain = folded(text)
        for found in _OWN.findall(plain):
            word = found.strip(".:/-")
            if len(word) >= 6 and _is_own(word) and word not in self._known:
                yield word
        for run, size, least in _runs(plain):
            yield from _windows(run, size)
            if whole and least <= len(run) < size:
                yield " ".join(run)
            elif not whole:
                for shorter in range(least, size):
                    yield from _windows(run, shorter)


def _is_own(word: str) -> bool:
    if "@" in word.strip("@"):
        return True
    letters, digits = any(c.isalpha() for c in word), any(c.isdigit() for c in word)
    return letters and digits and not _DATE.fullmatch(word)


def _runs(plain: str) -> Iterator[tuple[list[str], int, int]]:
    """Words in a row of one way of writing, with the length of a span and of the least whole message."""
    run: list[str] = []
    unspaced = False
    for piece in _PIECE.findall(plain):
        here = bool(_ONE.fullmatch(piece))
        if run and here != unspaced:
            yield run, *_sizes(unspaced)
            run = []
        unspaced = here
        run.append(piece)
    if run:
        yield run, *_sizes(unspaced)


def _sizes(unspaced: bool) -> tuple[int, int]:
    return (LETTERS, LETTERS // 2) if unspaced else (WORDS, LEAST_WORDS)


def _windows(run: list[str], size: int) -> Iterator[str]:
    for start in range(len(run) - size + 1):
        yield " ".join(run[start : start + size])
