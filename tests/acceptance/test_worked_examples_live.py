"""The two worked examples of the source documents, from raw sessions through the engine to a conclusion."""

from dataclasses import replace
from datetime import timedelta

import pytest
from arranged import AGENT, Arranged, session
from worked_examples import WorkedExample, l2_example, l3_example

from prx.domain.changes import AddLine, PromptPatch, StrategyPatch
from prx.domain.experiments import CONTROL, TREATMENT, Experiment, ExperimentStatus
from prx.domain.layers import Layer
from prx.domain.proposals import Proposal, ProposalState
from prx.settings import Experiments, Settings, StrategyLayer, Weights

TO_EXPERIMENT = (ProposalState.GATED, ProposalState.SHADOWING, ProposalState.JUDGED)
ONLY_RELEVANCE = replace(
    Weights(),
    response_relevance=1.0,
    task_completion=0.0,
    response_latency=0.0,
    token_efficiency=0.0,
    memory_precision=0.0,
    user_satisfaction=0.0,
)


def arrange(example: WorkedExample, change: PromptPatch | StrategyPatch) -> tuple[Arranged, str]:
    """A running experiment whose sessions are still to come."""
    smallest = min(map(len, example.control))
    settings = Settings(
        enabled=True,
        auto_apply=True,
        l3=StrategyLayer(require_approval=False),
        fitness=replace(Settings().fitness, weights=ONLY_RELEVANCE),
        experiments=Experiments(
            planned_sample=str(example.planned_sample),
            min_sample_size=smallest,
            min_units=float(smallest) - 1e-6,
            outcome_window_hours=0.01,
        ),
    )
    arranged = Arranged.new(settings)
    before = [0.7 + 0.02 * (k % 11 - 5) for k in range(2200)]
    for k, score in enumerate(before):
        at = arranged.now + timedelta(minutes=6 * k)
        arranged.write(session(f"before-{k}", at, relevance=score))
    arranged.pass_hours(24 * 13)
    arranged.engine.advance(arranged.now)
    arranged.move(arranged.propose(change), *TO_EXPERIMENT)
    arranged.engine.advance(arranged.now)
    with arranged.context.ledger.view() as view:
        (experiment,) = view.find(Experiment, agent=AGENT, state=ExperimentStatus.RUNNING)
    return arranged, experiment.experiment_id


def play(arranged: Arranged, experiment_id: str, example: WorkedExample) -> Experiment:
    """Write each day's sessions, let the engine look at the end of the day."""
    for day, (control, treatment) in enumerate(zip(example.control, example.treatment, strict=True)):
        for variant, scores in ((CONTROL, control), (TREATMENT, treatment)):
            for k, score in enumerate(scores):
                at = arranged.now + timedelta(minutes=10 * k + 1)
                key = f"{variant}-{day}-{k}"
                arranged.write(session(key, at, relevance=score, arm=(experiment_id, variant)))
        arranged.pass_hours(24)
        arranged.engine.advance(arranged.now)
    with arranged.context.ledger.view() as view:
        return view.get(Experiment, experiment_id)


def test_the_prompt_example_is_promoted_at_a_sequential_p_of_0_030() -> None:
    example = l2_example()
    change = PromptPatch(prompt="support", ops=(AddLine(text="- invoice: a bill"),))
    arranged, experiment_id = arrange(example, change)
    ended = play(arranged, experiment_id, example)
    assert [look.is_look for look in ended.looks] == [True] * 7
    assert ended.p_value == pytest.approx(0.030, abs=0.001)
    assert ended.control_fitness.value == pytest.approx(0.72, abs=1e-6)
    assert ended.treatment_fitness.value == pytest.approx(0.75, abs=1e-6)
    assert (ended.control_sessions, ended.treatment_sessions) == (100, 100)
    assert (ended.status, ended.winner) == (ExperimentStatus.CONVERGED, "treatment")
    with arranged.context.ledger.view() as view:
        (proposal,) = view.find(Proposal, agent=AGENT)
        pointer = view.pointer(AGENT)
    assert proposal.state is ProposalState.WATCHING
    assert pointer is not None
    assert pointer.label == proposal.version == "v1.1"


def test_the_strategy_example_is_extended_at_a_naive_p_of_0_42() -> None:
    example = l3_example()
    change = StrategyPatch(path="router.gamma", old=0.3, new=0.33)
    arranged, experiment_id = arrange(example, change)
    still = play(arranged, experiment_id, example)
    assert (still.control_sessions, still.treatment_sessions) == (200, 200)
    assert still.layer is Layer.STRATEGY
    assert still.looks[-1].p_naive == pytest.approx(0.42, abs=0.001)
    assert (still.status, still.winner) == (ExperimentStatus.RUNNING, None)
    assert still.extended
    assert "extended" in still.reason
