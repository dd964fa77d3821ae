"""Who works on a layer next: a person before the engine, at once when the layer is free, and with care."""

from datetime import timedelta

import pytest
from arranged import AGENT, PROMPT, Arranged, session

from prx.domain.changes import AddLine, PromptPatch, ReplaceAll, ReplaceLine
from prx.domain.proposals import Proposal, ProposalState
from prx.domain.versions import PromptSet
from prx.engine.watching import freeze_baseline
from prx.release.promote import promote
from prx.settings import Pipeline, Settings

LINE = PromptPatch(prompt="support", ops=(AddLine(text="- bill: how much to pay"),))
LONGER = PROMPT + "Take your time.\n"


@pytest.fixture
def arranged() -> Arranged:
    made = Arranged.new(Settings(enabled=True, pipeline=Pipeline(min_data_points=10)))
    for k in range(200):
        made.write(session(f"before-{k}", made.now + timedelta(minutes=10 * k), outcome=1.0))
    made.pass_hours(36)
    made.engine.advance(made.now)
    return made


def read(arranged: Arranged, proposal: Proposal) -> Proposal:
    with arranged.context.ledger.view() as view:
        return view.get(Proposal, proposal.proposal_id)


def advance(arranged: Arranged, hours: float) -> None:
    arranged.pass_hours(hours)
    arranged.engine.advance(arranged.now)


def by_ann(arranged: Arranged, text: str = LONGER) -> Proposal:
    return arranged.engine.propose_prompt(AGENT, "support", text, actor="person:ann", now=arranged.now)


def free(arranged: Arranged, proposal: Proposal) -> None:
    arranged.engine.reject(proposal.proposal_id, actor="person:ann", why="test", now=arranged.now)


def test_a_person_who_waits_gets_the_layer_as_soon_as_it_is_free_before_older_ideas_of_the_engine(
    arranged: Arranged,
) -> None:
    busy = arranged.move(arranged.propose(), ProposalState.GATED)
    own = arranged.propose(LINE)
    advance(arranged, 1)
    theirs = by_ann(arranged)
    advance(arranged, 1)
    assert {read(arranged, one).state for one in (own, theirs)} == {ProposalState.DEFERRED}
    free(arranged, busy)
    advance(arranged, 1)
    assert read(arranged, theirs).state is ProposalState.GATED
    assert read(arranged, own).state is ProposalState.DEFERRED


def test_the_engine_starts_nothing_in_a_layer_where_a_person_waits(arranged: Arranged) -> None:
    busy = arranged.move(arranged.propose(), ProposalState.GATED)
    theirs = by_ann(arranged)
    advance(arranged, 1)
    own = arranged.propose(LINE)
    advance(arranged, 1)
    free(arranged, busy)
    advance(arranged, 1)
    assert read(arranged, theirs).state is ProposalState.GATED
    assert read(arranged, own).state is ProposalState.DEFERRED
    free(arranged, theirs)
    advance(arranged, 1)
    assert read(arranged, own).state is ProposalState.GATED


def test_what_waits_for_its_layer_is_not_checked_again_every_day(arranged: Arranged) -> None:
    arranged.move(arranged.propose(), ProposalState.GATED)
    theirs = by_ann(arranged)
    advance(arranged, 1)
    checked = len(read(arranged, theirs).proofs)
    for _ in range(5):
        advance(arranged, 24)
    waiting = read(arranged, theirs)
    assert len(waiting.proofs) == checked
    assert waiting.deferred_until is not None
    assert waiting.deferred_until > arranged.now


def test_a_persons_text_keeps_what_was_promoted_while_it_waited(arranged: Arranged) -> None:
    theirs = by_ann(arranged)
    edit = PromptPatch(
        prompt="support", ops=(ReplaceLine(old="- refund: money back", new="- refund: money back, return"),)
    )
    winner = arranged.move(
        arranged.propose(edit), ProposalState.GATED, ProposalState.SHADOWING, ProposalState.JUDGED
    )
    baseline = freeze_baseline(arranged.context, AGENT, arranged.now)
    with arranged.context.ledger.transaction(now=arranged.now, actor="engine") as tx:
        promote(tx, winner, why="test", evidence="live", baseline=baseline)
    advance(arranged, 30)
    found = read(arranged, theirs)
    assert found.state is ProposalState.GATED
    with arranged.context.ledger.view() as view:
        treated = view.part(found.treated)
    assert isinstance(treated, PromptSet)
    assert treated.texts["support"] == LONGER.replace("money back", "money back, return")
    assert isinstance(found.change, PromptPatch)
    assert found.change.ops == (ReplaceAll(text=treated.texts["support"]),)
