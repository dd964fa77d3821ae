"""Order of what a recall found: words first, use a little, one of each that say the same."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from prx.domain.errors import ModelUnavailable
from prx.domain.memory import Ask, MemoryEntry, Recalled
from prx.domain.restating import Saying, restates, saying_of
from prx.memory.port import Embedder
from prx.memory.terms import terms_of

CANDIDATES = 500
_K1, _B = 1.2, 0.75
_VECTOR_WEIGHT = 0.5


@dataclass(frozen=True, slots=True)
class Count:
    """Told relevance of an entry: sessions that confirmed it and that contradicted it."""

    confirmed: int = 0
    contradicted: int = 0

    @property
    def weight(self) -> float:
        """Factor on the rank in 0.9..1.1: mean of a Beta(1 + confirmed, 1 + contradicted)."""
        return 0.9 + 0.2 * (1 + self.confirmed) / (2 + self.confirmed + self.contradicted)


def rank(
    ask: Ask,
    found: Sequence[MemoryEntry],
    counts: Mapping[str, Count],
    *,
    readable: int,
    embedder: Embedder | None = None,
) -> tuple[Recalled, ...]:
    """The `ask.k` best of `found`, which hold a term of the query and may be read.

    Lexical score: BM25 over the readable entries (Robertson and Zaragoza 2009, equation 3.15) as a share of
    the most it could be, 0..1. With an embedder half the cosine is added and the sum scaled back. Bounded by
    `Count.weight`, so that frequent use never carries a stale entry past a fitting one. `readable`: raw
    entries in the reader's scopes.
    """
    wanted = tuple(dict.fromkeys(terms_of(ask.query)))
    lexical = _bm25(wanted, found, readable)
    nearness = _cosines(ask.query, found, embedder)
    scored: list[tuple[float, MemoryEntry]] = []
    for place, entry in enumerate(found):
        score = lexical[place]
        if nearness is not None:
            score = (score + _VECTOR_WEIGHT * max(0.0, nearness[place])) / (1 + _VECTOR_WEIGHT)
        score = min(1.0, score * counts.get(entry.memory_id, Count()).weight)
        scored.append((score, entry))
    scored.sort(key=lambda one: (-one[0], -one[1].valid_from.timestamp(), one[1].memory_id))
    return _one_of_each(scored, ask.k)


def _bm25(wanted: Sequence[str], found: Sequence[MemoryEntry], readable: int) -> list[float]:
    texts = [Counter(terms_of(entry.text)) for entry in found]
    holding = Counter(term for text in texts for term in wanted if term in text)
    total = max(readable, len(found))
    idf = {t: math.log(1 + (total - holding[t] + 0.5) / (holding[t] + 0.5)) for t in wanted}
    most = math.fsum(idf.values()) * (_K1 + 1)
    lengths = [text.total() for text in texts]
    average = sum(lengths) / len(lengths) if lengths else 1.0
    scores = []
    for text, length in zip(texts, lengths, strict=True):
        norm = _K1 * (1 - _B + _B * length / average)
        score = math.fsum(idf[t] * text[t] * (_K1 + 1) / (text[t] + norm) for t in wanted if t in text)
        scores.append(score / most if most else 0.0)
    return scores


def _cosines(query: str, found: Sequence[MemoryEntry], embedder: Embedder | None) -> list[float] | None:
    """None without an embedder, and while it does not answer: words alone decide then."""
    if embedder is None or not found:
        return None
    try:
        asked, *vectors = embedder.embed([query, *(entry.text for entry in found)])
    except ModelUnavailable:
        return None
    return [_cosine(asked, vector) for vector in vectors]


def _cosine(a: Sequence[float], b: Sequence[float]) -> float:
    size = math.sqrt(math.fsum(x * x for x in a) * math.fsum(y * y for y in b))
    dot = math.fsum(x * y for x, y in zip(a, b, strict=True))
    return dot / size if size > 0 and math.isfinite(dot) else 0.0


def _one_of_each(scored: Sequence[tuple[float, MemoryEntry]], k: int) -> tuple[Recalled, ...]:
    """The first `k` that do not restate one taken before: repeats teach a model to ignore its memory."""
    taken: list[Recalled] = []
    said: list[Saying] = []
    for score, entry in scored:
        if len(taken) >= k:
            break
        saying = saying_of(entry.text)
        if not any(restates(saying, other) for other in said):
            taken.append(Recalled(entry.memory_id, entry.text, round(score, 6)))
            said.append(saying)
    return tuple(taken)
