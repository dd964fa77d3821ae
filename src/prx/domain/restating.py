"""Whether two texts say the same thing in nearly the same words."""

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from prx.domain.facts import facts_of
from prx.domain.words import jaccard, words

RESTATES_FROM = 0.9


@dataclass(frozen=True, slots=True)
class Saying:
    """Words, neighbouring words in order, and facts of a text."""

    shingles: frozenset[str]
    facts: frozenset[tuple[str, str]]


@lru_cache(maxsize=16384)
def saying_of(text: str) -> Saying:
    """The text in the form that is compared."""
    said = words(text)
    shingles = frozenset(said) | {f"{a} {b}" for a, b in pairwise(said)}
    # a name at the start of a sentence is not seen as one, so it must not make a difference in the middle
    return Saying(shingles, frozenset(fact for fact in facts_of(text) if fact[0] != "name"))


def restates(a: Saying, b: Saying) -> bool:
    """True for texts at least 0.9 alike (Jaccard of words and neighbouring words) with equal numbers, dates,
    ids, code and negations. Likeness alone would join contradictions and near numbers; neighbours tell who
    did what to whom."""
    return a.facts == b.facts and jaccard(a.shingles, b.shingles) >= RESTATES_FROM
