"""Memory gaps: topics that are asked about and for which nothing stored is recalled."""

from collections import Counter
from collections.abc import Mapping, Sequence

from prx.analyze.cells import Cell, concentrated, severity_of
from prx.analyze.found import Detected, Found, Undecided, name_of
from prx.analyze.observe import Seen
from prx.analyze.rules import AnalyzeRules
from prx.analyze.sample import evidence_of
from prx.domain.answers import NotEnoughData
from prx.domain.findings import FindingKind
from prx.domain.layers import Layer

NAME = "memory_gap"
_IN_USE = 0.05
_COMMON = 0.3
_MOSTLY = 0.5


def memory_gaps(rows: Sequence[Seen], rules: AnalyzeRules) -> Detected:
    """Topics most of whose sessions recalled nothing above `recall_floor`, more often than elsewhere.

    A topic is the recorded intent, else the most widespread word of the request that is not everywhere.
    """
    recalled = sum(seen.recall is not None for seen in rows)
    if recalled < max(rules.min_units, _IN_USE * len(rows)):
        return _undecided(f"{recalled} of {len(rows)} sessions recalled anything; memory is hardly in use")
    topics = _topics(rows, rules)
    unread = sum(seen.intent is None and seen.terms is None for seen in rows)
    notes: tuple[Undecided, ...] = ()
    if 2 * unread >= len(rows):
        return _undecided("most requests have no intent and are in a script that is not supported")
    if unread:
        why = f"{unread} requests without an intent are in a script that is not supported"
        notes = (Undecided(f"{NAME}:terms", NotEnoughData(why)),)
    cells = concentrated(
        rows,
        key=lambda s: topics.get(s.session_id),
        bad=lambda s: s.recall is None or s.recall < rules.recall_floor,
        rules=rules,
    )
    if isinstance(cells, NotEnoughData):
        return Detected(undecided=(Undecided(NAME, cells), *notes))
    mostly = [cell for cell in cells if cell.rate.count >= _MOSTLY * cell.rate.total]
    return Detected(tuple(_found(cell, rules) for cell in mostly), notes)


def _topics(rows: Sequence[Seen], rules: AnalyzeRules) -> Mapping[str, str]:
    """Topic by session id; a session without intent and without a telling word has none."""
    users: dict[str, set[str]] = {}
    for seen in rows:
        for word in seen.terms or ():
            users.setdefault(word, set()).add(seen.unit)
    units = len({seen.unit for seen in rows})
    spread = Counter({w: len(u) for w, u in users.items() if rules.min_units <= len(u) <= _COMMON * units})
    topics: dict[str, str] = {}
    for seen in rows:
        telling = [word for word in seen.terms or () if word in spread]
        if seen.intent:
            topics[seen.session_id] = seen.intent
        elif telling:
            topics[seen.session_id] = min(telling, key=lambda word: (-spread[word], word))
    return topics


def _found(cell: Cell, rules: AnalyzeRules) -> Found:
    topic, rate = str(cell.key), cell.rate
    return Found(
        kind=FindingKind.MEMORY_GAP,
        severity=severity_of(rate),
        summary=f"Topic {name_of(topic)}: {rate.count} of {rate.total} units recalled nothing above a score "
        f"of {rules.recall_floor:g}, elsewhere {rate.rest_count} of {rate.rest_total}.",
        recommendation=f"Store knowledge about {name_of(topic)}: index the answers that its users accepted.",
        layer=Layer.MEMORY,
        evidence=evidence_of(cell.bad, rules.evidence_per_user),
        intent=topic,
        rate=rate,
    )


def _undecided(why: str) -> Detected:
    return Detected(undecided=(Undecided(NAME, NotEnoughData(why)),))
