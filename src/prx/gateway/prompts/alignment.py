"""What two texts have in common, as constants around slots."""

import re
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher

# A token is a run of word characters, a run of spaces, or one other character.
_TOKEN = re.compile(r"\w+|\s+|[^\w\s]")
_VOLATILE = re.compile(
    r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,4}"
    r"|\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b"
    r"|\b\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:?\d{2})?)?"
    r"|\b(?:sk|pk|key|tok)[-_][\w-]{8,200}"
    r"|\b\d{5,}\b|\b[0-9a-fA-F]{16,}\b"
)
_SLOT: None = None
_LONGEST_BLOCK = 4_000
_LEAST_WORD = 4

Piece = str | None
"""A token, or None for a slot."""


def first_constants(text: str, known: Iterable[str] = ()) -> tuple[str, ...]:
    """Constants of the first text of its kind: all of it but mail addresses, dates, long numbers, keys,
    and what is `known` to belong to one session, such as the user's id."""
    marks = [re.escape(one) for one in known if len(one) >= _LEAST_WORD]
    pattern = re.compile("|".join((*marks, _VOLATILE.pattern))) if marks else _VOLATILE
    return _constants(_interleaved(pattern.split(text)))


def merged(constants: Sequence[str], text: str) -> tuple[str, ...]:
    """Constants that hold for both: a token that is not in both, in the same order, becomes a slot.

    Compares lines first and the tokens of differing lines after, so that long prompts stay cheap.
    """
    mine = _lines(_tokens(constants))
    theirs = _lines(_TOKEN.findall(text))
    out: list[Piece] = []
    for tag, a0, a1, b0, b1 in SequenceMatcher(None, mine, theirs, autojunk=False).get_opcodes():
        if tag == "equal":
            out += [token for line in mine[a0:a1] for token in line]
            continue
        ours = [token for line in mine[a0:a1] for token in line]
        other = [token for line in theirs[b0:b1] for token in line]
        out += _common(ours, other)
    return _constants(out)


def size(constants: Iterable[str]) -> int:
    """Letters and digits in the constants."""
    return sum(character.isalnum() for constant in constants for character in constant)


def words_of(text: str) -> frozenset[str]:
    """Words by which like prompts are found."""
    return frozenset(word for word in _TOKEN.findall(text) if word[0].isalnum())


def _common(ours: list[Piece], other: Sequence[Piece]) -> list[Piece]:
    if len(ours) > _LONGEST_BLOCK or len(other) > _LONGEST_BLOCK:
        return [_SLOT]
    out: list[Piece] = []
    for tag, a0, a1, _b0, _b1 in SequenceMatcher(None, ours, other, autojunk=False).get_opcodes():
        out += ours[a0:a1] if tag == "equal" else [_SLOT]
    return out


def _constants(pieces: Iterable[Piece]) -> tuple[str, ...]:
    """Runs of tokens between slots; a run too short to be more than chance joins the slots around it."""
    runs: list[str] = [""]
    for piece in pieces:
        if piece is None:
            runs.append("")
        else:
            runs[-1] += piece
    if len(runs) == 1:
        return (runs[0],)
    inner = [run for run in runs[1:-1] if _telling(run)]
    return (runs[0], *inner, runs[-1])


def _telling(run: str) -> bool:
    """Whether a run between two slots is surely text of the prompt's own."""
    return sum(character.isalnum() for character in run) >= _LEAST_WORD or "\n" in run


def _tokens(constants: Sequence[str]) -> list[Piece]:
    out: list[Piece] = []
    for place, constant in enumerate(constants):
        out += [_SLOT] * (place > 0)
        out += _TOKEN.findall(constant)
    return out


def _lines(tokens: Iterable[Piece]) -> list[tuple[Piece, ...]]:
    lines: list[tuple[Piece, ...]] = []
    line: list[Piece] = []
    for token in tokens:
        # A slot makes its line unlike every other, also unlike itself.
        line.append(token)
        if token is not None and "\n" in token:
            lines.append(tuple(line))
            line = []
    return [*lines, tuple(line)] if line else lines


def _interleaved(texts: Sequence[str]) -> list[Piece]:
    out: list[Piece] = []
    for place, text in enumerate(texts):
        out += [_SLOT] * (place > 0)
        out.append(text)
    return out
