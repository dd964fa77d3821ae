"""Memory changes: compaction of a topic cluster behind a fact guard, and pruning of what nobody uses."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from prx.domain.answers import Failed, NotEnoughData
from prx.domain.changes import MemoryAdd, MemoryArchive, MemoryPatch
from prx.domain.facts import facts_of, lost_facts
from prx.domain.ids import Ids
from prx.domain.words import is_content, words
from prx.propose.fingerprint import plain_words

_SENTENCE = re.compile(r"(?<=[.!?。！？])\s*|\n+")
_PRUNED_SHARE = 0.10


@dataclass(frozen=True, slots=True)
class MemoryEntry:
    """An entry in force. `scope` is whose it is (tenant and user); entries of two scopes never mix."""

    memory_id: str
    text: str
    created_at: datetime
    scope: tuple[str | None, str | None] = (None, None)
    uses: int = 0
    last_used: datetime | None = None


@dataclass(frozen=True, slots=True)
class MemoryRules:
    """compaction_threshold: entries in a cluster; cluster_similarity: cosine of words, groups a topic;
    min_access_count: confirmed uses that keep an entry; stale_days: without use before it may go."""

    compaction_threshold: int = 10
    cluster_similarity: float = 0.8
    min_access_count: int = 2
    stale_days: int = 90


def clusters(entries: Sequence[MemoryEntry], rules: MemoryRules) -> tuple[tuple[MemoryEntry, ...], ...]:
    """Topics with more than `compaction_threshold` entries of one scope, largest first.

    Greedy: an entry, oldest first, joins the first cluster of its scope whose word centroid is at least
    `cluster_similarity` alike, else it opens one.
    """
    found: list[tuple[list[MemoryEntry], Counter[str]]] = []
    for entry in sorted(entries, key=lambda e: (e.created_at, e.memory_id)):
        bag = Counter(word for word in words(entry.text) if is_content(word))
        home = next(
            (
                c
                for c in found
                if c[0][0].scope == entry.scope and cosine(bag, c[1]) >= rules.cluster_similarity
            ),
            None,
        )
        if home is None:
            found.append(([entry], bag))
        else:
            home[0].append(entry)
            home[1].update(bag)
    large = [tuple(members) for members, _ in found if len(members) > rules.compaction_threshold]
    return tuple(sorted(large, key=lambda members: (-len(members), members[0].memory_id)))


def compact(
    cluster: Sequence[MemoryEntry], *, ids: Ids, now: datetime
) -> MemoryPatch | NotEnoughData | Failed:
    """One derived entry in place of `cluster`, which is archived; sentences that say nothing new are left
    out, every fact (`facts_of`) stays. Extractive: no word is invented.
    """
    if len({entry.scope for entry in cluster}) != 1:
        return Failed("the entries belong to different users or tenants", "mixed_scope")
    kept: list[str] = []
    said: list[frozenset[str]] = []
    for sentence in sorted(_sentences(cluster), key=len, reverse=True):
        here = frozenset(plain_words(sentence))
        new_facts = set(facts_of(sentence)) - set(facts_of("\n".join(kept)))
        if new_facts or not any(here <= other for other in said):
            kept.append(sentence)
            said.append(here)
    order = {sentence: n for n, sentence in enumerate(_sentences(cluster))}
    summary = "\n".join(sorted(kept, key=order.__getitem__))
    whole = "\n".join(entry.text for entry in cluster)
    if len(summary) >= len(whole):
        return NotEnoughData("nothing in this cluster repeats; compaction would save nothing")
    lost = lost_facts(whole, summary)
    if lost:
        return Failed(f"the summary would lose {lost[0][0]} {lost[0][1]!r}", "lost_fact")
    sources = tuple(entry.memory_id for entry in cluster)
    added = MemoryAdd(memory_id=ids.new(now), text=summary, derived_from=sources)
    gone = (MemoryArchive(memory_id=source, why=f"compacted into {added.memory_id}") for source in sources)
    return MemoryPatch(ops=(added, *gone))


def prune(
    entries: Sequence[MemoryEntry], *, rules: MemoryRules, now: datetime
) -> MemoryPatch | NotEnoughData:
    """Archive entries without `min_access_count` uses and not used for `stale_days`, stalest first; at most
    a tenth of all entries in one patch.
    """
    before = now - timedelta(days=rules.stale_days)
    stale = [e for e in entries if e.uses < rules.min_access_count and (e.last_used or e.created_at) < before]
    stale.sort(key=lambda e: (e.last_used or e.created_at, e.memory_id))
    room = int(len(entries) * _PRUNED_SHARE)
    if not stale or room == 0:
        return NotEnoughData(f"{len(stale)} of {len(entries)} entries are stale, {room} may go at once")
    why = f"{rules.stale_days} days without use"
    return MemoryPatch(ops=tuple(MemoryArchive(memory_id=e.memory_id, why=why) for e in stale[:room]))


def cosine(a: Counter[str], b: Counter[str]) -> float:
    """Cosine of two word counts, 0..1; 0 when either is empty."""
    dot = sum(count * b[word] for word, count in a.items())
    size = math.sqrt(sum(c * c for c in a.values()) * sum(c * c for c in b.values()))
    return dot / size if size else 0.0


def _sentences(cluster: Sequence[MemoryEntry]) -> list[str]:
    pieces = (piece.strip() for entry in cluster for piece in _SENTENCE.split(entry.text))
    return list(dict.fromkeys(piece for piece in pieces if piece))
