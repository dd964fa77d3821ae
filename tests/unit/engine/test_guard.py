"""Breakers and watches on what serves: the culprit goes, the innocent stay, the numbers can be recomputed."""

from datetime import timedelta

from arranged import AGENT, PROMPT, Arranged, session

from prx.domain.events import Breaker, Incident
from prx.domain.layers import Layer
from prx.domain.proposals import Proposal, ProposalState
from prx.domain.records import PromptSeen
from prx.domain.versions import Version, VersionStatus
from prx.engine.watching import freeze_baseline
from prx.release.breaker import Rate, predictive_tail
from prx.release.promote import promote
from prx.settings import Settings

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


def promoted(arranged: Arranged) -> Proposal:
    """A change of the prompt that serves and is watched."""
    proposal = arranged.move(arranged.propose(), *PROVEN)
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
