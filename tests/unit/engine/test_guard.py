"""Breakers and watches on what serves: the culprit goes, the innocent stay, the numbers can be recomputed."""

from datetime import timedelta

import pytest
from arranged import AGENT, PROMPT, Arranged, session

from prx.domain.changes import Change, StrategyPatch
from prx.domain.decisions import Decision
from prx.domain.events import Breaker, Incident
from prx.domain.holdback import Holdback, HoldStep, name_holdback, with_holdback
from prx.domain.layers import Layer
from prx.domain.proposals import Proposal, ProposalState
from prx.domain.records import PromptSeen
from prx.domain.versions import PromptSet, Strategy, Version, VersionStatus
from prx.engine.filing import past_changes
from prx.engine.watching import freeze_baseline
from prx.release.applied import current
from prx.release.breaker import Rate, predictive_tail
from prx.release.promote import promote
from prx.settings import Pipeline, Settings

PROVEN = (ProposalState.GATED, ProposalState.SHADOWING, ProposalState.JUDGED)


def serve(arranged: Arranged, name: str, hours: int, *, fails_every: int, per_hour: int = 12) -> None:
    """Hours of traffic in which every `fails_every`-th session fails, with a tick after each hour."""
    for hour in range(hours):
        for k in range(per_hour):
            number = hour * per_hour + k
            at = arranged.now + timedelta(minutes=60 * k / per_hour)
            outcome = 0.0 if number % fails_every == 0 else 1.0
            arranged.write(session(f"{name}-{number}", at, outcome=outcome))
        arranged.pass_hours(1)
        arranged.engine.advance(arranged.now)


def promoted(arranged: Arranged, change: Change | None = None) -> Proposal:
    """A change, of the prompt where no other is given, that serves and is watched."""
    proposal = arranged.move(arranged.propose(change), *PROVEN)
    baseline = freeze_baseline(arranged.context, AGENT, arranged.now)
    with arranged.context.ledger.transaction(now=arranged.now, actor="engine") as tx:
        moved, _ = promote(tx, proposal, why="test", evidence="live", baseline=baseline)
    return moved


def ship_prompt(arranged: Arranged, text: str) -> None:
    """The app offers another default text."""
    arranged.write(
        [PromptSeen(record_id=f"seen/{text}", at=arranged.now, agent=AGENT, name="support", text=text)]
    )
    arranged.engine.advance(arranged.now)


def test_a_broken_version_is_undone_alone_and_the_change_under_it_stays() -> None:
    arranged = Arranged.new(Settings())
    serve(arranged, "before", 100, fails_every=20)
    kept = promoted(arranged)
    serve(arranged, "good", 10, fails_every=20)
    ship_prompt(arranged, PROMPT + "broken\n")
    serve(arranged, "bad", 2, fails_every=2)
    serve(arranged, "after", 20, fails_every=20)
    with arranged.context.ledger.view() as view:
        pointer = view.pointer(AGENT)
        incidents = view.find(Incident, agent=AGENT)
        statuses = {v.label: v.status for v in view.find(Version, agent=AGENT)}
        proposal = view.get(Proposal, kept.proposal_id)
    assert pointer is not None
    assert pointer.label == "v1.1"
    assert [i.version for i in incidents] == ["v1.2"]
    assert statuses["v1.2"] is VersionStatus.ROLLED_BACK
    assert statuses["v1.1"] is VersionStatus.LIVE
    assert proposal.state is ProposalState.WATCHING


def test_an_incident_holds_the_numbers_from_which_the_trip_is_recomputed() -> None:
    arranged = Arranged.new(Settings())
    serve(arranged, "before", 100, fails_every=20)
    ship_prompt(arranged, PROMPT + "broken\n")
    serve(arranged, "bad", 6, fails_every=2)
    with arranged.context.ledger.view() as view:
        (incident,) = view.find(Incident, agent=AGENT)
        breaker = view.get(Breaker, f"{AGENT}/{Layer.PROMPT}")
    n = incident.numbers
    window = Rate(int(n["failures"]), int(n["sessions"]))
    baseline = Rate(int(n["baseline_failures"]), int(n["baseline_sessions"]))
    assert predictive_tail(window, baseline) == n["tail"] < 1e-3
    assert incident.restored == "v1.0"
    assert incident.detector == "breaker"
    assert f"{window.failures} of {window.sessions} sessions failed" in incident.summary
    assert incident.next_step.startswith("v1.0 serves already; ")
    assert f"`prx evolution incidents ack {incident.incident_id}`" in incident.next_step
    assert incident.evidence
    assert all(key.startswith("bad-") for key in incident.evidence)
    assert breaker.state == "open"


def test_traffic_as_before_trips_nothing() -> None:
    arranged = Arranged.new(Settings())
    serve(arranged, "before", 100, fails_every=20)
    ship_prompt(arranged, PROMPT + "harmless\n")
    serve(arranged, "same", 48, fails_every=20)
    with arranged.context.ledger.view() as view:
        assert view.find(Incident, agent=AGENT) == ()


def test_no_traffic_trips_nothing_and_confirms_after_the_window() -> None:
    arranged = Arranged.new(Settings())
    serve(arranged, "before", 100, fails_every=20)
    proposal = promoted(arranged)
    for _ in range(8):
        arranged.pass_hours(24)
        arranged.engine.advance(arranged.now)
    with arranged.context.ledger.view() as view:
        assert view.find(Incident, agent=AGENT) == ()
        assert view.get(Proposal, proposal.proposal_id).state is ProposalState.CONFIRMED


def test_a_certain_drop_of_fitness_is_rolled_back_by_the_watch() -> None:
    arranged = Arranged.new(Settings())
    serve(arranged, "before", 100, fails_every=4)
    proposal = promoted(arranged)
    serve(arranged, "worse", 48, fails_every=3, per_hour=24)
    serve(arranged, "worst", 48, fails_every=2, per_hour=24)
    with arranged.context.ledger.view() as view:
        incidents = view.find(Incident, agent=AGENT)
        state = view.get(Proposal, proposal.proposal_id).state
    assert [i.detector for i in incidents] == ["watch"]
    assert state is ProposalState.ROLLED_BACK
    assert all(value > 0 for value in incidents[0].numbers.values())
    with arranged.context.ledger.view() as view:
        rolled = [one for one in view.find(Decision, agent=AGENT) if one.proposal["type"] == "rollback"]
    assert [one.data_points > 100 for one in rolled] == [True]


ROUTING = StrategyPatch(path="automix_threshold", old=0.7, new=0.75)


def undone(arranged: Arranged) -> list[str | None]:
    with arranged.context.ledger.view() as view:
        return [one.version for one in view.find(Incident, agent=AGENT)]


def test_a_change_promoted_onto_a_broken_prompt_stays_and_the_prompt_goes() -> None:
    arranged = Arranged.new(Settings())
    serve(arranged, "before", 100, fails_every=20)
    ship_prompt(arranged, PROMPT + "broken\n")
    serve(arranged, "bad", 1, fails_every=2)
    innocent = promoted(arranged, ROUTING)
    serve(arranged, "still-bad", 1, fails_every=2)
    serve(arranged, "after", 48, fails_every=20)
    with arranged.context.ledger.view() as view:
        served = current(view, AGENT)
        prompts, strategy = view.part(served.manifest.prompt), view.part(served.manifest.strategy)
        state = view.get(Proposal, innocent.proposal_id).state
    assert undone(arranged) == ["v1.1"]
    assert isinstance(prompts, PromptSet)
    assert isinstance(strategy, Strategy)
    assert prompts.texts["support"] == PROMPT
    assert strategy.automix_threshold == 0.75
    assert state is ProposalState.WATCHING


def test_two_changes_that_no_session_tells_apart_both_go_and_neither_counts_as_failed() -> None:
    arranged = Arranged.new(Settings())
    serve(arranged, "before", 100, fails_every=20)
    changes = (promoted(arranged), promoted(arranged, ROUTING))
    serve(arranged, "bad", 6, fails_every=2)
    with arranged.context.ledger.view() as view:
        incidents = view.find(Incident, agent=AGENT)
        served, first = current(view, AGENT), view.version(AGENT, "v1.0")
        states = {view.get(Proposal, one.proposal_id).state for one in changes}
        failed = [past for layer in Layer for past in past_changes(view, AGENT, layer)]
    assert {one.version for one in incidents} == {"v1.1", "v1.2"}
    assert all("v1.1" in one.summary and "v1.2" in one.summary for one in incidents)
    assert served.manifest == first.manifest
    assert states == {ProposalState.ROLLED_BACK}
    assert failed == []


def test_a_drop_that_began_before_a_change_undoes_nothing_and_holds_new_changes_back() -> None:
    arranged = Arranged.new(Settings(pipeline=Pipeline(min_data_points=1)))
    serve(arranged, "before", 100, fails_every=20)
    serve(arranged, "outside", 10, fails_every=2)
    promoted(arranged)
    serve(arranged, "bad", 6, fails_every=2)
    waiting = arranged.propose(ROUTING)
    arranged.engine.advance(arranged.now)
    with arranged.context.ledger.view() as view:
        (incident,) = view.find(Incident, agent=AGENT)
        served, held = current(view, AGENT), view.get(Proposal, waiting.proposal_id)
    assert (incident.version, incident.restored) == (None, None)
    assert "before any change" in incident.summary
    assert served.label == "v1.1"
    assert held.state is ProposalState.DEFERRED
    assert incident.incident_id in held.why


def test_a_treatment_that_fails_is_stopped_and_the_change_that_serves_is_not_blamed() -> None:
    arranged = Arranged.new(Settings())
    serve(arranged, "before", 100, fails_every=20)
    promoted(arranged)
    serve(arranged, "good", 10, fails_every=20)
    for k in range(60):
        at = arranged.now + timedelta(minutes=k)
        treated = session(f"treated-{k}", at, outcome=0.0, arm=("other", "treatment"))
        arranged.write([*treated, *session(f"rest-{k}", at, outcome=float(k % 20 > 0))])
    arranged.pass_hours(1)
    arranged.engine.advance(arranged.now)
    assert undone(arranged) == []


def test_a_drop_of_fitness_under_a_developers_text_is_told_and_their_text_stays() -> None:
    arranged = Arranged.new(Settings())
    serve(arranged, "before", 100, fails_every=4)
    innocent = promoted(arranged, ROUTING)
    serve(arranged, "good", 10, fails_every=4)
    ship_prompt(arranged, PROMPT + "vague\n")
    serve(arranged, "worse", 48, fails_every=2, per_hour=24)
    with arranged.context.ledger.view() as view:
        incidents = view.find(Incident, agent=AGENT)
        served = current(view, AGENT)
        prompts = view.part(served.manifest.prompt)
        state = view.get(Proposal, innocent.proposal_id).state
    assert [(one.detector, one.version, one.restored) for one in incidents] == [("watch", "v1.2", None)]
    assert isinstance(prompts, PromptSet)
    assert prompts.texts["support"].endswith("vague\n")
    assert state is ProposalState.WATCHING


def test_a_better_treatment_under_test_is_no_part_of_the_baseline_of_another_change() -> None:
    arranged = Arranged.new(Settings())
    for k in range(800):
        at = arranged.now + timedelta(minutes=6 * k)
        arranged.write(session(f"treated-{k}", at, outcome=1.0, arm=("other", "treatment")))
        arranged.write(session(f"control-{k}", at, outcome=float(k % 5 > 1), arm=("other", "control")))
    arranged.pass_hours(80)
    arranged.engine.advance(arranged.now)
    change = promoted(arranged, ROUTING)
    for hour in range(24):
        for k in range(20):
            at = arranged.now + timedelta(minutes=3 * k)
            arranged.write(session(f"after-{hour}-{k}", at, outcome=float(k % 5 > 1)))
        arranged.pass_hours(1)
        arranged.engine.advance(arranged.now)
    with arranged.context.ledger.view() as view:
        version = view.version(AGENT, change.version or "")
    assert version.baseline["failures"] == [320, 800]
    assert undone(arranged) == []


def both_sides(arranged: Arranged, name: str, holdback: str, hours: int, *, fails_every: int) -> None:
    """Hours of traffic half of which is held back from a change, the other half not."""
    for hour in range(hours):
        for k in range(24):
            at, side = arranged.now + timedelta(minutes=2.5 * k), ("control", "treatment")[k // 2 % 2]
            outcome = float(k % fails_every > 0)
            written = session(f"{name}-{hour}-{k}", at, outcome=outcome, arm=(holdback, side), served=side)
            arranged.write(written)
        arranged.pass_hours(1)
        arranged.engine.advance(arranged.now)


@pytest.mark.parametrize("held_hours", [6, 48])
def test_units_that_were_held_back_before_a_prompt_broke_do_not_convict_the_change_that_they_were_kept_from(
    held_hours: int,
) -> None:
    arranged = Arranged.new(Settings())
    serve(arranged, "before", 100, fails_every=5)
    proposal = arranged.move(arranged.propose(ROUTING), *PROVEN)
    held = Holdback(
        holdback_id=name_holdback(proposal.proposal_id),
        layer=Layer.STRATEGY,
        previous=proposal.base,
        salt="salt",
        steps=(HoldStep(share=0.5, until=arranged.now + timedelta(hours=held_hours)),),
    )
    baseline = with_holdback(freeze_baseline(arranged.context, AGENT, arranged.now), held)
    with arranged.context.ledger.transaction(now=arranged.now, actor="engine") as tx:
        promote(tx, proposal, why="test", evidence="live", baseline=baseline)
    both_sides(arranged, "good", held.holdback_id, 6, fails_every=24)
    ship_prompt(arranged, PROMPT + "broken\n")
    if held_hours > 6:
        both_sides(arranged, "bad", held.holdback_id, 3, fails_every=3)
    else:
        serve(arranged, "bad", 3, fails_every=3, per_hour=24)
    assert "v1.1" not in undone(arranged)
