"""Proof of a memory change: it loses no fact, and logged queries still reach what they reached."""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from prx.domain.answers import Answer, Failed, NotEnoughData, Passed
from prx.domain.changes import MemoryAdd, MemoryArchive, MemoryPatch
from prx.domain.facts import lost_facts
from prx.domain.memory import EntryStatus, MemoryEntry
from prx.domain.proposals import ProofStep
from prx.domain.words import words
from prx.prove.looks import compare
from prx.prove.steps import OFFLINE, proof_step

CHANGE, REPLAY = "memory.change", "memory.replay"
_SHOWN = 20


@dataclass(frozen=True, slots=True)
class MemoryReplayRules:
    """`k`: entries that a replayed query may bring. `margin`: loss of evidence recall that still counts as
    none, share. `archived_share`: of all entries, that one change may take away without replacement."""

    min_queries: int = 50
    max_queries: int = 200
    k: int = 10
    margin: float = 0.05
    confidence: float = 0.95
    archived_share: float = 0.02


@dataclass(frozen=True, slots=True)
class ReplayedQuery:
    """One logged query, run again: entries it must reach, and what it reaches without and with the change
    (recalled entries and everything that those were derived from). `confirmed`: the evidence was told to be
    relevant, not only recalled."""

    query_id: str
    evidence: tuple[str, ...]
    confirmed: bool
    before: frozenset[str]
    after: frozenset[str]


def change_verdict(
    change: MemoryPatch,
    entries: Sequence[MemoryEntry],
    rules: MemoryReplayRules,
    now: datetime,
    *,
    by_person: bool = False,
) -> ProofStep:
    """Whether the operations fit the memory and keep its facts, checked anew and not taken from the author.

    entries: all of the agent under the part that the change is made to. A person may prune more at once.
    """
    known = {entry.memory_id: entry for entry in entries if entry.status is not EntryStatus.ARCHIVED}
    sources = {source for op in change.ops if isinstance(op, MemoryAdd) for source in op.derived_from}
    pruned = [op for op in change.ops if isinstance(op, MemoryArchive) and op.memory_id not in sources]
    numbers: dict[str, Any] = {"entries": len(known), "pruned": len(pruned), "compacted": len(sources)}
    room = int(len(known) * rules.archived_share)
    taken = {entry.memory_id for entry in entries}
    failed = next((found for op in change.ops if (found := _fault(op, known, taken)) is not None), None)
    if failed is None and len(pruned) > room and not by_person:
        why = f"{len(pruned)} of {len(known)} entries would go without replacement, at most {room} at once"
        failed = Failed(why, "too_much_at_once")
    kept = "every fact of the sources is kept" if sources else "nothing that must stay is taken away"
    return proof_step(CHANGE, failed or Passed(kept), now, numbers=numbers, evidence=OFFLINE)


def _fault(op: MemoryAdd | MemoryArchive, known: Mapping[str, MemoryEntry], taken: Set[str]) -> Failed | None:
    if isinstance(op, MemoryArchive):
        if op.memory_id not in known:
            return Failed(f"entry {op.memory_id} is not in force any more; propose again", "stale_source")
        if known[op.memory_id].pinned:
            return Failed(f"entry {op.memory_id} is pinned", "pinned")
        return None
    if op.memory_id in taken:
        return Failed(f"there is an entry {op.memory_id} already", "id_taken")
    missing = [source for source in op.derived_from if source not in known]
    if missing:
        return Failed(f"source {missing[0]} is not in force any more; propose again", "stale_source")
    if len({known[source].scope for source in op.derived_from}) != 1:
        return Failed("the sources belong to different users or tenants", "mixed_scope")
    whole = "\n".join(known[source].text for source in op.derived_from)
    lost, new = lost_facts(whole, op.text), lost_facts(op.text, whole)
    if lost:
        return Failed(f"the summary loses {lost[0][0]} {lost[0][1]!r}", "lost_fact")
    if new:
        return Failed(f"the summary invents {new[0][0]} {new[0][1]!r}", "invented_fact")
    invented = set(words(op.text)) - set(words(whole))
    if invented:
        return Failed(f"the summary says {min(invented)!r}, which no source says", "invented_text")
    return None


def replay_verdict(queries: Sequence[ReplayedQuery], rules: MemoryReplayRules, now: datetime) -> ProofStep:
    """Whether evidence recall stays: paired non-inferiority by `margin`, and no confirmed evidence lost.

    Evidence recall of a query is the share of its evidence that it reaches. Queries count that reach
    anything of their evidence today; the others cannot get worse and would only dilute.
    """
    counted = [one for one in queries if not one.before.isdisjoint(one.evidence)]
    numbers: dict[str, Any] = {"queries": len(counted), "logged": len(queries), "k": rules.k}
    if len(counted) < rules.min_queries:
        answer: Answer = NotEnoughData(
            f"{len(counted)} logged queries can be replayed, {rules.min_queries} needed"
        )
        return proof_step(REPLAY, answer, now, numbers=numbers, evidence=OFFLINE)
    before = [_share(one.evidence, one.before) for one in counted]
    after = [_share(one.evidence, one.after) for one in counted]
    gone = [one.query_id for one in counted if one.confirmed and _loses(one)]
    compared, estimate = compare(
        [new - old for old, new in zip(before, after, strict=True)],
        margin=rules.margin,
        confidence=rules.confidence,
        what=f"evidence recall at {rules.k}",
        code="recall_lost",
        final=True,
    )
    numbers |= {"recall_before": sum(before) / len(before), "recall_after": sum(after) / len(after)}
    numbers |= {"difference": estimate.numbers() if estimate else {}, "lost": gone[:_SHOWN]}
    answer = compared
    if gone:
        why = f"{len(gone)} queries would no longer reach what was told to be relevant, such as {gone[0]}"
        answer = Failed(why, "evidence_lost")
    return proof_step(REPLAY, answer, now, numbers=numbers, evidence=OFFLINE)


def _share(evidence: Iterable[str], reached: frozenset[str]) -> float:
    wanted = set(evidence)
    return len(wanted & reached) / len(wanted)


def _loses(one: ReplayedQuery) -> bool:
    return bool((set(one.evidence) & one.before) - one.after)
