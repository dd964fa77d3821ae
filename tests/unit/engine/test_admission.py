"""After a trip: a growing cooldown, then one trial at a time; and nothing is promoted during an outage."""

from datetime import timedelta

import msgspec
import pytest
from arranged import AGENT, Arranged, session
from test_holding import PLAN

from prx.domain.changes import AddLine, PromptPatch
from prx.domain.errors import Conflict
from prx.domain.events import Breaker, EventName, Incident
from prx.domain.experiments import CONTROL, TREATMENT, Experiment, ExperimentStatus
from prx.domain.layers import Layer
from prx.domain.proposals import Proposal, ProposalState
from prx.engine.admission import COMMON_CAUSE, admit, kept_out
from prx.engine.context import control_of
from prx.engine.trialstart import create_experiment
from prx.engine.undo import close_breaker, open_breaker
from prx.engine.watching import freeze_baseline
from prx.settings import Settings

KEY = f"{AGENT}/{Layer.PROMPT}"
DAY = timedelta(days=1)


@pytest.fixture
def arranged() -> Arranged:
    return Arranged.new(Settings())


def trip(arranged: Arranged) -> Breaker:
    with arranged.context.ledger.transaction(now=arranged.now, actor="engine") as tx:
        return open_breaker(tx, AGENT, Layer.PROMPT, hours=24)


def filed(arranged: Arranged, *, line: str, state: ProposalState = ProposalState.JUDGED) -> Proposal:
    proposal = arranged.propose(PromptPatch(prompt="support", ops=(AddLine(text=line),)))
    return arranged.move(proposal, ProposalState.GATED, ProposalState.SHADOWING, state)


def ask(arranged: Arranged, proposal: Proposal) -> str:
    with arranged.context.ledger.view() as view:
        return kept_out(view, AGENT, Layer.PROMPT, proposal.proposal_id, arranged.now)


def enter(arranged: Arranged, proposal: Proposal) -> None:
    with arranged.context.ledger.transaction(now=arranged.now, actor="engine") as tx:
        admit(tx, proposal)


def breaker(arranged: Arranged) -> Breaker:
    with arranged.context.ledger.view() as view:
        return view.get(Breaker, KEY)


def test_each_trip_doubles_the_cooldown_up_to_a_week_and_a_clean_watch_forgets_them(
    arranged: Arranged,
) -> None:
    times = [(trip(arranged).until or arranged.now) - arranged.now for _ in range(5)]
    assert times == [DAY, 2 * DAY, 4 * DAY, 7 * DAY, 7 * DAY]
    with arranged.context.ledger.transaction(now=arranged.now, actor="engine") as tx:
        close_breaker(tx, AGENT, Layer.PROMPT)
    assert (trip(arranged).until or arranged.now) - arranged.now == DAY


def test_nothing_of_the_layer_starts_to_serve_during_the_cooldown(arranged: Arranged) -> None:
    one = filed(arranged, line="- one")
    trip(arranged)
    arranged.pass_hours(23.9)
    assert "cools down until" in ask(arranged, one)
    with pytest.raises(Conflict, match="waits, nothing was changed"):
        enter(arranged, one)
    arranged.pass_hours(0.2)
    assert ask(arranged, one) == ""


def test_of_fifty_contenders_one_gets_the_permit_and_the_next_when_it_is_over(arranged: Arranged) -> None:
    contenders = [filed(arranged, line=f"- line {k}") for k in range(50)]
    trip(arranged)
    arranged.pass_hours(25)
    admitted = []
    for one in contenders:
        try:
            enter(arranged, one)
        except Conflict:
            assert "one trial" in ask(arranged, one)
        else:
            admitted.append(one.proposal_id)
    assert admitted == [contenders[0].proposal_id]
    assert (breaker(arranged).state, breaker(arranged).permit) == ("half_open", admitted[0])
    arranged.move(contenders[0], ProposalState.REJECTED)
    enter(arranged, contenders[7])
    assert breaker(arranged).permit == contenders[7].proposal_id


def test_a_permit_that_came_to_nothing_is_free_after_48_hours(arranged: Arranged) -> None:
    one, other = filed(arranged, line="- one"), filed(arranged, line="- other")
    trip(arranged)
    arranged.pass_hours(25)
    enter(arranged, one)
    arranged.pass_hours(47.9)
    assert "one trial" in ask(arranged, other)
    arranged.pass_hours(0.2)
    enter(arranged, other)
    assert breaker(arranged).permit == other.proposal_id


def test_a_trial_that_serves_keeps_its_permit_until_it_is_over(arranged: Arranged) -> None:
    one, other = filed(arranged, line="- one"), filed(arranged, line="- other")
    trip(arranged)
    arranged.pass_hours(25)
    enter(arranged, one)
    arranged.move(one, ProposalState.EXPERIMENTING)
    arranged.pass_hours(24 * 20)
    assert "one trial" in ask(arranged, other)
    trip(arranged)
    assert breaker(arranged).permit is None
    assert "cools down" in ask(arranged, other)


def running(arranged: Arranged) -> Experiment:
    """A week of traffic that fails once in twenty, then an experiment on half of it."""
    for k in range(400):
        arranged.write(
            session(f"before-{k}", arranged.now + timedelta(minutes=24 * k), outcome=float(k % 20 > 0))
        )
    arranged.pass_hours(160)
    arranged.engine.score(arranged.now)
    proposal = filed(arranged, line="- one")
    baseline = freeze_baseline(arranged.context, AGENT, arranged.now)
    with arranged.context.ledger.transaction(now=arranged.now, actor="engine") as tx:
        made = create_experiment(
            tx, AGENT, Layer.PROMPT, plan=PLAN, treated=proposal.treated, proposal=proposal
        )
        made = msgspec.structs.replace(made, state={**made.state, "baseline": baseline})
        tx.put(made)
        tx.move(proposal, ProposalState.EXPERIMENTING, why="test", experiment_id=made.experiment_id)
    return made


def hour(arranged: Arranged, experiment: Experiment, number: int, *, fails: dict[str, int]) -> None:
    """One hour with 30 sessions an arm, of which so many fail."""
    for variant in (CONTROL, TREATMENT):
        for k in range(30):
            arm = (experiment.experiment_id, variant)
            at = arranged.now + timedelta(minutes=2 * k)
            outcome = float(k >= fails[variant])
            arranged.write(session(f"{variant}-{number}-{k}", at, outcome=outcome, arm=arm))
    arranged.pass_hours(1)
    arranged.engine.advance(arranged.now, safety_only=True)


def test_an_outage_in_both_arms_freezes_promotions_and_blames_nobody(arranged: Arranged) -> None:
    experiment = running(arranged)
    for number in range(30):
        hour(arranged, experiment, number, fails={CONTROL: 1, TREATMENT: 1})
    hour(arranged, experiment, 30, fails={CONTROL: 12, TREATMENT: 15})
    with arranged.context.ledger.view() as view:
        assert view.find(Incident, agent=AGENT) == ()
        assert view.get(Experiment, experiment.experiment_id).status is ExperimentStatus.RUNNING
        assert COMMON_CAUSE in control_of(view, AGENT).alerts
        told = [event for _, event in view.events() if event.name is EventName.ALERT]
        proposal = view.get(Proposal, experiment.proposal_id or "")
    assert "promotions are frozen" in told[-1].summary
    assert "promotions are frozen" in ask(arranged, proposal)
    for number in range(31, 34):
        hour(arranged, experiment, number, fails={CONTROL: 1, TREATMENT: 1})
    assert ask(arranged, proposal) == ""


def test_the_same_failures_in_the_treatment_alone_cancel_the_experiment(arranged: Arranged) -> None:
    experiment = running(arranged)
    for number in range(30):
        hour(arranged, experiment, number, fails={CONTROL: 1, TREATMENT: 1})
    hour(arranged, experiment, 30, fails={CONTROL: 1, TREATMENT: 15})
    with arranged.context.ledger.view() as view:
        assert [one.detector for one in view.find(Incident, agent=AGENT)] == ["breaker"]
        assert view.get(Experiment, experiment.experiment_id).status is ExperimentStatus.CANCELLED
        assert COMMON_CAUSE not in control_of(view, AGENT).alerts
