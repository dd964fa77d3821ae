"""What people decide, what their yes covers, and what the engine may do alone."""

from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest
from arranged import AGENT, START, Arranged, session

from prx.domain.changes import AddLine, PromptPatch, StrategyPatch
from prx.domain.decisions import Decision, Verdict
from prx.domain.errors import IllegalTransition, InvalidInput, NotFound
from prx.domain.events import Control, EventName
from prx.domain.experiments import Experiment, ExperimentStatus
from prx.domain.proposals import Proposal, ProposalState
from prx.engine.approvals import covered
from prx.settings import Experiments, Settings

PROVEN = (ProposalState.GATED, ProposalState.SHADOWING, ProposalState.JUDGED)


def with_traffic(settings: Settings) -> Arranged:
    arranged = Arranged.new(settings)
    for k in range(1500):
        at = arranged.now + timedelta(minutes=10 * k)
        arranged.write(session(f"before-{k}", at, outcome=float(k % 3 > 0), latency_ms=300 + k % 900))
    arranged.pass_hours(24 * 12)
    arranged.engine.advance(arranged.now)
    return arranged


def state_of(arranged: Arranged, proposal: Proposal) -> Proposal:
    with arranged.context.ledger.view() as view:
        return view.get(Proposal, proposal.proposal_id)


@pytest.fixture
def asks() -> Arranged:
    return with_traffic(Settings(enabled=True, experiments=Experiments(outcome_window_hours=0.1)))


def test_a_prompt_change_waits_for_a_person_unless_told_otherwise(asks: Arranged) -> None:
    proposal = asks.move(asks.propose(), *PROVEN)
    asks.engine.advance(asks.now)
    assert state_of(asks, proposal).state is ProposalState.AWAITING_APPROVAL
    with asks.context.ledger.view() as view:
        names = [event.name for _, event in view.events()]
    assert EventName.APPROVAL_NEEDED in names


def test_a_yes_starts_the_experiment_and_is_recorded_with_its_author(asks: Arranged) -> None:
    proposal = asks.move(asks.propose(), *PROVEN)
    asks.engine.advance(asks.now)
    asks.engine.approve(proposal.proposal_id, actor="person:ann", now=asks.now)
    asks.engine.advance(asks.now)
    found = state_of(asks, proposal)
    assert found.state is ProposalState.EXPERIMENTING
    assert found.approval is not None
    assert found.approval.actor == "person:ann"
    assert (found.approval.content_hash, found.approval.base) == (covered(found), found.base)
    with asks.context.ledger.view() as view:
        decision = view.get(Decision, proposal.decision_id)
    assert decision.verdict is Verdict.APPROVED


def test_a_yes_no_longer_covers_a_proposal_whose_content_changed(asks: Arranged) -> None:
    proposal = asks.move(asks.propose(), *PROVEN)
    asks.engine.advance(asks.now)
    approved = asks.engine.approve(proposal.proposal_id, actor="person:ann", now=asks.now)
    with asks.context.ledger.transaction(now=asks.now, actor="attacker") as tx:
        other = tx.put_part(tx.part(proposal.base))
        tx.put(msgspec.structs.replace(approved, treated=other))
    asks.engine.advance(asks.now)
    found = state_of(asks, proposal)
    assert found.state is ProposalState.AWAITING_APPROVAL
    assert found.approval is None


def test_a_yes_expires(asks: Arranged) -> None:
    proposal = asks.move(asks.propose(), *PROVEN)
    asks.engine.advance(asks.now)
    asks.engine.approve(proposal.proposal_id, actor="person:ann", now=asks.now - timedelta(days=46))
    asks.engine.advance(asks.now)
    assert state_of(asks, proposal).state is ProposalState.AWAITING_APPROVAL


def test_a_strategy_change_asks_even_when_prompts_apply_by_themselves() -> None:
    arranged = with_traffic(Settings(enabled=True, auto_apply=True))
    change = StrategyPatch(path="router.gamma", old=0.3, new=0.33)
    proposal = arranged.move(arranged.propose(change), *PROVEN)
    arranged.engine.advance(arranged.now)
    assert state_of(arranged, proposal).state is ProposalState.AWAITING_APPROVAL


def test_only_what_waits_can_be_approved(asks: Arranged) -> None:
    proposal = asks.propose()
    with pytest.raises(InvalidInput, match="waits for approval"):
        asks.engine.approve(proposal.proposal_id, actor="person:ann", now=asks.now)
    with pytest.raises(NotFound):
        asks.engine.approve("nothing", actor="person:ann", now=asks.now)


def test_a_rejected_change_is_not_proposed_again_in_other_clothes(asks: Arranged) -> None:
    first = asks.propose()
    asks.engine.reject(first.proposal_id, actor="person:ann", why="no", now=asks.now)
    copy = PromptPatch(prompt="support", ops=(AddLine(text="-  INVOICE:  a bill!"),))
    second = asks.propose(copy)
    asks.engine.advance(asks.now)
    found = state_of(asks, second)
    assert found.state is ProposalState.REJECTED
    assert any(step.code == "failed_before" for step in found.proofs)
    with pytest.raises(IllegalTransition):
        asks.engine.reject(first.proposal_id, actor="person:ann", why="again", now=asks.now)


def test_a_persons_text_takes_the_same_path_with_the_engine_off() -> None:
    arranged = with_traffic(Settings())
    text = "Answer from the new desk.\n- refund: money back\n"
    proposal = arranged.engine.propose_prompt(AGENT, "support", text, actor="person:ann", now=arranged.now)
    arranged.engine.advance(arranged.now)
    found = state_of(arranged, proposal)
    assert found.state is ProposalState.GATED
    assert "agent model" in found.why


@pytest.mark.parametrize(("name", "text"), [("nothing", "x"), ("support", "   ")])
def test_a_text_for_no_prompt_or_no_text_is_refused(asks: Arranged, name: str, text: str) -> None:
    with pytest.raises(InvalidInput):
        asks.engine.propose_prompt(AGENT, name, text, actor="person:ann", now=asks.now)


def test_pause_stops_new_steps_and_resume_goes_on(asks: Arranged) -> None:
    asks.engine.pause(AGENT, actor="person:ann", why="holiday", now=asks.now)
    proposal = asks.propose()
    asks.engine.advance(asks.now)
    assert state_of(asks, proposal).state is ProposalState.PROPOSED
    asks.engine.resume(AGENT, actor="person:ann", why="back", now=asks.now)
    asks.engine.advance(asks.now)
    assert state_of(asks, proposal).state is not ProposalState.PROPOSED


def test_the_kill_switch_ends_every_experiment() -> None:
    arranged = with_traffic(Settings(enabled=True, auto_apply=True))
    arranged.move(arranged.propose(), *PROVEN)
    arranged.engine.advance(arranged.now)
    arranged.engine.kill(AGENT, actor="person:ann", why="fire", now=arranged.now)
    with arranged.context.ledger.view() as view:
        (experiment,) = view.find(Experiment, agent=AGENT)
        control = view.get(Control, AGENT)
    assert experiment.status is ExperimentStatus.CANCELLED
    assert experiment.reason == "kill_switch"
    assert control.killed


def test_too_little_traffic_starts_no_experiment_and_says_so() -> None:
    settings = Settings(enabled=True, auto_apply=True)
    arranged = Arranged.new(replace(settings, experiments=Experiments(outcome_window_hours=0.1)))
    for k in range(60):
        at = START + timedelta(hours=5 * k)
        arranged.write(session(f"before-{k}", at, outcome=float(k % 2)))
    arranged.pass_hours(310)
    arranged.engine.advance(arranged.now)
    proposal = arranged.move(arranged.propose(), *PROVEN)
    arranged.engine.advance(arranged.now)
    found = state_of(arranged, proposal)
    assert found.state is ProposalState.DEFERRED
    assert "30 % needed" in found.why
