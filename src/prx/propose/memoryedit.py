"""Compaction: one derived entry in place of a topic's many, behind a fact guard."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from prx.domain.answers import Failed, NotEnoughData
from prx.domain.changes import MemoryAdd, MemoryArchive, MemoryPatch
from prx.domain.facts import facts_of, lost_facts
from prx.domain.ids import Ids
from prx.domain.memory import EntryStatus, MemoryEntry, Scope
from prx.domain.words import is_content, words
from prx.propose.fingerprint import plain_words

_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])\s*|\n+")
# words that narrow or turn what is said: a sentence that has one more of them says something else
_NARROWING_LIST = (
    "not no never none without cannot only just unless except if when while before after until but instead "
    "always usually sometimes may might must should nunca sin solo excepto si cuando pero siempre не нет ни "
    "никогда без только кроме если когда но всегда"
)
_NARROWING = frozenset(_NARROWING_LIST.split())
_CJK_NARROWING = re.compile("[不没未别勿无非只仅除若]|ない|せん|だけ|ただ|않|못|없|만 ")


@dataclass(frozen=True, slots=True)
class MemoryRules:
    """How the memory is tended.

    compaction_threshold: a cluster with more entries is summarised. cluster_similarity: cosine of words that
    groups a topic; it never merges. min_saving: share of the text that a summary must save. settled: age
    from which an entry may be compacted. min_access_count: confirmed uses that keep an entry from being
    pruned. stale_days: without confirmed use that count as one sign; min_age_days: no younger entry is
    pruned. archived_share, modified_share: of all entries, at most, that one change prunes or compacts;
    modified_floor: entries that may be compacted at once however small the memory is.
    """

    compaction_threshold: int = 10
    cluster_similarity: float = 0.8
    min_saving: float = 0.4
    max_summary: int = 4000
    settled: timedelta = timedelta(hours=1)
    min_access_count: int = 2
    stale_days: int = 90
    min_age_days: int = 14
    min_exposures: int = 20
    archived_share: float = 0.02
    modified_share: float = 0.05
    modified_floor: int = 50


@dataclass(slots=True)
class _Cluster:
    """A topic while it grows; `bag` sums the words of its members, `size2` is its squared length."""

    members: list[MemoryEntry]
    bag: Counter[str] = field(default_factory=Counter)
    size2: float = 0.0

    def cosine(self, bag: Counter[str]) -> float:
        """Likeness of a text to the centroid, 0..1."""
        dot = sum(count * self.bag[word] for word, count in bag.items())
        size = math.sqrt(self.size2 * sum(count * count for count in bag.values()))
        return dot / size if size else 0.0

    def take(self, entry: MemoryEntry, bag: Counter[str]) -> None:
        """Add a member."""
        self.size2 += sum(count * (2 * self.bag[word] + count) for word, count in bag.items())
        self.bag.update(bag)
        self.members.append(entry)


def compactable(entries: Iterable[MemoryEntry], *, rules: MemoryRules, now: datetime) -> list[MemoryEntry]:
    """Raw active entries that a summary can stand for: none that is pinned, or ends, or may be followed by
    another on its subject, since a summary would outlive it; none of a session that still goes on."""
    return [
        entry
        for entry in entries
        if entry.status is EntryStatus.ACTIVE
        and not (entry.pinned or entry.derived_from or entry.subject or entry.valid_to)
        and entry.valid_from <= now
        and entry.created_at <= now - rules.settled
    ]


def clusters(entries: Sequence[MemoryEntry], rules: MemoryRules) -> tuple[tuple[MemoryEntry, ...], ...]:
    """Topics with more than `compaction_threshold` entries of one scope, largest first.

    Greedy: an entry, oldest first, joins the first cluster of its scope whose word centroid is at least
    `cluster_similarity` alike (cosine), else it opens one.
    """
    bags = {e.memory_id: Counter(w for w in words(e.text) if is_content(w)) for e in entries}
    rarity = Counter(word for bag in bags.values() for word in bag)
    found: list[_Cluster] = []
    holding: dict[tuple[Scope, str], list[int]] = defaultdict(list)
    for entry in sorted(entries, key=lambda e: (e.created_at, e.memory_id)):
        bag = bags[entry.memory_id]
        telling = _telling(bag, rarity, rules.cluster_similarity)
        near = sorted({place for word in telling for place in holding.get((entry.scope, word), ())})
        home = next((p for p in near if found[p].cosine(bag) >= rules.cluster_similarity), len(found))
        if home == len(found):
            found.append(_Cluster([]))
        for word in bag:
            if word not in found[home].bag:
                holding[entry.scope, word].append(home)
        found[home].take(entry, bag)
    large = [tuple(one.members) for one in found if len(one.members) > rules.compaction_threshold]
    return tuple(sorted(large, key=lambda members: (-len(members), members[0].memory_id)))


def _telling(bag: Counter[str], rarity: Counter[str], similarity: float) -> list[str]:
    """The rarest words, so many that a centroid without any of them cannot be `similarity` alike: the
    others hold less than `similarity` squared of the squared length."""
    left = sum(count * count for count in bag.values())
    enough = similarity * similarity * left
    telling = []
    for word in sorted(bag, key=lambda w: (rarity[w], w)):
        if left < enough:
            break
        telling.append(word)
        left -= bag[word] * bag[word]
    return telling


def compact(
    cluster: Sequence[MemoryEntry], *, ids: Ids, now: datetime, rules: MemoryRules | None = None
) -> MemoryPatch | NotEnoughData | Failed:
    """One derived entry in place of `cluster`, which is archived; sentences that say nothing new are left
    out, every fact (`facts_of`) stays. Extractive: no word is invented.
    """
    using = rules or MemoryRules()
    if len({entry.scope for entry in cluster}) != 1:
        return Failed("the entries belong to different users or tenants", "mixed_scope")
    summary = "\n".join(_kept(_sentences(cluster)))
    whole = "\n".join(entry.text for entry in cluster)
    saved = 1 - len(summary) / len(whole)
    if saved < using.min_saving:
        return NotEnoughData(f"little in this cluster repeats: a summary would save {max(saved, 0):.0%}")
    if len(summary) > using.max_summary:
        return NotEnoughData(f"the summary would have {len(summary)} characters, too many for one entry")
    lost = lost_facts(whole, summary)
    if lost:
        return Failed(f"the summary would lose {lost[0][0]} {lost[0][1]!r}", "lost_fact")
    sources = tuple(entry.memory_id for entry in cluster)
    added = MemoryAdd(memory_id=ids.new(now), text=summary, derived_from=sources)
    gone = (MemoryArchive(memory_id=source, why=f"compacted into {added.memory_id}") for source in sources)
    return MemoryPatch(ops=(added, *gone))


def _kept(sentences: Sequence[str]) -> list[str]:
    """The sentences, in order, without those that another one covers."""
    kept: dict[str, tuple[str, ...]] = {}
    facts: set[tuple[str, str]] = set()
    for sentence in sorted(sentences, key=len, reverse=True):
        said = plain_words(sentence)
        new_facts = set(facts_of(sentence)) - facts
        if new_facts or not any(_covers(other, said) for other in kept.values()):
            kept[sentence] = said
            facts |= new_facts
    return [sentence for sentence in sentences if sentence in kept]


def _covers(longer: Sequence[str], said: Sequence[str]) -> bool:
    """Whether `longer` says all of `said` in its order, and what it says besides does not narrow it."""
    remaining = iter(longer)
    if not all(word in remaining for word in said):
        return False
    besides = Counter(longer) - Counter(said)
    return not any(word in _NARROWING or _CJK_NARROWING.search(word) for word in besides)


def _sentences(cluster: Sequence[MemoryEntry]) -> list[str]:
    pieces = (piece.strip() for entry in cluster for piece in _SENTENCE.split(entry.text))
    return list(dict.fromkeys(piece for piece in pieces if piece))
