"""Recorded text made safe to show, and brought to one form for comparison."""

import re
import unicodedata

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_BLANKS = frozenset("\u115f\u1160\u3164\uffa0\u2800\u034f\u180b\u180c\u180d\u180f")
_SPACE = frozenset(" \t\n\r\v\f")

# Cyrillic and Greek letters that look like Latin ones (subset of Unicode TR39 confusables), casefolded
_LOOKALIKES = str.maketrans(
    "абвгеёзикмнорстухчьѕіјԁһԛԝαβεηικνορτυχγϲӏ",
    "abbreeeukmhopctyx4bsijdhqwabenikvoptuxycl",
)
_CYRILLIC_OR_GREEK = re.compile(r"[\u0370-\u03ff\u0400-\u052f]")
_LATIN = re.compile(r"[a-z]")


def quoted(text: str, limit: int = 120) -> str:
    """`text` on one line, harmless to a terminal, a log and a reader: at most `limit` characters.

    Terminal sequences are dropped; control, bidirectional, zero-width and other unseen characters are
    written as `\\u{hex}`; what does not fit ends in `…`.
    """
    if len(text) < limit and _is_plain(text):
        return " ".join(text.split())
    shown: list[str] = []
    size = 0
    for char in _ANSI.sub("", text[: limit * 8]):
        piece = " " if char in _SPACE else f"\\u{{{ord(char):x}}}" if is_unseen(char) else char
        if piece == " " and shown and shown[-1] == " ":
            continue
        if size + len(piece) > limit - 1:
            shown.append("…")
            break
        shown.append(piece)
        size += len(piece)
    return "".join(shown).strip()


def is_unseen(char: str) -> bool:
    """True for a character that shows nothing or changes how others show; plain spaces are none."""
    if char in _SPACE:
        return False
    return char in _BLANKS or unicodedata.category(char) in _UNSEEN or "\ufe00" <= char <= "\ufe0f"


def folded(text: str) -> str:
    """NFKC, case folded, unseen characters removed, spaces squeezed; keeps accents and every script."""
    if _is_plain(text):
        return " ".join(text.casefold().split())
    normal = unicodedata.normalize("NFKC", _ANSI.sub("", text)).casefold()
    seen = "".join(char for char in normal if not is_unseen(char))
    return " ".join(unicodedata.normalize("NFKC", seen).split())


def _is_plain(text: str) -> bool:
    """Printable ASCII on one line: nothing to hide, nothing to fold but case."""
    return text.isascii() and text.isprintable()


def unmixed(word: str) -> str:
    """A folded word without lookalikes from another script; a word wholly in one script stays as it is."""
    if _LATIN.search(word) and _CYRILLIC_OR_GREEK.search(word):
        return word.translate(_LOOKALIKES)
    return word


def skeleton(text: str) -> str:
    """Key for comparison only, never for display: `folded`, lookalikes as Latin, Latin accents dropped.

    Texts that a reader takes for the same share it. Source: the idea of Unicode TR39 section 4, with a
    smaller table.
    """
    plain: list[str] = []
    latin = False
    for char in unicodedata.normalize("NFD", folded(text)):
        if unicodedata.combining(char):
            if not latin:
                plain.append(char)
            continue
        latin = bool(_LATIN.match(char))
        plain.append(char)
    return unicodedata.normalize("NFC", "".join(plain)).translate(_LOOKALIKES)
