"""Units held back from a promoted change, served by the SDK: who, for how long, and what the engine reads."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

import msgspec
import pytest
from arranged import AGENT, PROMPT, Arranged

from prx.domain.events import Incident
from prx.domain.experiments import CONTROL, TREATMENT, Experiment, Plan
from prx.domain.holdback import Holdback, holdback_of, name_holdback
from prx.domain.ids import Ids
from prx.domain.layers import Layer
from prx.domain.proposals import Proposal, ProposalState
from prx.domain.records import Record
from prx.domain.serving import ServedExperiment
from prx.engine.holding import MEMORY_SHARE, PER_DAY, THIN_SHARE, hold_back, still_held
from prx.engine.trialstart import create_experiment
from prx.engine.watching import freeze_baseline
from prx.ledger import serving
from prx.live.assign import assign, held_back
from prx.live.evolution import Evolution
from prx.release.promote import promote
from prx.settings import Settings, Watch

PROVEN = (ProposalState.GATED, ProposalState.SHADOWING, ProposalState.JUDGED)
ADDED = "- invoice: a bill"


@dataclass
class Desk:
    """An app on the SDK whose records and prompts are those of the arranged engine."""

    arranged: Arranged
    written: int = 0

    def __post_init__(self) -> None:
        self.random = random.Random(11)
        self.app = self.another()

    def another(self) -> Evolution:
        """One more process: it shares nothing but the ledger and the records."""

        def take(record: Record) -> None:
            self.arranged.write([record])

        def read(agent: str) -> object:
            with self.arranged.context.ledger.view() as view:
                return serving(view, agent)

        return Evolution(read, take, ids=Ids(random.Random(self.written)), now=lambda: self.arranged.now)  # type: ignore[arg-type]

    def text_of(self, user: str, app: Evolution | None = None) -> str:
        with (app or self.app).session(user=user) as session:
            return session.prompt("support", default=PROMPT)

    def serve(self, hours: int, per_hour: int, good: Callable[[str], float], users: int = 200) -> None:
        """Hours of traffic; `good` gives the mean relevance under a prompt's text, 0.2 to 0.8."""
        for _ in range(hours):
            for _ in range(per_hour):
                self.written += 1
                user = f"user-{self.random.randrange(users)}"
                with self.app.session(session_id=f"s{self.written}", user=user) as session:
                    text = session.prompt("support", default=PROMPT)
                    with session.call(model="m", messages=text) as call:
                        call.reply(text="an answer")
                    went = good(text) + 0.4 * self.random.random() - 0.2
                    self.app.feedback(session=session, name="relevance", value=went)
                    session.end()
            self.arranged.pass_hours(1)
            self.arranged.engine.advance(self.arranged.now)


def changed(text: str) -> bool:
    return ADDED in text


def arranged(watch: Watch | None = None) -> Arranged:
    return Arranged.new(Settings(watch=watch or Watch()))


def ship(
    desk: Arranged, *, per_day: float = 1000.0, experiment: Experiment | None = None
) -> tuple[Proposal, Holdback | None]:
    """Promote the proposal that adds a line, at a traffic of so many sessions a day."""
    proposal = desk.move(desk.propose(), *PROVEN)
    if experiment:
        proposal = msgspec.structs.replace(proposal, experiment_id=experiment.experiment_id)
    baseline = {**freeze_baseline(desk.context, AGENT, desk.now), PER_DAY: per_day}
    with desk.context.ledger.transaction(now=desk.now, actor="engine") as tx:
        held = hold_back(desk.context, tx, proposal, baseline, desk.now)
        moved, version = promote(tx, proposal, why="test", evidence="live", baseline=held)
    return moved, holdback_of(version)


PLAN = Plan(
    traffic_split=0.5,
    ramp=1.0,
    confidence_level=0.95,
    min_effect_size=0.02,
    effect_scale="absolute",
    min_sample_size=100,
    min_units=20,
    default_duration_hours=168,
    min_duration_hours=24,
    max_duration_hours=720,
    check_interval_hours=24,
    outcome_window_hours=24,
    randomization_unit="user",
    spending="hsd",
    planned_sample="power",
    planned_looks=30,
    act_on_futility=False,
    weights={},
    rho=0.2,
    max_regression=0.1,
    ramp_salt="ramp",
    variant_salt="variant",
)


def trial(desk: Arranged) -> Experiment:
    """An experiment on half of the users, whose plan placed them."""
    with desk.context.ledger.transaction(now=desk.now, actor="engine") as tx:
        part = tx.version(AGENT, "v1.0").manifest.prompt
        return create_experiment(tx, AGENT, Layer.PROMPT, plan=PLAN, treated=part, proposal=None)


def test_a_tenth_of_the_users_keeps_the_old_text_for_168_hours_in_every_process() -> None:
    desk = Desk(arranged())
    ship(desk.arranged)
    other = desk.another()
    users = [f"user-{k}" for k in range(2000)]
    kept = {user for user in users if not changed(desk.text_of(user))}
    assert 150 < len(kept) < 250
    assert kept == {user for user in users if not changed(desk.text_of(user, other))}
    desk.arranged.pass_hours(167.9)
    assert kept == {user for user in users if not changed(desk.text_of(user))}
    desk.arranged.pass_hours(0.2)
    assert all(changed(desk.text_of(user)) for user in users)


def test_sides_are_recorded_as_assigned_and_served_once_per_session() -> None:
    desk = Desk(arranged())
    proposal, _ = ship(desk.arranged)
    desk.serve(1, 300, lambda _: 0.7, users=3000)
    name = name_holdback(proposal.proposal_id)
    scores = list(desk.arranged.context.records.scores(agent=AGENT, experiment_id=name))
    assert len(scores) == 300
    arms = [arm for score in scores if (arm := score.arm(name))]
    assert {(arm.assigned, arm.served) for arm in arms} == {(CONTROL, CONTROL), (TREATMENT, TREATMENT)}
    assert 15 < sum(arm.assigned == CONTROL for arm in arms) < 50


def test_below_600_sessions_a_day_a_fifth_is_held_back_and_out_of_the_experiments_control() -> None:
    one = arranged()
    experiment = trial(one)
    _, held = ship(one, per_day=599, experiment=experiment)
    assert held is not None
    assert [step.share for step in held.steps] == [THIN_SHARE]
    run = ServedExperiment(
        experiment_id="e",
        layer=Layer.PROMPT,
        ramp=1.0,
        traffic_split=PLAN.traffic_split,
        ramp_salt=PLAN.ramp_salt,
        variant_salt=PLAN.variant_salt,
    )
    units = [f"u{k}" for k in range(4000)]
    kept = [unit for unit in units if held_back(unit, held.salt, THIN_SHARE)]
    assert 700 < len(kept) < 900
    assert all(assign(unit, run) == CONTROL for unit in kept)


@pytest.mark.parametrize(
    ("per_day", "watch", "shares"),
    [
        (600, Watch(), [0.1]),
        (599, Watch(), None),
        (10_000, Watch(holdback=0.0), None),
        (10_000, Watch(holdback_hours=0.0), None),
        (0, Watch(holdback=0.3, holdback_min_sessions_per_day=0), [0.3]),
    ],
)
def test_the_settings_say_who_is_held_back(per_day: float, watch: Watch, shares: list[float] | None) -> None:
    one = arranged(watch)
    _, held = ship(one, per_day=per_day)
    assert (None if held is None else [step.share for step in held.steps]) == shares


@pytest.mark.parametrize(("per_day", "shares"), [(50, [MEMORY_SHARE]), (900, [MEMORY_SHARE, 0.1])])
def test_half_of_the_units_is_held_back_from_a_memory_change_for_a_day(
    per_day: float, shares: list[float]
) -> None:
    one = arranged()
    proposal = msgspec.structs.replace(one.propose(), layer=Layer.MEMORY)
    with one.context.ledger.view() as view:
        baseline = hold_back(one.context, view, proposal, {PER_DAY: per_day}, one.now)
    held = msgspec.convert(baseline["holdback"], Holdback)
    assert [step.share for step in held.steps] == shares
    assert held.share(one.now + timedelta(hours=23)) == MEMORY_SHARE
    assert held.share(one.now + timedelta(hours=25)) == (0.1 if len(shares) > 1 else None)


def test_a_change_that_is_worse_than_its_holdback_is_taken_back_and_the_incident_says_so() -> None:
    desk = Desk(arranged(Watch(holdback=0.3)))
    desk.serve(40, 30, lambda _: 0.7)
    proposal, _ = ship(desk.arranged)
    desk.serve(60, 30, lambda text: 0.6 if changed(text) else 0.7)
    with desk.arranged.context.ledger.view() as view:
        found = view.get(Proposal, proposal.proposal_id)
        incidents = view.find(Incident, agent=AGENT)
    assert found.state is ProposalState.ROLLED_BACK
    assert [incident.detector for incident in incidents] == ["watch"]
    assert "against the units held back from it" in incidents[0].summary
    assert incidents[0].numbers["fitness_lower"] > 0


def test_a_bad_day_for_everyone_is_not_blamed_on_the_change() -> None:
    desk = Desk(arranged(Watch(holdback=0.3)))
    desk.serve(40, 30, lambda _: 0.7)
    proposal, _ = ship(desk.arranged)
    desk.serve(60, 30, lambda _: 0.6)
    with desk.arranged.context.ledger.view() as view:
        assert view.get(Proposal, proposal.proposal_id).state is ProposalState.WATCHING
        assert view.find(Incident, agent=AGENT) == ()


def test_nobody_is_held_back_after_rollback_confirmation_or_kill() -> None:
    for end in ("rollback", "confirm", "kill"):
        desk = Desk(arranged(Watch(holdback=0.5)))
        proposal, _ = ship(desk.arranged)
        users = [f"user-{k}" for k in range(40)]
        assert {changed(desk.text_of(user)) for user in users} == {True, False}
        now, engine = desk.arranged.now, desk.arranged.engine
        if end == "rollback":
            engine.rollback(AGENT, actor="person:ann", now=now)
        elif end == "confirm":
            engine.confirm(proposal.proposal_id, actor="person:ann", now=now)
        else:
            engine.kill(AGENT, actor="person:ann", why="test", now=now)
        assert {changed(desk.text_of(user)) for user in users} == {end != "rollback"}


def test_the_sessions_held_back_are_a_control_only_while_units_are_held_back() -> None:
    desk = Desk(arranged())
    proposal, _ = ship(desk.arranged)
    with desk.arranged.context.ledger.view() as view:
        version = view.version(AGENT, "v1.1")
        assert still_held(view, version, desk.arranged.now + timedelta(hours=167))
        assert not still_held(view, version, desk.arranged.now + timedelta(hours=169))
    desk.arranged.engine.confirm(proposal.proposal_id, actor="person:ann", now=desk.arranged.now)
    with desk.arranged.context.ledger.view() as view:
        assert not still_held(view, version, desk.arranged.now + timedelta(hours=1))


def test_a_unit_held_back_enters_no_experiment_of_that_layer() -> None:
    desk = Desk(arranged(Watch(holdback=0.5)))
    _, held = ship(desk.arranged)
    assert held is not None
    with desk.arranged.context.ledger.view() as view:
        served = serving(view, AGENT)
    running = ServedExperiment(
        experiment_id="next",
        layer=Layer.PROMPT,
        ramp=1.0,
        traffic_split=0.5,
        ramp_salt="r",
        variant_salt="v",
        prompts={"support": "next"},
    )
    taken: list[Record] = []
    app = Evolution(
        lambda _: msgspec.structs.replace(served, experiments=(running,)),
        taken.append,
        now=lambda: desk.arranged.now,
    )
    for k in range(100):
        with app.session(user=f"user-{k}") as session:
            session.prompt("support", default=PROMPT)
    entered = {r.unit for r in taken if getattr(r, "experiment_id", "") == "next" and hasattr(r, "unit")}
    assert entered == {f"user-{k}" for k in range(100) if not held_back(f"user-{k}", held.salt, 0.5)}
