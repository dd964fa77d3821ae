"""Keys that decide when the engine proposes, how much, and when it stops by itself."""

from dataclasses import replace
from datetime import timedelta

import pytest
from arranged import AGENT, START, Arranged, session

from prx.domain.changes import AddLine, PromptPatch, StrategyPatch
from prx.domain.codec import content_hash
from prx.domain.events import Control, EventName, Incident
from prx.domain.findings import Finding, FindingKind
from prx.domain.layers import Layer
from prx.domain.proposals import ExpectedEffect, Proposal, ProposalState
from prx.domain.records import Interaction
from prx.domain.versions import PromptSet
from prx.engine.context import control_of
from prx.engine.failing import failed_in_a_row, settle_cycles
from prx.engine.filing import known_changes
from prx.engine.lease import leased
from prx.engine.limits import enough_sessions, few_strategy_changes
from prx.engine.report import Report
from prx.engine.trialdata import collect
from prx.engine.turn import Turn
from prx.propose.draft import Current, Draft
from prx.propose.fingerprint import blocked_by, fingerprint
from prx.settings import PromptLayer, Settings, StrategyLayer

TEXT = "You help.\n"


def turn_of(arranged: Arranged) -> Turn:
    lease = leased(arranged.context, AGENT, arranged.now)
    return Turn(arranged.context, lease.__enter__(), AGENT, arranged.now, Report())


def weakness(prompt: str | None, layer: Layer = Layer.PROMPT) -> Finding:
    return Finding(
        finding_id=f"about-{prompt}",
        agent=AGENT,
        kind=FindingKind.PROMPT_WEAKNESS,
        fingerprint="f",
        severity=3,
        first_seen=START,
        last_seen=START,
        summary="s",
        recommendation="r",
        layer=layer,
        prompt=prompt,
    )


def served_text(arranged: Arranged, key: str, text: str) -> None:
    for record in session(key, arranged.now):
        if isinstance(record, Interaction):
            record = replace_prompts(record, text)
        arranged.write([record])


def replace_prompts(call: Interaction, text: str) -> Interaction:
    import msgspec

    return msgspec.structs.replace(call, prompts={"support": content_hash(text)})


@pytest.mark.parametrize(("sessions", "passes"), [(4, False), (5, True)])
def test_a_prompt_needs_its_sessions_before_a_change_to_it_is_proposed(sessions: int, passes: bool) -> None:
    arranged = Arranged.new(Settings(l2=PromptLayer(min_samples=5)))
    for k in range(sessions):
        served_text(arranged, f"now-{k}", TEXT)
    for k in range(9):
        served_text(arranged, f"old-{k}", "an earlier text")
    arranged.pass_hours(1)
    turn = turn_of(arranged)
    findings = [weakness("support"), weakness(None), weakness("support", Layer.STRATEGY)]
    kept = enough_sessions(turn, findings, Current(prompts=PromptSet(texts={"support": TEXT})))
    assert kept == (findings if passes else findings[1:])
    told = [step.why for step in turn.report.steps]
    assert told == (
        [] if passes else ["4 sessions saw the current text of prompt 'support', 5 needed (l2.min_samples)"]
    )


def strategy_draft(k: int) -> Draft:
    change = StrategyPatch(path="router.gamma", old=0.3, new=0.3 + k / 100)
    effect = ExpectedEffect(estimate=0.05, low=0.0, high=0.1, source="a guess")
    return Draft(Layer.STRATEGY, change, "d", "r", f"t{k}", (), effect, 0.1, f"f{k}", "engine:rule")


def test_one_cycle_makes_no_more_strategy_changes_than_allowed() -> None:
    arranged = Arranged.new(Settings(l3=StrategyLayer(max_policy_changes_per_cycle=2)))
    edit = PromptPatch(prompt="support", ops=(AddLine(text="- a"),))
    prompt = replace(strategy_draft(9), layer=Layer.PROMPT, change=edit)
    drafts = [strategy_draft(1), prompt, strategy_draft(2), strategy_draft(3)]
    turn = turn_of(arranged)
    assert few_strategy_changes(turn, drafts) == tuple(drafts[:3])
    assert [step.subject for step in turn.report.steps] == ["t3"]


def harmed(arranged: Arranged, text: str) -> Proposal:
    """A proposal of its own cycle that a detector took back."""
    arranged.pass_hours(1)
    change = PromptPatch(prompt="support", ops=(AddLine(text=text),))
    made = arranged.propose(change)
    states = (ProposalState.GATED, ProposalState.SHADOWING, ProposalState.JUDGED, ProposalState.WATCHING)
    moved = arranged.move(made, *states, ProposalState.ROLLED_BACK)
    with arranged.context.ledger.transaction(now=arranged.now, actor="engine") as tx:
        tx.put(
            Incident(
                incident_id=f"incident-{made.proposal_id}",
                agent=AGENT,
                layer=Layer.PROMPT,
                at=arranged.now,
                detector="watch",
                summary="worse",
                proposal_id=made.proposal_id,
                version=None,
                restored=None,
                numbers={},
            )
        )
    return moved


def control(arranged: Arranged) -> Control:
    with arranged.context.ledger.view() as view:
        return control_of(view, AGENT)


def test_three_cycles_in_a_row_that_did_harm_pause_the_engine_until_a_person_resumes() -> None:
    arranged = Arranged.new(Settings())
    for text in ("- a one", "- b two"):
        harmed(arranged, text)
        arranged.engine.advance(arranged.now)
    assert not control(arranged).paused
    harmed(arranged, "- c three")
    report = arranged.engine.advance(arranged.now)
    paused = control(arranged)
    assert (paused.paused, paused.actor) == (True, "engine")
    assert "3 cycles in a row" in paused.why
    assert any(step.what == "paused" for step in report.steps)
    with arranged.context.ledger.view() as view:
        events = [e for _, e in view.events() if e.name is EventName.PAUSED]
    assert len(events) == 1
    arranged.pass_hours(1)
    arranged.engine.resume(AGENT, actor="person:ann", why="read it", now=arranged.now)
    arranged.pass_hours(1)
    arranged.engine.advance(arranged.now)
    assert not control(arranged).paused


def test_refused_changes_and_rollbacks_by_a_person_are_no_failed_cycles() -> None:
    arranged = Arranged.new(Settings())
    states = (ProposalState.GATED, ProposalState.SHADOWING, ProposalState.JUDGED, ProposalState.WATCHING)
    for k in range(4):
        arranged.pass_hours(1)
        change = PromptPatch(prompt="support", ops=(AddLine(text=f"- {k} refused"),))
        arranged.move(arranged.propose(change), ProposalState.REJECTED)
        other = PromptPatch(prompt="support", ops=(AddLine(text=f"- {k} taken back"),))
        arranged.pass_hours(1)
        arranged.move(arranged.propose(other), *states, ProposalState.ROLLED_BACK)
    with arranged.context.ledger.view() as view:
        assert failed_in_a_row(view, AGENT, control_of(view, AGENT)) == 0


def test_a_confirmed_change_ends_the_row() -> None:
    arranged = Arranged.new(Settings())
    states = (ProposalState.GATED, ProposalState.SHADOWING, ProposalState.JUDGED, ProposalState.WATCHING)
    harmed(arranged, "- a one")
    harmed(arranged, "- b two")
    arranged.pass_hours(1)
    good = PromptPatch(prompt="support", ops=(AddLine(text="- good"),))
    arranged.move(arranged.propose(good), *states, ProposalState.CONFIRMED)
    harmed(arranged, "- c three")
    with arranged.context.ledger.view() as view:
        assert failed_in_a_row(view, AGENT, control_of(view, AGENT)) == 1


def test_runs_that_break_count_once_an_hour_and_a_clean_one_forgets_them() -> None:
    arranged = Arranged.new(Settings())
    for minutes in (0, 5, 55, 61):
        now = arranged.now + timedelta(minutes=minutes)
        with leased(arranged.context, AGENT, now) as lease:
            settle_cycles(Turn(arranged.context, lease, AGENT, now, Report()), {"analysis of default"})
    assert control(arranged).failed_cycles == 2
    arranged.pass_hours(2)
    with leased(arranged.context, AGENT, arranged.now) as lease:
        settle_cycles(Turn(arranged.context, lease, AGENT, arranged.now, Report()), ())
    assert control(arranged).failed_cycles == 0


def test_a_near_copy_of_an_open_proposal_is_known_before_it_is_written() -> None:
    arranged = Arranged.new(Settings())
    first = arranged.propose()
    copy = PromptPatch(prompt="support", ops=(AddLine(text="-  INVOICE:  a bill!"),))
    with arranged.context.ledger.view() as view:
        found = blocked_by(copy, known_changes(view, AGENT, Layer.PROMPT))
    assert found is not None
    assert found.fingerprint == fingerprint(first.change)
    assert first.proposal_id in found.why


@pytest.mark.parametrize(("served", "strayed"), [("default", 1), ("control", 1), ("treatment", 0)])
def test_what_an_app_served_instead_of_its_arm_is_contamination(served: str, strayed: int) -> None:
    arranged = Arranged.new(Settings())
    arranged.write(session("s", arranged.now, arm=("e", "treatment"), served=served))
    arranged.pass_hours(48)
    arranged.engine.score(arranged.now)
    scores = arranged.context.records.scores(experiment_id="e")
    assert collect(scores, "e", ()).treatment.served_other == strayed
