"""Both worked examples of the specification, from raw sessions through every step to the conclusion."""

import pytest
from worked_examples import WorkedExample, l2_example, l3_example

from prx.domain.answers import Interval, NotEnoughData, Passed
from prx.stats import (
    Evidence,
    Inconclusive,
    Promote,
    Rules,
    composite,
    conclude,
    design_by_power,
    design_by_sample,
    infer,
    look,
    start,
)
from prx.stats.estimator import Composite, Floor
from prx.stats.inference import Inference
from prx.stats.stopping import State
from prx.stats.unitsums import UnitSum

WEIGHTS = {"fitness": 1.0}


def sums(days: tuple[tuple[float, ...], ...]) -> dict[str, dict[str, UnitSum]]:
    """One session per unit, as with `randomization_unit = "session"`."""
    scores = [score for day in days for score in day]
    return {"fitness": {f"s{i:05d}": UnitSum.of(score) for i, score in enumerate(scores)}}


def play(example: WorkedExample, floor: Floor) -> tuple[State, Inference, Composite]:
    by_sample = example.planned_sample != "power"
    design = design_by_sample(example.planned_sample) if by_sample else design_by_power()
    state, latest = start(design), None
    for k, hours in enumerate(example.hours):
        control, treatment = sums(example.control[: k + 1]), sums(example.treatment[: k + 1])
        result = composite(control, treatment, weights=WEIGHTS, floor=floor)
        if isinstance(result, NotEnoughData):
            continue
        sessions = min(result.control.sessions, result.treatment.sessions)
        information = float(sessions) if by_sample else result.information
        state = look(design, state, information, result.z, hours=hours)
        latest = result
    assert latest is not None
    reading = infer(design, state, estimate=latest.delta, standard_error=latest.se, df=latest.df)
    assert isinstance(reading, Inference)
    return state, reading, latest


def conclusion_of(state: State, reading: Inference) -> object:
    ending = "max_information" if state.ended else None
    evidence = Evidence(
        age_hours=state.hours,
        interval=reading.interval,
        median_unbiased=reading.median_unbiased,
        missingness_bound=reading.estimate,
        validity=(Passed("sample ratio as planned"),),
        guardrails=(Passed("no dimension is worse"),),
        ending=ending,
    )
    return conclude(evidence, Rules())


@pytest.mark.parametrize("floor", [Floor(sessions=14, units=14.0), Floor(sessions=14, units=20.0)])
def test_the_prompt_example_is_promoted_at_a_sequential_p_of_0_030(floor: Floor) -> None:
    state, reading, _ = play(l2_example(), floor)
    assert reading.p_value == pytest.approx(0.030, abs=1e-3)
    assert reading.estimate == pytest.approx(0.03, abs=1e-9)
    assert len(state.looks) == (7 if floor.units < 15 else 6)
    assert all(k.crossed == "none" for k in state.looks[:-1])
    assert isinstance(conclusion_of(state, reading), Promote)


def test_the_strategy_example_is_extended_at_a_naive_p_of_0_42() -> None:
    state, reading, latest = play(l3_example(), Floor())
    assert latest.control.sessions == latest.treatment.sessions == 200
    assert reading.p_naive == pytest.approx(0.42, abs=1e-3)
    assert latest.p_value == pytest.approx(reading.p_naive, rel=1e-9)
    assert isinstance(reading.interval, Interval)
    assert reading.interval.low < 0.0 < reading.interval.high
    result = conclusion_of(state, reading)
    assert isinstance(result, Inconclusive)
    assert (result.reason, result.ends, result.winner) == ("extended", False, None)


def test_looks_at_the_prompt_example_before_the_last_one_do_not_end_it() -> None:
    example = l2_example()
    design = design_by_sample(100)
    for upto in range(1, 7):
        part = WorkedExample(
            example.hours[:upto],
            example.control[:upto],
            example.treatment[:upto],
            100,
            0.0,
            "naive",
            "extended",
        )
        state, reading, _ = play(part, Floor(sessions=14, units=14.0))
        assert state.plan_id == design.plan_id
        result = conclusion_of(state, reading)
        assert isinstance(result, Inconclusive), (upto, result)
