"""What a text hides from its reader: unseen characters, lookalikes, and encoded text."""

import base64
import binascii
import html
import re
import unicodedata
from collections.abc import Iterator
from urllib.parse import unquote

from prx.domain.answers import Failed
from prx.domain.plaintext import folded, is_unseen, unmixed

_MAX_DEPTH = 3
_MIN_DECODED = 12
_MAX_MARKS = 3
_WORD = re.compile(r"[^\W\d_]+")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{6,}={0,2}")
_HEX = re.compile(r"(?:(?:0x|\\x)?[0-9A-Fa-f]{2}[ ,:]?){12,}")
_ESCAPES = re.compile(r"(?:\\u\{?[0-9A-Fa-f]{4,6}\}?|\\x[0-9A-Fa-f]{2}){6,}")
_ESCAPE = re.compile(r"\\u\{?([0-9A-Fa-f]{4,6})\}?|\\x([0-9A-Fa-f]{2})")
_PERCENT = re.compile(r"(?:%[0-9A-Fa-f]{2}[\w.~-]{0,8}){4,}")
_ENTITIES = re.compile(r"(?:&#x?[0-9A-Fa-f]{1,6};){4,}")


def hidden_text(before: str, after: str) -> Failed | None:
    """Whether `after` brings in what `before` had not; None when it hides nothing new."""
    return _unseen(before, after) or _lookalikes(before, after) or _encoded(before, after)


def decoded_texts(text: str) -> set[str]:
    """Readable texts that are encoded in `text` (base64, hex, URL, escapes), unpacked up to depth 3."""
    found: set[str] = set()
    layer = {text}
    for _ in range(_MAX_DEPTH):
        layer = {inner for outer in layer for inner in _decode_once(outer)} - found
        found |= layer
    return found


def _unseen(before: str, after: str) -> Failed | None:
    known = set(before)
    for previous, char in zip(" " + after, after, strict=False):
        if char in known or not is_unseen(char):
            continue
        # a variation selector right after a symbol only says: draw it as emoji
        if char == "\ufe0f" and unicodedata.category(previous) in {"So", "Sm", "Po"}:
            continue
        name = unicodedata.name(char, "unnamed")
        return Failed(f"the change holds an unseen character U+{ord(char):04X} ({name})", "hidden_characters")
    marks = 0
    for char in after:
        marks = marks + 1 if unicodedata.combining(char) else 0
        if marks > _MAX_MARKS and after not in before:
            return Failed("the change stacks combining marks on one letter", "hidden_characters")
    return None


def _lookalikes(before: str, after: str) -> Failed | None:
    known = set(_WORD.findall(before))
    for word in sorted(set(_WORD.findall(after)) - known):
        plain = unicodedata.normalize("NFKC", word)
        styled = any(not c.isascii() and n.isascii() and n.isalpha() for c, n in _pairs(word))
        if styled or unmixed(folded(word)) != folded(word):
            return Failed(f"the word {plain!r} is written with lookalike letters", "lookalike_letters")
    return None


def _pairs(word: str) -> Iterator[tuple[str, str]]:
    for char in word:
        yield char, unicodedata.normalize("NFKC", char)


def _encoded(before: str, after: str) -> Failed | None:
    new = decoded_texts(after) - decoded_texts(before)
    if not new:
        return None
    return Failed(f"the change holds encoded text that reads {min(new)[:60]!r}", "encoded_text")


def _decode_once(text: str) -> Iterator[str]:
    yield from filter(_readable, _base64_texts(text))
    for match in _HEX.finditer(text):
        digits = re.sub(r"0x|\\x|[^0-9A-Fa-f]", "", match[0])
        # a neighbouring word such as "be" may read as hex too, so bytes that are no text are passed over
        decoded = bytes.fromhex(digits[: len(digits) // 2 * 2]).decode("utf-8", "ignore")
        yield from filter(_readable, [decoded])
    for match in _ESCAPES.finditer(text):
        codes = (int(m[1] or m[2], 16) for m in _ESCAPE.finditer(match[0]))
        yield from filter(_readable, ["".join(chr(code) for code in codes if code < 0x110000)])
    for match in _PERCENT.finditer(text):
        yield from filter(_readable, [unquote(match[0], errors="replace")])
    for match in _ENTITIES.finditer(text):
        yield from filter(_readable, [html.unescape(match[0])])


def _base64_texts(text: str) -> Iterator[str]:
    """Single tokens, and neighbours joined, since an encoded text may be broken over blanks and lines."""
    runs: list[list[str]] = [[]]
    end = 0
    for match in _BASE64.finditer(text):
        if text[end : match.start()].strip() or not _looks_encoded(match[0]):
            runs.append([])
        if _looks_encoded(match[0]):
            runs[-1].append(match[0])
        end = match.end()
    for run in filter(None, runs):
        for candidate in {"".join(run), *run}:
            body = candidate.rstrip("=").translate(str.maketrans("-_", "+/"))
            body = body[: len(body) - 1] if len(body) % 4 == 1 else body
            try:
                yield from _utf8(base64.b64decode(body + "=" * (-len(body) % 4), validate=True))
            except (binascii.Error, ValueError):
                continue


def _looks_encoded(token: str) -> bool:
    inner = token.rstrip("=")
    return (
        token != inner or any(c.isdigit() for c in inner) or (inner != inner.lower() and not inner.isupper())
    )


def _utf8(raw: bytes) -> Iterator[str]:
    try:
        yield raw.decode("utf-8")
    except UnicodeDecodeError:
        return


def _readable(text: str) -> bool:
    if len(text) < _MIN_DECODED:
        return False
    printable = sum(char.isprintable() or char in "\n\t" for char in text)
    lettered = sum(char.isalpha() or char == " " for char in text)
    return printable == len(text) and lettered >= 0.6 * len(text)
