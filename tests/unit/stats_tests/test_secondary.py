"""Dimensions spend boundaries of their own, whatever happened to the composite."""

import math

import pytest

from prx.domain.errors import BadStatistics
from prx.stats.groupsequential import boundaries
from prx.stats.secondary import Measured, secondary_tests
from prx.stats.stopping import Design, Look, look, start

DESIGN = Design(max_information=1000.0)


def taken(count: int, of: int) -> tuple[Look, ...]:
    state = start(DESIGN)
    for k in range(1, count + 1):
        state = look(DESIGN, state, 1000.0 * k / of, 0.1, hours=24.0 * k)
    return state.looks


def same_pace(zs: list[float], of: int) -> list[Measured | None]:
    return [Measured(z, 40.0 * k / of) for k, z in enumerate(zs, 1)]


def test_a_dimension_on_its_own_bound_at_a_sixth_of_alpha_has_just_a_bonferroni_p_of_alpha() -> None:
    bounds = boundaries([k / 5 for k in range(1, 6)], alpha=0.05 / 6).upper_z
    found = secondary_tests(DESIGN, taken(4, 5), {"d": same_pace([0.0, 0.0, 0.0, bounds[3]], 5)}, tests=6)
    assert found["d"].bonferroni == pytest.approx(0.05, rel=1e-6)
    assert found["d"].bound_z == pytest.approx(bounds[3], abs=1e-6)
    below = same_pace([0.0, 0.0, 0.0, bounds[3] - 1e-4], 5)
    assert not secondary_tests(DESIGN, taken(4, 5), {"d": below}, tests=6)["d"].crossed


def test_a_single_final_look_gives_the_plain_p_and_holm_lies_between() -> None:
    z = {"a": 3.2, "b": 2.5, "c": 1.0}
    found = secondary_tests(DESIGN, taken(1, 1), {d: [Measured(v, 1.0)] for d, v in z.items()}, tests=6)
    for name, value in z.items():
        naive = math.erfc(value / math.sqrt(2))
        assert found[name].p_value == pytest.approx(naive, rel=1e-6)
        assert found[name].bonferroni == pytest.approx(min(1.0, 6 * naive), rel=1e-6)
        assert naive <= found[name].holm <= found[name].bonferroni


def test_an_early_look_asks_more_than_its_naive_p_says() -> None:
    found = secondary_tests(DESIGN, taken(1, 10), {"d": [Measured(3.5, 4.0)]}, tests=6)["d"]
    assert 6 * math.erfc(3.5 / math.sqrt(2)) < 0.01
    assert found.bonferroni > 0.25
    assert not found.crossed


def test_a_look_without_data_or_new_information_is_skipped_and_decides_nothing() -> None:
    looks = taken(3, 5)
    gap = secondary_tests(DESIGN, looks, {"d": [None, Measured(3.0, 10.0), Measured(9.0, 10.0)]}, tests=6)
    only = secondary_tests(DESIGN, looks[:2], {"d": [None, Measured(3.0, 10.0)]}, tests=6)
    assert gap["d"].p_value == only["d"].p_value
    assert gap["d"].bound_z == math.inf
    assert secondary_tests(DESIGN, looks, {"d": [None, None, None]}, tests=6) == {}


def test_a_history_of_another_length_is_refused() -> None:
    with pytest.raises(BadStatistics, match="1 measurements for 2 looks"):
        secondary_tests(DESIGN, taken(2, 5), {"d": [None]}, tests=6)
