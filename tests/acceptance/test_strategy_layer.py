"""The strategy layer on a small simulated world: what a session gets depends on the model really called."""

import random
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import pytest
from arranged import AGENT, Arranged

from prx.domain.changes import AddLine, PromptPatch, StrategyPatch
from prx.domain.codec import content_hash
from prx.domain.experiments import CONTROL, TREATMENT, Experiment, ExperimentStatus
from prx.domain.findings import Finding, FindingKind
from prx.domain.ids import Ids
from prx.domain.layers import Layer
from prx.domain.proposals import Proposal, ProposalState
from prx.domain.records import PRODUCTION, Interaction, Record
from prx.domain.serving import Serving
from prx.domain.versions import Strategy
from prx.engine.context import Models
from prx.engine.engine import Engine
from prx.engine.lease import leased
from prx.engine.report import Report
from prx.engine.strategypath import OFFPOLICY, PAIRED, REPLAYED, adopt_strategy, propose_strategy
from prx.engine.turn import Turn
from prx.ledger.serving import serving
from prx.live.evolution import Evolution
from prx.models.fakes import ScriptedChat
from prx.models.port import ChatModel
from prx.settings import Settings
from prx.settings.loading import from_sources

SETTINGS = """
[self_evolution]
enabled = true

[self_evolution.l1]
enabled = false

[self_evolution.l2]
enabled = false

[self_evolution.l3]
enabled = true
schedule = "daily"

[self_evolution.pipeline]
evolve_schedule = "daily"

[self_evolution.experiments]
outcome_window_hours = 1.0
"""
QUIET = SETTINGS.replace("[self_evolution.l3]\nenabled = true", "[self_evolution.l3]\nenabled = false")
CHECKED = """
[self_evolution.models.judge]
checker = "exact_label"
"""
DEFAULTS = {"faq": "large", "refund": "large"}


@dataclass(frozen=True)
class Model:
    """Success by intent, dollars of a call, and typical milliseconds to the first token."""

    skill: dict[str, float]
    price: float
    ttft_ms: float


MODELS = {
    "small": Model({"faq": 0.95, "refund": 0.45}, 0.0005, 600.0),
    "large": Model({"faq": 0.94, "refund": 0.90}, 0.0060, 2500.0),
}


@dataclass
class World:
    """Users with requests of two intents; the outcome is drawn from the model that the session called."""

    arranged: Arranged
    models: dict[str, Model] = field(default_factory=lambda: dict(MODELS))
    per_day: int = 360
    users: int = 500
    rng: random.Random = field(default_factory=lambda: random.Random(77))
    buffer: list[Record] = field(default_factory=list)
    clock: datetime = field(init=False)
    served: Serving = field(init=False)
    told: list[str] = field(default_factory=list)
    count: int = 0

    def __post_init__(self) -> None:
        self.clock = self.arranged.now
        self.served = Serving(agent=AGENT)
        self.evolution = Evolution(
            lambda _: self.served,
            self.buffer.append,
            ids=Ids(random.Random(5)),
            now=lambda: self.clock,
            clock=self.seconds,
        )

    def seconds(self) -> float:
        return self.clock.timestamp()

    def hours(self, hours: int) -> None:
        """Serve and advance in steps of six hours."""
        for _ in range(hours // 6):
            with self.arranged.context.ledger.view() as view:
                self.served = serving(view, AGENT)
            start = self.arranged.now
            for moment in sorted(self.rng.random() for _ in range(self.per_day // 4)):
                self.clock = start + moment * timedelta(hours=6)
                self.visit()
            self.arranged.pass_hours(6)
            self.arranged.write(self.buffer)
            self.buffer.clear()
            report = self.arranged.engine.advance(self.arranged.now)
            self.told += [f"{step.what}: {step.answer}: {step.why}" for step in report.steps]

    def visit(self) -> None:
        self.count += 1
        intent = "faq" if self.rng.random() < 0.7 else "refund"
        user = f"u{self.rng.randrange(self.users)}"
        prompt = content_hash("x")
        with self.evolution.session(session_id=f"s{self.count}", user=user, intent=intent) as session:
            session.prompt("support", default="")
            chosen = session.route(intent, default="large", models=list(self.models))
            model = self.models[chosen]
            wait = model.ttft_ms * self.rng.lognormvariate(0, 0.3)
            tokens = {"input": 90, "output": 10}
            with session.call(model=chosen, messages=f"{intent} please, case {prompt[:4]}") as call:
                call.reply(
                    text="done", tokens=tokens, ttft_ms=wait, latency_ms=wait + 50, cost_usd=model.price
                )
            right = self.rng.random() < model.skill[intent]
            self.evolution.feedback(name="task_outcome", value=1.0 if right else 0.0)
            self.evolution.feedback(name="relevance", value=0.9 if right else 0.2)
            session.end()

    def turn_to(self, work: str, *args: object) -> object:
        """What an operator or a person does between two visits of the engine."""
        context = self.arranged.context
        with leased(context, AGENT, self.arranged.now) as lease:
            turn = Turn(context, lease, AGENT, self.arranged.now, Report())
            if work == "adopt":
                assert isinstance(args[0], Strategy)
                return adopt_strategy(turn, args[0], "person:ops")
            path, value = args
            assert isinstance(value, str | float)
            return propose_strategy(turn, str(path), value, "person:ops")

    def use_models(self, served: dict[str, ChatModel]) -> None:
        context = replace(self.arranged.context, models=Models(served=served))
        self.arranged.context, self.arranged.engine = context, Engine(context)

    def proposals(self, path: str | None = None) -> list[Proposal]:
        with self.arranged.context.ledger.view() as view:
            found = view.find(Proposal, agent=AGENT)
        return [
            p
            for p in found
            if isinstance(p.change, StrategyPatch) and (path is None or p.change.path == path)
        ]

    def experiment(self, proposal: Proposal) -> Experiment:
        with self.arranged.context.ledger.view() as view:
            fresh = view.get(Proposal, proposal.proposal_id)
            assert fresh.experiment_id is not None
            return view.get(Experiment, fresh.experiment_id)

    def fresh(self, proposal: Proposal) -> Proposal:
        with self.arranged.context.ledger.view() as view:
            return view.get(Proposal, proposal.proposal_id)

    def strategy(self) -> Strategy:
        with self.arranged.context.ledger.view() as view:
            return serving(view, AGENT).strategy

    def until(self, done: object, days: int) -> None:
        assert callable(done)
        for _ in range(days * 4):
            if done():
                return
            self.hours(6)
        raise AssertionError(f"it did not happen in {days} days; told: {self.told[-15:]}")


def settings(text: str) -> Settings:
    return from_sources(text, "test", None, {})


def world(*, explore: float = 0.2, proposing: bool = False, extra: str = "") -> World:
    made = World(Arranged.new(settings((SETTINGS if proposing else QUIET) + extra)))
    made.turn_to("adopt", Strategy(default_models=DEFAULTS, explore=explore))
    return made


def test_the_engine_finds_that_a_cheaper_model_suffices_and_proves_it_live() -> None:
    here = world(proposing=True)
    path = "default_models.faq"
    here.until(lambda: any(p.state is ProposalState.AWAITING_APPROVAL for p in here.proposals(path)), days=12)
    (proposal,) = here.proposals(path)
    with here.arranged.context.ledger.view() as view:
        finding = view.get(Finding, proposal.trigger)
    assert finding.kind is FindingKind.COST_INEFFICIENCY
    assert proposal.change == StrategyPatch(path=path, old="large", new="small")
    # looked at daily: not enough data at first, then a pass
    *earlier, proof = (step for step in proposal.proofs if step.name == OFFPOLICY)
    assert {step.answer for step in earlier} <= {"not_enough_data"}
    assert proof.answer == "pass"
    assert proof.numbers["ess"] >= proof.numbers["ess_needed"] >= 200
    # nothing runs before a person said yes
    here.hours(24)
    assert here.fresh(proposal).state is ProposalState.AWAITING_APPROVAL
    assert here.strategy().default_models == DEFAULTS

    here.arranged.engine.approve(proposal.proposal_id, actor="person:ops", now=here.arranged.now)
    here.until(lambda: here.fresh(proposal).state is ProposalState.EXPERIMENTING, days=2)
    here.until(lambda: here.experiment(proposal).status is ExperimentStatus.CONVERGED, days=25)
    experiment = here.experiment(proposal)
    assert experiment.winner == TREATMENT
    assert here.strategy().default_models == {"faq": "small", "refund": "large"}
    scores = list(here.arranged.context.records.scores(agent=AGENT, experiment_id=experiment.experiment_id))
    assert {score.intent for score in scores} == {"faq"}
    by_arm = Counter(
        (arm.assigned, score.model)
        for score in scores
        if (arm := score.arm(experiment.experiment_id)) is not None
    )
    assert by_arm[TREATMENT, "small"] > 2 * by_arm[TREATMENT, "large"]
    assert by_arm[CONTROL, "large"] > 2 * by_arm[CONTROL, "small"]
    # the saving is real: what a faq session costs after the change
    here.hours(24)
    costs = [
        call.cost_usd
        for trace in here.arranged.context.records.traces(
            agent=AGENT, env=PRODUCTION, since=here.arranged.now - timedelta(hours=24)
        )
        for call in trace.interactions
        if call.intent == "faq"
    ]
    mean = sum(cost for cost in costs if cost is not None) / len(costs)
    assert mean < 0.5 * MODELS["large"].price


def test_a_worse_default_model_is_stopped_by_the_screen_before_any_session_gets_it() -> None:
    here = world()
    here.hours(24 * 5)
    proposal = here.turn_to("propose", "default_models.refund", "small")
    assert isinstance(proposal, Proposal)
    here.until(lambda: here.fresh(proposal).state is ProposalState.REJECTED, days=5)
    *_, proof = (step for step in here.fresh(proposal).proofs if step.name == OFFPOLICY)
    assert (proof.answer, proof.code) == ("fail", "worse_off_policy")
    assert proof.numbers["dr"]["high"] < 0
    assert here.fresh(proposal).experiment_id is None


def test_a_worse_default_model_that_reaches_an_experiment_is_stopped_by_its_statistics() -> None:
    here = world(explore=0.0)
    here.hours(24 * 2)
    patch = StrategyPatch(path="default_models.refund", old="large", new="small")
    proposal = here.arranged.propose(patch, author="person:ops")
    proposal = here.arranged.move(
        proposal, ProposalState.GATED, ProposalState.JUDGED, ProposalState.AWAITING_APPROVAL
    )
    here.arranged.engine.approve(proposal.proposal_id, actor="person:ops", now=here.arranged.now)
    here.until(lambda: here.fresh(proposal).state is ProposalState.EXPERIMENTING, days=2)
    here.until(lambda: here.experiment(proposal).status is not ExperimentStatus.RUNNING, days=20)
    assert here.experiment(proposal).winner != TREATMENT
    assert here.fresh(proposal).state is not ProposalState.WATCHING
    assert here.strategy().default_models == DEFAULTS


def test_without_exploration_nothing_is_claimed_of_a_model_and_the_reason_says_what_to_do() -> None:
    here = world(explore=0.0)
    here.hours(24 * 2)
    proposal = here.turn_to("propose", "default_models.faq", "large-2")
    assert isinstance(proposal, Proposal)
    here.hours(6)
    assert here.fresh(proposal).state is ProposalState.REJECTED
    assert "not among those in use" in here.fresh(proposal).why
    here.turn_to("adopt", Strategy(default_models={"faq": "small", "refund": "large"}))
    here.hours(24)
    back = here.turn_to("propose", "default_models.faq", "large")
    assert isinstance(back, Proposal)
    here.hours(6)
    waiting = here.fresh(back)
    assert waiting.state is ProposalState.DEFERRED
    assert "set explore" in waiting.why


def test_a_person_raises_exploration_and_the_engine_may_not() -> None:
    here = world(explore=0.0)
    here.hours(24)
    mine = here.turn_to("propose", "explore", 0.1)
    assert isinstance(mine, Proposal)
    here.hours(6)
    assert here.fresh(mine).state is ProposalState.AWAITING_APPROVAL
    (proof,) = (step for step in here.fresh(mine).proofs if step.name == REPLAYED)
    assert proof.evidence == "human"
    here.arranged.engine.reject(mine.proposal_id, actor="person:ops", why="not now", now=here.arranged.now)
    engines = here.arranged.propose(StrategyPatch(path="explore", old=0.0, new=0.2))
    here.hours(6)
    assert here.fresh(engines).state is ProposalState.REJECTED
    assert "only a person" in here.fresh(engines).why


@pytest.mark.parametrize(
    ("answer", "state"), [("done", ProposalState.AWAITING_APPROVAL), ("no idea", ProposalState.REJECTED)]
)
def test_without_exploration_both_models_are_tried_on_recorded_inputs(
    answer: str, state: ProposalState
) -> None:
    here = world(explore=0.0, extra=CHECKED)
    here.hours(24 * 2)
    here.turn_to("adopt", Strategy(default_models={"faq": "small", "refund": "large"}))
    here.hours(24)
    small, large = ScriptedChat(lambda _: "done", name="small"), ScriptedChat(lambda _: answer, name="large")
    here.use_models({"small": small, "large": large})
    proposal = here.turn_to("propose", "default_models.faq", "large")
    assert isinstance(proposal, Proposal)
    here.hours(6)
    assert here.fresh(proposal).state is state
    (proof,) = (step for step in here.fresh(proposal).proofs if step.name == PAIRED)
    assert proof.numbers["pairs"] >= 100
    assert "exploration" in proof.numbers["offpolicy"]
    assert len(small.requests) == len(large.requests) >= 100
    # only inputs of the intent, and nothing but the recorded messages
    assert {request.messages[-1].content.split()[0] for request in large.requests} == {"faq"}


@pytest.mark.parametrize(
    ("new", "state"), [(10.0, ProposalState.AWAITING_APPROVAL), (3.0, ProposalState.REJECTED)]
)
def test_a_timeout_is_replayed_on_how_long_calls_took(new: float, state: ProposalState) -> None:
    here = world(explore=0.0)
    start = 12.0 if new == 10.0 else 5.0
    here.turn_to("adopt", Strategy(default_models=DEFAULTS, timeouts={"large": start}))
    here.hours(24)
    proposal = here.turn_to("propose", "timeouts.large", new)
    assert isinstance(proposal, Proposal)
    here.hours(6)
    assert here.fresh(proposal).state is state
    (proof,) = (step for step in here.fresh(proposal).proofs if step.name == REPLAYED)
    waits = [
        call.latency_ms / 1000
        for trace in here.arranged.context.records.traces(agent=AGENT)
        for call in trace.interactions
        if call.model == "large" and call.latency_ms is not None
    ]
    assert proof.numbers["cut"] == sum(wait > new for wait in waits)


def test_experiments_on_prompt_and_strategy_run_at_once_with_independent_arms() -> None:
    here = world(explore=0.0)
    here.hours(24 * 2)
    edit = PromptPatch(prompt="support", ops=(AddLine(text="- invoice: a bill"),))
    patch = StrategyPatch(path="default_models.faq", old="large", new="small")
    running = []
    for change in (edit, patch):
        proposal = here.arranged.propose(change, author="person:ops")
        proposal = here.arranged.move(
            proposal, ProposalState.GATED, ProposalState.JUDGED, ProposalState.AWAITING_APPROVAL
        )
        here.arranged.engine.approve(proposal.proposal_id, actor="person:ops", now=here.arranged.now)
        running.append(proposal)
    here.hours(6)
    first, second = (here.experiment(proposal) for proposal in running)
    assert {first.layer, second.layer} == {Layer.PROMPT, Layer.STRATEGY}
    assert {first.status, second.status} == {ExperimentStatus.RUNNING}
    here.hours(24)
    table = Counter(
        (a.assigned, b.assigned, score.user)
        for score in here.arranged.context.records.scores(agent=AGENT)
        if (a := score.arm(first.experiment_id)) and (b := score.arm(second.experiment_id))
    )
    cells = Counter((a, b) for a, b, _ in table)
    assert len(cells) == 4
    n = cells.total()
    treated = cells[TREATMENT, TREATMENT] + cells[TREATMENT, CONTROL]
    routed = cells[TREATMENT, TREATMENT] + cells[CONTROL, TREATMENT]
    expected = treated * routed / n
    # independent halves: the variance of the cell is close to n / 16
    assert abs(cells[TREATMENT, TREATMENT] - expected) < 4 * (n / 16) ** 0.5


def test_every_routed_call_of_the_world_says_the_probability_of_the_model_it_got() -> None:
    here = world()
    here.hours(24)
    calls = [
        call
        for trace in here.arranged.context.records.traces(agent=AGENT)
        for call in trace.interactions
        if isinstance(call, Interaction)
    ]
    assert len(calls) == here.per_day
    for call in calls:
        assert call.routing is not None
        assert call.routing.arms[call.model] == call.routing.propensity
        assert call.routing.explored == (call.model == "small")
    share = sum(call.model == "small" for call in calls) / len(calls)
    assert abs(share - 0.2) < 4 * (0.2 * 0.8 / len(calls)) ** 0.5


def test_measured_facts_of_models_reach_the_router() -> None:
    here = world()
    here.hours(24 * 4)
    with here.arranged.context.ledger.view() as view:
        facts = {one.model: one for one in serving(view, AGENT).models}
    assert facts["small"].price_usd == MODELS["small"].price
    assert facts["large"].latency_ms == pytest.approx(MODELS["large"].ttft_ms + 50, rel=0.1)
    assert facts["large"].capability["refund"] == pytest.approx(0.90, abs=0.06)
    assert facts["small"].capability["refund"] == pytest.approx(0.45, abs=0.15)
    assert facts["large"].elo > facts["small"].elo
