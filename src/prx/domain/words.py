"""Words of a text in English, Spanish, Russian, Chinese, Japanese and Korean; CJK as bigrams."""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from prx.domain.answers import NotEnoughData
from prx.domain.plaintext import folded, unmixed

CJK = "\u3005\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003134f"
_RUN = re.compile(rf"(?P<cjk>[{CJK}]+)|(?P<word>(?:(?![{CJK}])[^\W_])+(?:['’](?:(?![{CJK}])[^\W_])+)*)")
# Thai, Lao, Tibetan, Myanmar and Khmer are written without spaces and need a dictionary
_UNSEGMENTED = re.compile(r"[\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff]")
_LETTER = re.compile(r"[^\W\d_]")
MAX_WORD = 40


def words(text: str) -> tuple[str, ...]:
    """Folded words in order; a run of Chinese, Japanese or Korean gives its overlapping bigrams.

    A run of one such character gives that character. Words are at most `MAX_WORD` characters long.
    """
    return tuple(_words(folded(text)))


def content_words(text: str) -> tuple[str, ...] | NotEnoughData:
    """Words that may describe a topic: without digits, function words and single Latin letters.

    NotEnoughData where most letters belong to a script whose words cannot be told apart here.
    """
    if unsegmented(text):
        return NotEnoughData("the text is in a script written without spaces (such as Thai), not supported")
    return tuple(word for word in words(text) if is_content(word))


@lru_cache(maxsize=65536)
def is_content(word: str) -> bool:
    """True for a word that may describe a topic."""
    if any(char.isdigit() for char in word) or word in _FUNCTION_WORDS:
        return False
    if is_cjk(word):
        return len(word) == 2 and not all("\u3040" <= char <= "\u309f" for char in word)
    return len(word) > 2


def unsegmented(text: str) -> bool:
    """True when at least half of the letters are of a script written without spaces between words."""
    return 2 * len(_UNSEGMENTED.findall(text)) >= max(1, len(_LETTER.findall(text)))


def is_cjk(word: str) -> bool:
    """True for a bigram (or single character) of Chinese, Japanese or Korean."""
    match = _RUN.match(word)
    return match is not None and match["cjk"] is not None


def span_units(text: str) -> list[tuple[str, float]]:
    """The text as units with their weight in words: a word 1, a CJK character one half."""
    units: list[tuple[str, float]] = []
    for match in _RUN.finditer(folded(text)):
        units.extend((char, 0.5) for char in match["cjk"]) if match["cjk"] else units.append(
            (match["word"], 1)
        )
    return units


def spans(text: str, length: int) -> set[tuple[str, ...]]:
    """Every run of units that weighs `length` words, as a set for overlap tests."""
    units = span_units(text)
    found: set[tuple[str, ...]] = set()
    start, weight = 0, 0.0
    for end, (_, gained) in enumerate(units):
        weight += gained
        while weight - units[start][1] >= length:
            weight -= units[start][1]
            start += 1
        if weight >= length:
            found.add(tuple(unit for unit, _ in units[start : end + 1]))
    return found


def jaccard(a: frozenset[str], b: frozenset[str]) -> float:
    """Shared over all distinct words, 0..1; two empty sets are equal (1)."""
    every = len(a | b)
    return len(a & b) / every if every else 1.0


def mentioned_share(name: str, text_words: Sequence[str] | frozenset[str]) -> float:
    """Share of the words of a label such as `card_arrival` that `text_words` holds, 0..1."""
    wanted = set(words(name))
    return len(wanted & set(text_words)) / len(wanted) if wanted else 0.0


def _words(text: str) -> Iterator[str]:
    for match in _RUN.finditer(text):
        run = match["cjk"]
        if run is None:
            yield unmixed(match["word"])[:MAX_WORD]
        elif len(run) == 1:
            yield run
        else:
            yield from (run[i : i + 2] for i in range(len(run) - 1))


_FUNCTION_WORD_LIST = """
the and for are was were been has have had does did doing not but you your yours they them their she her
his him its our ours who whom what which when where why how this that these those there here with from into
onto out off over under about than then too very can could would should shall will just only also some any
all each more most such own same please thanks thank hello hey i'm i've i'd i'll it's that's don't can't
didn't get got let
los las una unos unas del que por para con sin sobre entre como más pero sus este esta esto ese esa eso
estos estas muy también hay fue son está están ser estar tiene tengo mis nos les qué cómo cuándo dónde
porque cuando donde hola gracias favor
это что как для при без над под или если где когда почему потому чтобы так тоже уже еще ещё был была было
были есть быть мне меня мой моя мое моё мои вам вас ваш они она оно его ему нас нам наш про все всё
пожалуйста спасибо здравствуйте
我的 你的 他的 是的 什么 怎么 可以 这个 那个 请问 一个 没有 我们 你们
"""
_FUNCTION_WORDS = frozenset(_FUNCTION_WORD_LIST.split())
