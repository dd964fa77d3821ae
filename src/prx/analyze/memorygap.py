"""Memory gaps: topics that are asked about and for which nothing stored is recalled."""

from collections.abc import Callable, Sequence
from dataclasses import replace

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
_MAX_WORDS = 100
_MOSTLY = 0.5


def memory_gaps(rows: Sequence[Seen], rules: AnalyzeRules) -> Detected:
    """Topics most of whose sessions recalled nothing above `recall_floor`, more often than elsewhere.

    A topic is the recorded intent where at least half of the sessions have one; else a word of the
    requests: each word that is neither rare nor everywhere is tested against the requests without it.
    """
    recalled = sum(seen.recall is not None for seen in rows)
    if recalled < max(rules.min_units, _IN_USE * len(rows)):
        return _undecided(f"{recalled} of {len(rows)} sessions recalled anything; memory is hardly in use")

    def missed(seen: Seen) -> bool:
        return seen.recall is None or seen.recall < rules.recall_floor

    if 2 * sum(seen.intent is not None for seen in rows) >= len(rows):
        cells = concentrated(rows, key=lambda s: s.intent, bad=missed, rules=rules)
    else:
        cells = _word_cells(rows, missed, rules)
    if isinstance(cells, NotEnoughData):
        return Detected(undecided=(Undecided(NAME, cells),))
    mostly = [cell for cell in cells if cell.rate.count >= _MOSTLY * cell.rate.total]
    return Detected(tuple(_found(cell, rules) for cell in mostly))


def _word_cells(
    rows: Sequence[Seen], missed: Callable[[Seen], bool], rules: AnalyzeRules
) -> tuple[Cell, ...] | NotEnoughData:
    """Cells by single words, those that are mostly the sessions of a better one left out."""
    readable = [seen for seen in rows if seen.terms]
    if 2 * sum(seen.terms is None for seen in rows) >= len(rows):
        return NotEnoughData("most requests have no intent and are in a script that is not supported")
    users: dict[str, set[str]] = {}
    for seen in readable:
        for word in seen.terms or ():
            users.setdefault(word, set()).add(seen.unit)
    most = _COMMON * len({seen.unit for seen in readable})
    spread = {w: len(u) for w, u in users.items() if rules.min_units <= len(u) <= most}
    tested = sorted(spread, key=lambda word: (-spread[word], word))[:_MAX_WORDS]
    if not tested:
        return NotEnoughData(
            f"no word of the requests is shared by {rules.min_units} users and tells topics apart"
        )
    alone = replace(rules, alpha=rules.alpha / len(tested))
    kept: list[Cell] = []
    for word in tested:
        cells = concentrated(readable, key=_with_or_without(word), bad=missed, rules=alone)
        kept += [] if isinstance(cells, NotEnoughData) else [c for c in cells if c.key == word]
    kept.sort(key=lambda cell: (cell.rate.p_value, str(cell.key)))
    distinct: list[Cell] = []
    covered: set[str] = set()
    for cell in kept:
        sessions = {seen.session_id for seen in cell.bad}
        if 2 * len(sessions & covered) < len(sessions):
            distinct.append(cell)
            covered |= sessions
    return tuple(distinct)


def _with_or_without(word: str) -> Callable[[Seen], str]:
    """Two groups: requests with the word, and the rest under the empty name."""
    return lambda seen: word if word in (seen.terms or ()) else ""


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
