"""Scores that hardly vary are refused before a look, with the reason."""

import numpy as np
import pytest

from prx.domain.answers import NotEnoughData, Passed
from prx.domain.errors import BadStatistics
from prx.stats import enough_variety


def outcomes(units: int, failures: int) -> np.ndarray:
    return np.repeat([0.0, 1.0], [failures, units - failures])


def test_twenty_failures_in_each_arm_are_enough_and_nineteen_are_not() -> None:
    assert isinstance(enough_variety(outcomes(900, 180), outcomes(100, 20)), Passed)
    refused = enough_variety(outcomes(900, 180), outcomes(100, 19))
    assert isinstance(refused, NotEnoughData)
    assert "19 of 100 treatment" in refused.why


def test_graded_scores_are_never_refused_from_a_hundred_units_on() -> None:
    scores = np.random.default_rng(3).beta(8, 2, 100)
    assert isinstance(enough_variety(scores, scores), Passed)


@pytest.mark.parametrize("scores", [[], [0.5], [0.5] * 500])
def test_an_empty_or_constant_arm_is_refused(scores: list[float]) -> None:
    assert isinstance(enough_variety(scores, outcomes(100, 50)), NotEnoughData)


@pytest.mark.parametrize("scores", [[np.nan] * 30, [[0.1, 0.2]]])
def test_scores_that_are_no_numbers_are_an_error(scores: list) -> None:
    with pytest.raises(BadStatistics):
        enough_variety(outcomes(100, 50), scores)
    with pytest.raises(BadStatistics):
        enough_variety([0.1], [0.2], least=0)
