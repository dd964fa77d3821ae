"""What a look keeps of every dimension: plain numbers, and p-values that know of looks and dimensions."""

import numpy as np
import pytest

from prx.domain.answers import NotEnoughData
from prx.engine.trialdetails import dimension_details
from prx.stats.estimator import ArmTable, Composite, Floor, composite
from prx.stats.groupsequential import boundaries
from prx.stats.stopping import Design, look, start

DESIGN = Design(max_information=1000.0)


def measured(change: float, units: int) -> Composite:
    y = 0.5 + 0.2 * np.sin(np.arange(units))
    arms = [ArmTable.from_rows(np.arange(units), {"d": y + c}, bounds=None) for c in (0.0, change)]
    found = composite(*arms, weights={"d": 1.0}, floor=Floor(0, 2.0))
    assert isinstance(found, Composite)
    return found


def two_looks() -> tuple[dict, dict]:
    first_state = look(DESIGN, start(DESIGN), 250.0, 0.1, hours=24.0)
    second_state = look(DESIGN, first_state, 500.0, 0.1, hours=48.0)
    gap = NotEnoughData("no recall yet")
    first = dimension_details({"d": measured(0.09, 100), "e": gap}, DESIGN, first_state.looks, [])
    second = dimension_details({"d": measured(0.09, 200), "e": gap}, DESIGN, second_state.looks, [first])
    return first, second


def test_a_dimension_is_held_against_a_sixth_of_alpha_over_the_looks_so_far() -> None:
    first, second = two_looks()
    bounds = boundaries([0.25, 0.5], alpha=0.05 / 6).upper_z
    assert [first["d"]["bound"], second["d"]["bound"]] == pytest.approx(bounds, abs=1e-3)
    assert second["d"]["z"] > bounds[1]
    assert second["d"]["p_bonferroni"] <= 0.05


def test_adjusted_p_values_stand_in_order() -> None:
    _, second = two_looks()
    row = second["d"]
    assert row["p_naive"] < row["p_value"] < row["p_holm"] <= row["p_bonferroni"]
    assert row["p_bonferroni"] == pytest.approx(min(1.0, 6 * row["p_value"]))


def test_a_dimension_without_data_says_why_and_has_no_p() -> None:
    _, second = two_looks()
    assert second["e"] == {"not_enough_data": "no recall yet"}
