"""Pruning: entries that two independent signs speak against leave recall, few at a time, reversibly."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from prx.domain.answers import NotEnoughData
from prx.domain.changes import MemoryArchive, MemoryPatch
from prx.domain.memory import EntryStatus, MemoryEntry, Scope
from prx.domain.restating import RESTATES_FROM, restates, saying_of
from prx.propose.memoryedit import MemoryRules

_NEEDED = 2
_UNHELPFUL_BELOW = 0.3


def prune(
    entries: Sequence[MemoryEntry], *, rules: MemoryRules, now: datetime
) -> MemoryPatch | NotEnoughData:
    """Archive raw entries with fewer than `min_access_count` confirmed uses against which two signs speak.

    Signs: stale (no confirmed use for `stale_days`), out of date (its validity is over), said again by
    another active entry that stays, unhelpful (recalled at least `min_exposures` times, told to be relevant
    in under 0.3 by a Beta(1 + confirmed, 1 + contradicted) mean). Never one that is pinned, younger than
    `min_age_days`, or that once was all that helped. At most `archived_share` of all entries, stalest first.
    """
    standing = [entry for entry in entries if entry.status is not EntryStatus.ARCHIVED]
    room = int(len(standing) * rules.archived_share)
    signs = {entry.memory_id: _signs(entry, rules, now) for entry in standing if _may_go(entry, rules, now)}
    going = {key for key, found in signs.items() if len(found) >= _NEEDED}
    for entry, sign in _said_again(standing, signs, going):
        signs[entry].append(sign)
        going.add(entry)
    chosen = sorted((e for e in standing if e.memory_id in going), key=_stalest)[:room]
    if not chosen:
        return NotEnoughData(
            f"two signs speak against {len(going)} of {len(standing)} entries, {room} may go at once"
        )
    return MemoryPatch(
        ops=tuple(
            MemoryArchive(memory_id=one.memory_id, why=" and ".join(signs[one.memory_id])) for one in chosen
        )
    )


def _may_go(entry: MemoryEntry, rules: MemoryRules, now: datetime) -> bool:
    old = entry.created_at <= now - timedelta(days=rules.min_age_days)
    needed = entry.pinned or bool(entry.derived_from) or entry.alone > 0
    return old and not needed and entry.confirmed < rules.min_access_count


def _signs(entry: MemoryEntry, rules: MemoryRules, now: datetime) -> list[str]:
    found = []
    if (entry.last_used or entry.created_at) < now - timedelta(days=rules.stale_days):
        found.append(f"{rules.stale_days} days without confirmed use")
    if entry.status is EntryStatus.SUPERSEDED:
        found.append("its validity is over")
    told = (1 + entry.confirmed) / (2 + entry.confirmed + entry.contradicted)
    if entry.retrieved >= rules.min_exposures and told < _UNHELPFUL_BELOW:
        found.append(f"recalled {entry.retrieved} times and seldom relevant")
    return found


def _said_again(
    standing: Iterable[MemoryEntry], signs: dict[str, list[str]], going: set[str]
) -> list[tuple[str, str]]:
    """Entries with one sign that another one restates which stays; of two such, the older one goes."""
    active = sorted((e for e in standing if e.status is EntryStatus.ACTIVE), key=_stalest)
    rarity = Counter(shingle for e in active for shingle in saying_of(e.text).shingles)
    holding: dict[tuple[Scope, str], list[MemoryEntry]] = defaultdict(list)
    for entry in active:
        for shingle in _telling(entry, rarity):
            holding[entry.scope, shingle].append(entry)
    found: dict[str, str] = {}
    for entry in active:
        if len(signs.get(entry.memory_id, ())) != 1:
            continue
        near = {o.memory_id: o for s in _telling(entry, rarity) for o in holding[entry.scope, s]}
        staying = (o for key, o in sorted(near.items()) if key not in going and key not in found)
        mine = saying_of(entry.text)
        twin = next((o for o in staying if o is not entry and restates(saying_of(o.text), mine)), None)
        if twin is not None:
            found[entry.memory_id] = f"said again by {twin.memory_id}"
    return list(found.items())


def _telling(entry: MemoryEntry, rarity: Counter[str]) -> list[str]:
    """The rarest shingles, so many that a text without any of them cannot restate the entry (prefix filter:
    sets at least t alike share one of the first n - ceil(t n) + 1 elements of any order)."""
    shingles = sorted(saying_of(entry.text).shingles, key=lambda one: (rarity[one], one))
    return shingles[: len(shingles) - math.ceil(RESTATES_FROM * len(shingles) - 1e-9) + 1]


def _stalest(entry: MemoryEntry) -> tuple[datetime, str]:
    return entry.last_used or entry.created_at, entry.memory_id
