"""The one next change that keeps a memory in order: a compaction where a topic has grown, else a pruning."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from prx.domain.answers import Failed, NotEnoughData
from prx.domain.changes import MemoryPatch
from prx.domain.ids import Ids
from prx.domain.layers import Layer
from prx.domain.memory import MemoryEntry
from prx.domain.proposals import ExpectedEffect
from prx.propose.describe import describe
from prx.propose.draft import Draft, PastChange
from prx.propose.fingerprint import blocked_by, fingerprint
from prx.propose.memoryedit import MemoryRules, clusters, compact, compactable
from prx.propose.memoryprune import prune
from prx.propose.risk import risk_of

_EVIDENCE = 20
_EFFECT = ExpectedEffect(
    estimate=0.0,
    low=-0.005,
    high=0.005,
    source="assumed, not measured: recall stays about as it is; the interval is the weight of memory in "
    "fitness times the margin of the replay",
)


class Task(StrEnum):
    """What may be done; both by default."""

    COMPACT = "compact"
    PRUNE = "prune"


@dataclass(frozen=True, slots=True)
class Tended:
    """A draft, or none; and why what was looked at came to nothing."""

    draft: Draft | None
    refused: tuple[tuple[str, Failed | NotEnoughData], ...] = ()


def tend(
    entries: Sequence[MemoryEntry],
    *,
    rules: MemoryRules,
    ids: Ids,
    now: datetime,
    past: Sequence[PastChange] = (),
    tasks: tuple[Task, ...] = tuple(Task),
) -> Tended:
    """The largest topic that can be compacted, else what can be pruned; one change at a time.

    entries: all of one agent with status and counters. A cluster whose summary would lose a fact is left
    alone, and so is a change that failed before. Nothing to do for equal entries once it is in force.
    """
    refused: list[tuple[str, Failed | NotEnoughData]] = []
    if Task.COMPACT in tasks:
        most = max(rules.modified_floor, int(len(entries) * rules.modified_share))
        for cluster in clusters(compactable(entries, rules=rules, now=now), rules):
            members = cluster[:most]
            change = compact(members, ids=ids, now=now, rules=rules)
            answer = _unless_past(change, past)
            if isinstance(answer, MemoryPatch):
                sessions = tuple(dict.fromkeys(e.session_id for e in members if e.session_id))
                why = f"{len(cluster)} entries speak of one topic, over {rules.compaction_threshold}"
                return Tended(_draft(answer, Task.COMPACT, why, sessions, len(entries)), tuple(refused))
            refused.append((f"topic of {len(cluster)} entries", answer))
    if Task.PRUNE in tasks:
        answer = _unless_past(prune(entries, rules=rules, now=now), past)
        if isinstance(answer, MemoryPatch):
            why = f"two signs speak against {len(answer.ops)} entries"
            return Tended(_draft(answer, Task.PRUNE, why, (), len(entries)), tuple(refused))
        refused.append(("pruning", answer))
    return Tended(None, tuple(refused))


def _unless_past(
    answer: MemoryPatch | NotEnoughData | Failed, past: Sequence[PastChange]
) -> MemoryPatch | NotEnoughData | Failed:
    old = blocked_by(answer, past) if isinstance(answer, MemoryPatch) else None
    return answer if old is None else Failed(f"the same change failed before: {old.why}", "failed_before")


def _draft(change: MemoryPatch, task: Task, why: str, sessions: tuple[str, ...], entries: int) -> Draft:
    return Draft(
        layer=Layer.MEMORY,
        change=change,
        description=describe(change),
        rationale=f"{why}; no fact is lost and everything can be brought back",
        trigger=f"memory:{task}",
        evidence=sessions[:_EVIDENCE],
        expected=_EFFECT,
        risk=risk_of(change, entries=entries),
        fingerprint=fingerprint(change),
        author="engine:rule",
    )
