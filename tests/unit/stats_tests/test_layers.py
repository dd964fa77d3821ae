"""Two layers under experiment at once."""

import numpy as np
import pytest

from prx.domain.answers import Failed, NotEnoughData, Passed
from prx.stats.estimator import ArmTable, Composite, composite
from prx.stats.layers import Interaction, interaction, other_layer_answer

NONE = NotEnoughData("too few sessions")


def effect(change: float, seed: int) -> Composite:
    rng = np.random.default_rng(seed)
    arms = [
        ArmTable.from_rows(np.arange(400), {"f": 0.6 + c + 0.1 * rng.normal(size=400)}, bounds=None)
        for c in (0.0, change)
    ]
    found = composite(*arms, weights={"f": 1.0})
    assert isinstance(found, Composite)
    return found


def test_an_effect_that_needs_the_other_change_shows_as_interaction() -> None:
    alone, beside = effect(-0.05, 1), effect(0.06, 2)
    found = interaction(alone, beside)
    assert isinstance(found, Interaction)
    assert found.delta == beside.delta - alone.delta
    assert found.se == pytest.approx((alone.se**2 + beside.se**2) ** 0.5)
    assert found.p_value < 1e-6
    assert found.interval.low > 0
    blocked = other_layer_answer(alone)
    assert isinstance(blocked, Failed)
    assert blocked.code == "other_layer"


def test_effects_that_do_not_depend_on_each_other_pass() -> None:
    alone, beside = effect(0.05, 3), effect(0.05, 4)
    found = interaction(alone, beside)
    assert isinstance(found, Interaction)
    assert found.p_value > 0.01
    assert isinstance(other_layer_answer(alone), Passed)


def test_too_little_data_on_either_side_is_said() -> None:
    assert interaction(NONE, effect(0.0, 5)) == NONE
    assert interaction(effect(0.0, 5), NONE) == NONE
    assert other_layer_answer(NONE) == NONE
