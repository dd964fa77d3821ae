"""Small, valid records for tests of any ledger."""

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from prx.domain.changes import AddLine, PromptPatch
from prx.domain.events import AuditRow
from prx.domain.ids import Ids
from prx.domain.layers import Layer
from prx.domain.proposals import TRANSITIONS, Proposal, ProposalState
from prx.domain.versions import Manifest, MemoryState, PromptSet, Strategy, Version
from prx.ledger.binding import BOUND
from prx.ledger.port import Ledger, Transaction, View

NOW = datetime(2026, 12, 1, 8, 0, tzinfo=UTC)


def seeded_ids(seed: int = 1) -> Ids:
    return Ids(random.Random(seed))


def proposal(proposal_id: str = "p1", **fields: Any) -> Proposal:
    given: dict[str, Any] = {
        "proposal_id": proposal_id,
        "agent": "default",
        "layer": Layer.PROMPT,
        "change": PromptPatch(prompt="system", ops=(AddLine("Answer in one sentence."),)),
        "description": "Ask for short answers",
        "rationale": "long answers fail",
        "trigger": "prompt_weakness",
        "author": "engine",
        "base": "sha256:base",
        "treated": "sha256:treated",
        "fingerprint": "f1",
        "risk": 0.2,
        "created_at": NOW,
        "state_since": NOW,
        "expires_at": NOW + timedelta(days=30),
        "decision_id": "d1",
        "cycle_id": "cycle_1",
    }
    return Proposal(**{**given, **fields})


def path_to(state: ProposalState) -> list[ProposalState]:
    """Shortest legal way from proposed to `state`."""
    paths = {ProposalState.PROPOSED: list[ProposalState]()}
    frontier = [ProposalState.PROPOSED]
    while state not in paths:
        here = frontier.pop(0)
        for there in sorted(TRANSITIONS[here]):
            if there not in paths:
                paths[there] = [*paths[here], there]
                frontier.append(there)
    return paths[state]


def walk(tx: Transaction, start: Proposal, state: ProposalState) -> Proposal:
    """Store `start` and take it to `state` by legal steps."""
    tx.put(start)
    for step in path_to(state):
        start = tx.move(start, step, why="walked")
    return start


def store_parts(tx: Transaction, prompts: dict[str, str] | None = None) -> Manifest:
    return Manifest(
        prompt=tx.put_part(PromptSet(texts=prompts or {"system": "You help."})),
        memory=tx.put_part(MemoryState()),
        strategy=tx.put_part(Strategy()),
    )


def version(tx: Transaction, label: str = "v1.0", agent: str = "default", **fields: Any) -> Version:
    made = Version(
        snapshot_id=tx.ids.snapshot(tx.now),
        agent=agent,
        label=label,
        created_at=tx.now,
        manifest=store_parts(tx, {"system": f"You help, {label}."}),
    )
    return msgspec.structs.replace(made, **fields)


def acts(view: View) -> list[AuditRow]:
    """The audit rows that say what was done, without those that hold the digests of records."""
    return [row for row in view.audit_rows() if row.kind != BOUND]


def write(ledger: Ledger, work: Callable[[Transaction], Any], *, at: datetime = NOW) -> Any:
    """What `work` returns, done in one transaction."""
    with ledger.transaction(now=at, actor="engine") as tx:
        return work(tx)
