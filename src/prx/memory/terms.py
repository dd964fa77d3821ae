"""What a text is found by: its words without the common ones, English endings taken off, CJK as bigrams."""

from functools import lru_cache

from prx.domain.words import is_content, words

_SHORT_WORDS = "is it to of in on at by or an as be do he if me my no so up us we am go de la el en"
_SHORT = frozenset(_SHORT_WORDS.split())
_VOWELS = frozenset("aeiouy")


@lru_cache(maxsize=16384)
def terms_of(text: str) -> tuple[str, ...]:
    """Search terms in order, with repeats; empty when the text holds nothing to find it by."""
    return tuple(_stem(word) for word in words(text) if _tells(word))


def ascii_token(term: str) -> str:
    """The term as one token of ASCII letters and digits, the same to every tokenizer; never two alike."""
    if term.isascii() and term.isalnum() and not term.startswith("zz"):
        return term
    return f"zz{term.encode().hex()}"


def _tells(word: str) -> bool:
    if any(char.isdigit() for char in word) or is_content(word):
        return True
    return len(word) == 2 and word.isascii() and word not in _SHORT


def _stem(word: str) -> str:
    """The word without plural, -ed, -ing, -ly and final e; after steps 1 and 5 of Porter 1980, shortened."""
    if not (word.isascii() and word.isalpha()) or len(word) < 4:
        return word
    word = _singular(word)
    for ending in ("ing", "ed", "ly"):
        if (
            word.endswith(ending)
            and len(word) - len(ending) >= 3
            and not _VOWELS.isdisjoint(word[: -len(ending)])
        ):
            word = word[: -len(ending)]
            if word[-1] == word[-2] and word[-1] not in "lsz":
                word = word[:-1]
            break
    if word.endswith("y") and len(word) > 3:
        return f"{word[:-1]}i"
    return word[:-1] if word.endswith("e") and len(word) > 3 else word


def _singular(word: str) -> str:
    if word.endswith("sses"):
        return word[:-2]
    if word.endswith("ies"):
        return f"{word[:-3]}y"
    if word.endswith("s") and word[-2] not in "sui":
        return word[:-1]
    return word
