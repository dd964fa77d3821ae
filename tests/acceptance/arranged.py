"""An engine over in-memory stores, with sessions written exactly as a test wants them."""

import random
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from prx.domain.changes import AddLine, Change, PromptPatch
from prx.domain.ids import Ids
from prx.domain.proposals import ProofStep, Proposal, ProposalState
from prx.domain.records import (
    Assignment,
    Exposure,
    Feedback,
    Interaction,
    PromptSeen,
    Record,
    SessionEnd,
    SessionStart,
    Tokens,
    UnitSource,
)
from prx.engine.context import Context, Models
from prx.engine.engine import Engine
from prx.engine.filing import Filing, file_proposal
from prx.ledger.memory import open_memory as memory_ledger
from prx.models.port import ChatModel
from prx.propose.fingerprint import fingerprint
from prx.records.memory import open_memory as memory_records
from prx.settings import Settings
from prx.views.fitness import rules_from

START = datetime(2026, 3, 2, tzinfo=UTC)
AGENT = "default"
PROMPT = "You answer questions of customers.\n- refund: money back\n- parcel: where is it\n"
PROOFS = tuple(
    ProofStep(name=name, answer="pass", why="arranged", at=START)
    for name in (
        "gate.scope",
        "gate.replay",
        "shadow",
        "judge",
        "judge.offpolicy",
        "memory.change",
        "memory.replay",
    )
)


@dataclass
class Arranged:
    """Engine, stores and a clock that only the test moves."""

    engine: Engine
    context: Context
    now: datetime

    @classmethod
    def new(cls, settings: Settings, *, seed: int = 1, agent_model: ChatModel | None = None) -> "Arranged":
        ids = Ids(random.Random(seed))
        context = Context(
            ledger=memory_ledger(ids),
            records=memory_records(),
            settings=settings,
            fitness=rules_from(settings),
            ids=ids,
            models=Models(agent=agent_model),
        )
        arranged = cls(Engine(context), context, START)
        seen = PromptSeen(record_id="prompt", at=START, agent=AGENT, name="support", text=PROMPT)
        context.records.append([seen])
        arranged.engine.score(START)
        return arranged

    def write(self, records: Iterable[Record]) -> None:
        self.context.records.append(list(records))

    def pass_hours(self, hours: float) -> None:
        self.now += timedelta(hours=hours)

    def propose(self, change: Change | None = None, *, author: str = "engine:rule") -> Proposal:
        """File a proposal on the current version."""
        edit = change or PromptPatch(prompt="support", ops=(AddLine(text="- invoice: a bill"),))
        with self.context.ledger.transaction(now=self.now, actor="engine") as tx:
            return file_proposal(
                tx,
                Filing(
                    agent=AGENT,
                    change=edit,
                    description="a change",
                    rationale="a reason",
                    trigger="a finding",
                    author=author,
                    fingerprint=fingerprint(edit),
                    risk=0.3,
                    data_points=500,
                ),
            )

    def move(self, proposal: Proposal, *states: ProposalState) -> Proposal:
        """Take legal steps without their work, to arrange a later state."""
        for state in states:
            proofs = PROOFS if state is ProposalState.JUDGED else proposal.proofs
            with self.context.ledger.transaction(now=self.now, actor="engine") as tx:
                proposal = tx.move(proposal, state, why="arranged", proofs=proofs)
        return proposal


def session(
    key: str,
    at: datetime,
    *,
    relevance: float | None = None,
    outcome: float | None = None,
    user: str | None = None,
    arm: tuple[str, str] | None = None,
    served: str | None = None,
    version: str | None = None,
    latency_ms: float = 300.0,
) -> list[Record]:
    """One closed session with the scores that it is to have; `arm` is (experiment id, variant)."""
    unit = user or key
    source = UnitSource.USER if user else UnitSource.SESSION
    records: list[Record] = [
        SessionStart(
            record_id=f"{key}/start", at=at, session_id=key, user=user, unit=unit, unit_source=source
        ),
        Interaction(
            record_id=f"{key}/call",
            at=at,
            session_id=key,
            model="m",
            latency_ms=latency_ms,
            tokens=Tokens(input=90, output=10),
            version=version,
        ),
        SessionEnd(record_id=f"{key}/end", at=at + timedelta(minutes=1), session_id=key),
    ]
    if arm:
        experiment_id, variant = arm
        records[1:1] = [
            Assignment(
                record_id=f"{key}/assigned",
                at=at,
                experiment_id=experiment_id,
                unit=unit,
                session_id=key,
                variant=variant,
            ),
            Exposure(
                record_id=f"{key}/exposed",
                at=at,
                experiment_id=experiment_id,
                session_id=key,
                assigned=variant,
                served=served or variant,
            ),
        ]
    for name, value in (("relevance", relevance), ("task_outcome", outcome)):
        if value is not None:
            records.append(
                Feedback(
                    record_id=f"{key}/{name}",
                    at=at + timedelta(minutes=2),
                    target_kind="session",
                    target=key,
                    name=name,
                    value=value,
                )
            )
    return records
