"""The end of a watch: what is confirmed, what is taken back for want of data, and that this is no failure."""

from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest
from arranged import AGENT, Arranged, session

from prx.domain.changes import AddLine, Change, MemoryAdd, MemoryPatch, PromptPatch
from prx.domain.decisions import Decision, DecisionOutcome
from prx.domain.events import Breaker, Incident
from prx.domain.layers import Layer
from prx.domain.proposals import ProofStep, Proposal, ProposalState
from prx.engine.filing import past_changes
from prx.engine.watching import freeze_baseline
from prx.release.promote import promote
from prx.settings import Settings, Watch

PROVEN = (ProposalState.GATED, ProposalState.SHADOWING, ProposalState.JUDGED)
NOTE = MemoryPatch(ops=(MemoryAdd(memory_id="m1", text="Refunds take 14 days."),))
LINE = PromptPatch(prompt="support", ops=(AddLine(text="- invoice: a bill"),))


def served(arranged: Arranged, change: Change, *, won: bool = False) -> Proposal:
    """A change that is promoted now."""
    proposal = arranged.move(arranged.propose(change), *PROVEN)
    if won:
        step = ProofStep(name="experiment", answer="pass", why="won", at=arranged.now, evidence="live")
        proposal = msgspec.structs.replace(proposal, proofs=(*proposal.proofs, step))
    baseline = freeze_baseline(arranged.context, AGENT, arranged.now)
    with arranged.context.ledger.transaction(now=arranged.now, actor="engine") as tx:
        tx.put(proposal)
        moved, _ = promote(tx, proposal, why="test", evidence="live", baseline=baseline)
    return moved


def after(arranged: Arranged, proposal: Proposal, *, hours: float, sessions: int = 0) -> ProposalState:
    """The state after so many hours with so many sessions."""
    for k in range(sessions):
        at = arranged.now + timedelta(hours=hours * k / sessions)
        arranged.write(session(f"after-{k}", at, outcome=1.0))
    arranged.pass_hours(hours)
    arranged.engine.advance(arranged.now)
    with arranged.context.ledger.view() as view:
        return view.get(Proposal, proposal.proposal_id).state


def served_label(arranged: Arranged) -> str:
    with arranged.context.ledger.view() as view:
        pointer = view.pointer(AGENT)
    assert pointer is not None
    return pointer.label


def test_a_memory_change_that_hardly_anyone_met_is_taken_back_after_its_window_and_has_not_failed() -> None:
    arranged = Arranged.new(Settings())
    proposal = served(arranged, NOTE)
    assert served_label(arranged) == "v1.1"
    assert after(arranged, proposal, hours=167, sessions=29) is ProposalState.WATCHING
    assert after(arranged, proposal, hours=2) is ProposalState.ROLLED_BACK
    assert served_label(arranged) == "v1.0"
    with arranged.context.ledger.view() as view:
        assert view.get(Decision, proposal.decision_id).outcome is DecisionOutcome.NEUTRAL
        assert view.find(Incident, agent=AGENT) == ()
        assert view.maybe(Breaker, f"{AGENT}/{Layer.MEMORY}") is None
        assert past_changes(view, AGENT, Layer.MEMORY) == ()


@pytest.mark.parametrize(
    ("change", "won", "sessions", "watch"),
    [
        (NOTE, False, 30, Watch()),
        (NOTE, False, 0, Watch(on_unconfirmed="keep")),
        (NOTE, True, 0, Watch()),
        (LINE, False, 0, Watch()),
        (LINE, True, 0, Watch()),
    ],
)
def test_every_other_change_is_confirmed_at_the_end_of_its_window_and_not_before(
    change: Change, won: bool, sessions: int, watch: Watch
) -> None:
    arranged = Arranged.new(Settings(watch=watch))
    proposal = served(arranged, change, won=won)
    assert after(arranged, proposal, hours=167, sessions=sessions) is ProposalState.WATCHING
    assert after(arranged, proposal, hours=2) is ProposalState.CONFIRMED
    assert served_label(arranged) == "v1.1"


def test_the_window_is_as_long_as_the_operator_says() -> None:
    given = Settings()
    short = replace(given, safety=replace(given.safety, rollback_window_hours=48.0))
    arranged = Arranged.new(short)
    proposal = served(arranged, LINE)
    assert after(arranged, proposal, hours=47) is ProposalState.WATCHING
    assert after(arranged, proposal, hours=2) is ProposalState.CONFIRMED
