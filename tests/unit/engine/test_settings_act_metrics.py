"""Own metrics in experiments: the primary is tested, a guardrail may stop or block, a report is shown."""

import random
from dataclasses import replace
from datetime import timedelta
from types import MappingProxyType

import msgspec
import pytest
from arranged import AGENT, START, Arranged, session

from prx.domain.changes import AddLine, PromptPatch
from prx.domain.experiments import CONTROL, TREATMENT, Experiment, ExperimentStatus, Look
from prx.domain.proposals import Proposal, ProposalState
from prx.domain.records import Feedback, Record
from prx.domain.scores import OwnMetric, SessionScore
from prx.engine.engine import Engine
from prx.engine.intake import rules_for
from prx.engine.preperiod import levels
from prx.engine.watching import freeze_baseline
from prx.release.promote import promote
from prx.settings import Experiments, Metric, Settings
from prx.views.fitness import own_metrics, rules_from

PROVEN = (ProposalState.GATED, ProposalState.SHADOWING, ProposalState.JUDGED)
PER_DAY = 60


def settings(**metrics: Metric) -> Settings:
    return Settings(
        enabled=True,
        auto_apply=True,
        experiments=Experiments(outcome_window_hours=0.1, planned_sample="300", min_effect_size=0.01),
        metrics=MappingProxyType(metrics),
    )


def told(key: str, arranged: Arranged, name: str, value: float) -> Record:
    return Feedback(
        record_id=f"{key}/{name}",
        at=arranged.now + timedelta(hours=1),
        target_kind="session",
        target=key,
        name=name,
        value=value,
    )


def running(given: Settings, *, name: str, values: random.Random, mean: float = 10.0) -> Arranged:
    """Days of sessions with the metric, then a running experiment."""
    arranged = Arranged.new(given)
    for day in range(4):
        for k in range(PER_DAY):
            key = f"before-{day}-{k}"
            at = arranged.now + timedelta(minutes=10 * k)
            arranged.write(session(key, at, relevance=0.5 + 0.3 * values.random()))
            arranged.write([told(key, arranged, name, values.gauss(mean, 2))])
        arranged.pass_hours(24)
    arranged.engine.advance(arranged.now)
    arranged.move(arranged.propose(), *PROVEN)
    arranged.engine.advance(arranged.now)
    return arranged


def play(
    arranged: Arranged,
    values: random.Random,
    name: str,
    draw: dict[str, float],
    *,
    lift: float = 0.0,
    rate: bool = False,
    days: int = 7,
) -> Experiment:
    """Days of sessions: `draw` gives each arm's mean of the metric, `lift` the treatment's in relevance."""
    with arranged.context.ledger.view() as view:
        (experiment,) = view.find(Experiment, agent=AGENT)
    for day in range(days):
        for variant in (CONTROL, TREATMENT):
            for k in range(PER_DAY):
                key = f"{variant}-{day}-{k}"
                at = arranged.now + timedelta(minutes=10 * k)
                relevance = 0.4 + 0.3 * values.random() + lift * (variant == TREATMENT)
                arm = (experiment.experiment_id, variant)
                arranged.write(session(key, at, relevance=relevance, arm=arm))
                value = draw[variant] if rate else values.gauss(draw[variant], 2)
                if not rate or values.random() < value:
                    arranged.write([told(key, arranged, name, 1.0 if rate else value)])
        arranged.pass_hours(24)
        arranged.engine.advance(arranged.now)
    with arranged.context.ledger.view() as view:
        return view.get(Experiment, experiment.experiment_id)


def last_look(experiment: Experiment) -> Look:
    return [look for look in experiment.looks if look.is_look][-1]


@pytest.mark.parametrize(("better", "treated"), [("higher", 12.0), ("lower", 8.0)])
def test_the_primary_metric_is_tested_instead_of_the_composite(better: str, treated: float) -> None:
    values = random.Random(11)
    given = settings(basket=Metric(role="primary", better=better))
    arranged = running(given, name="basket", values=values)
    ended = play(arranged, values, "basket", {CONTROL: 10.0, TREATMENT: treated})
    assert ended.plan is not None
    assert ended.plan.weights == {"basket": 1.0}
    look = last_look(ended)
    assert look.control_mean == pytest.approx(10.0, abs=0.8)
    assert look.treatment_mean == pytest.approx(treated, abs=0.8)
    assert look.difference == pytest.approx(2.0, abs=1.0)
    assert (ended.status, ended.winner, ended.conclusion) == (
        ExperimentStatus.CONVERGED,
        "treatment",
        "promote",
    )
    with arranged.context.ledger.view() as view:
        (proposal,) = view.find(Proposal, agent=AGENT)
    assert "in basket" in proposal.proofs[-1].why or "in basket" in proposal.why


def test_a_better_composite_does_not_win_where_a_worse_primary_is_tested() -> None:
    values = random.Random(12)
    arranged = running(settings(basket=Metric(role="primary")), name="basket", values=values)
    ended = play(arranged, values, "basket", {CONTROL: 10.0, TREATMENT: 9.0}, lift=0.2)
    assert (ended.conclusion, ended.winner) == ("harmful", "control")


def test_a_guardrail_that_is_hurt_ends_the_experiment_for_control() -> None:
    values = random.Random(13)
    guard = Metric(type="rate", better="lower", role="guardrail", margin=0.05)
    arranged = running(settings(escalated=guard), name="escalated", values=values)
    draw = {CONTROL: 0.05, TREATMENT: 0.35}
    ended = play(arranged, values, "escalated", draw, lift=0.2, rate=True)
    assert (ended.conclusion, ended.winner) == ("harmful", "control")
    assert "escalated" in ended.reason


def test_a_guardrail_within_its_margin_lets_the_winner_pass() -> None:
    values = random.Random(14)
    guard = Metric(type="rate", better="lower", role="guardrail", margin=0.2)
    arranged = running(settings(escalated=guard), name="escalated", values=values)
    draw = {CONTROL: 0.05, TREATMENT: 0.06}
    ended = play(arranged, values, "escalated", draw, lift=0.2, rate=True)
    assert (ended.conclusion, ended.winner) == ("promote", "treatment")
    assert last_look(ended).extra["guardrails"]["escalated"]["answer"] == "pass"


def test_a_guardrail_that_nobody_measured_blocks_a_mean_and_not_a_rate_without_events() -> None:
    values = random.Random(15)
    quiet = settings(
        asked=Metric(role="guardrail"), escalated=Metric(type="rate", better="lower", role="guardrail")
    )
    arranged = running(quiet, name="other", values=values)
    ended = play(arranged, values, "other", {CONTROL: 1.0, TREATMENT: 1.0}, lift=0.2)
    assert ended.conclusion != "promote"
    guards = last_look(ended).extra["guardrails"]
    assert guards["asked"]["answer"] == "not_enough_data"
    assert guards["escalated"]["answer"] == "pass"


def test_a_report_is_shown_and_decides_nothing() -> None:
    values = random.Random(16)
    arranged = running(settings(basket=Metric(role="report")), name="basket", values=values)
    ended = play(arranged, values, "basket", {CONTROL: 10.0, TREATMENT: 2.0}, lift=0.2)
    assert ended.winner == "treatment"
    extra = last_look(ended).extra
    assert extra["dimensions"]["basket"]["difference"] == pytest.approx(-8.0, abs=0.8)
    assert "basket" not in extra["guardrails"]


def test_a_primary_metric_that_few_sessions_have_starts_no_experiment() -> None:
    arranged = running(settings(basket=Metric(role="primary")), name="other", values=random.Random(17))
    with arranged.context.ledger.view() as view:
        assert not view.find(Experiment, agent=AGENT)
        (proposal,) = view.find(Proposal, agent=AGENT)
    assert proposal.state is ProposalState.DEFERRED
    assert "0 scored sessions" in proposal.why


def test_a_running_experiment_keeps_the_metric_as_its_plan_froze_it() -> None:
    frozen = Metric(role="guardrail", margin=3.0)
    arranged = running(settings(basket=frozen), name="basket", values=random.Random(18))
    edited = settings(basket=replace(frozen, window_hours=500.0))
    context = replace(arranged.context, settings=edited, fitness=rules_from(edited))
    assert rules_for(context, AGENT).metrics == own_metrics(settings(basket=frozen))
    with context.ledger.view() as view:
        (experiment,) = view.find(Experiment, agent=AGENT)
    Engine(context).cancel_experiment(experiment.experiment_id, actor="person:ann", now=arranged.now)
    assert rules_for(context, AGENT).metrics == own_metrics(edited)


def test_a_new_metric_is_read_out_of_what_was_recorded_before() -> None:
    arranged = Arranged.new(settings())
    arranged.write([*session("s", arranged.now), told("s", arranged, "basket", 7.5)])
    arranged.pass_hours(48)
    arranged.engine.score(arranged.now)
    assert [s.metrics for s in arranged.context.records.scores(agent=AGENT)] == [{}]
    wider = settings(basket=Metric())
    engine = Engine(replace(arranged.context, settings=wider, fitness=rules_from(wider)))
    assert engine.score(arranged.now) == 1
    assert [s.metrics for s in arranged.context.records.scores(agent=AGENT)] == [{"basket": 7.5}]
    assert engine.score(arranged.now) == 0


def promoted(margin: float, better: str, drawn: float) -> tuple[ProposalState, str]:
    """A promoted change under watch whose sessions have `drawn` as the mean of the guardrail."""
    values = random.Random(19)
    arranged = running(
        settings(basket=Metric(role="guardrail", margin=margin, better=better)), name="basket", values=values
    )
    with arranged.context.ledger.view() as view:
        (experiment,) = view.find(Experiment, agent=AGENT)
    arranged.engine.cancel_experiment(experiment.experiment_id, actor="person:ann", now=arranged.now)
    other = PromptPatch(prompt="support", ops=(AddLine(text="- card: a card"),))
    proposal = arranged.move(arranged.propose(other), *PROVEN)
    baseline = freeze_baseline(arranged.context, AGENT, arranged.now)
    with arranged.context.ledger.transaction(now=arranged.now, actor="engine") as tx:
        promote(tx, proposal, why="arranged", evidence="live", baseline=baseline)
    for day in range(3):
        for k in range(PER_DAY):
            key = f"after-{day}-{k}"
            at = arranged.now + timedelta(minutes=10 * k)
            arranged.write(session(key, at, relevance=0.5 + 0.3 * values.random()))
            arranged.write([told(key, arranged, "basket", values.gauss(drawn, 2))])
        arranged.pass_hours(24)
        arranged.engine.advance(arranged.now)
    with arranged.context.ledger.view() as view:
        found = view.get(Proposal, proposal.proposal_id)
    return found.state, found.why


@pytest.mark.parametrize(
    ("margin", "better", "drawn", "state"),
    [
        (1.5, "higher", 6.0, ProposalState.ROLLED_BACK),
        (1.5, "lower", 14.0, ProposalState.ROLLED_BACK),
        (1.5, "lower", 6.0, ProposalState.WATCHING),
        (5.0, "higher", 6.0, ProposalState.WATCHING),
    ],
)
def test_a_promoted_change_is_taken_back_when_a_guardrail_falls_beyond_its_margin(
    margin: float, better: str, drawn: float, state: ProposalState
) -> None:
    found, why = promoted(margin, better, drawn)
    assert found is state
    assert ("basket fell by" in why) is (state is ProposalState.ROLLED_BACK)


def test_a_rate_of_sessions_still_open_is_no_alarm() -> None:
    """Only what happened is told at first: without the silent sessions every rate would be 100 %."""
    metric = OwnMetric(name="escalated", type="rate", better="lower", role="guardrail")
    score = SessionScore(
        session_id="s",
        agent=AGENT,
        env="production",
        started_at=START,
        closes_at=START,
        closed=False,
        dimensions={"task_completion": 1.0},
        metrics={"escalated": 1.0},
    )
    assert "escalated" not in levels([score], {"task_completion": 1.0}, [metric])
    closed = msgspec.structs.replace(score, closed=True)
    assert levels([closed], {"task_completion": 1.0}, [metric])["escalated"].mean == -1.0
