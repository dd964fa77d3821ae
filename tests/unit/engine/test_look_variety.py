"""A look at a rare outcome under an uneven split is refused before it is taken, with the reason."""

import numpy as np
import pytest

from prx.domain.answers import NotEnoughData, Passed
from prx.domain.experiments import Plan
from prx.engine.trialvariety import variety_answer


def plan(split: float) -> Plan:
    return Plan(
        traffic_split=split,
        ramp=1.0,
        confidence_level=0.95,
        min_effect_size=0.02,
        effect_scale="absolute",
        min_sample_size=100,
        min_units=20.0,
        default_duration_hours=168.0,
        min_duration_hours=24.0,
        max_duration_hours=720.0,
        check_interval_hours=24.0,
        outcome_window_hours=24.0,
        randomization_unit="auto",
        spending="hsd:-4",
        planned_sample="power",
        planned_looks=30,
        act_on_futility=False,
        weights={"task_completion": 1.0},
        rho=0.2,
        max_regression=0.1,
        ramp_salt="a",
        variant_salt="b",
    )


def deviations(units: int, failures: int) -> np.ndarray:
    """Units of one to three sessions, whose equal means differ in the last digit."""
    sessions = np.arange(units) % 3 + 1
    means = np.repeat([0.0, 0.7], [failures, units - failures])
    return (means * sessions) / sessions - 0.65


@pytest.mark.parametrize("split", [0.1, 0.39, 0.61, 0.9])
def test_an_uneven_split_needs_twenty_units_off_the_commonest_score_in_each_arm(split: float) -> None:
    refused = variety_answer(plan(split), (deviations(900, 180), deviations(100, 19)))
    assert isinstance(refused, NotEnoughData)
    assert "19 of 100 treatment units" in refused.why
    assert isinstance(variety_answer(plan(split), (deviations(900, 180), deviations(100, 20))), Passed)


@pytest.mark.parametrize("split", [0.4, 0.5, 0.6])
def test_like_arms_may_look_at_rare_outcomes(split: float) -> None:
    assert isinstance(variety_answer(plan(split), (deviations(100, 1), deviations(100, 0))), Passed)
