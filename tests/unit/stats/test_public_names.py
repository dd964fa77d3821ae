"""The five names that outside checks call: any sequence, by place or name, never a number for nonsense."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import prx.stats
from prx.domain.answers import NotEnoughData
from prx.domain.errors import BadStatistics

CONTROL = [0.61, 0.72, 0.55, 0.80, 0.67, 0.49]
TREATMENT = [0.70, 0.81, 0.66, 0.74, 0.90, 0.58]
LOOKS = [0.25, 0.5, 1.0]
Call = Callable[..., Any]
TESTS: list[Call] = [prx.stats.welch, prx.stats.mann_whitney, prx.stats.brunner_munzel]


@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize("shape", [list, tuple, np.array])
def test_a_two_sample_test_answers_alike_for_any_sequence_by_place_or_by_name(
    test: Call, shape: Call
) -> None:
    by_place = test(shape(CONTROL), shape(TREATMENT))
    assert by_place == test(treatment=shape(TREATMENT), control=shape(CONTROL)) == test(CONTROL, TREATMENT)
    assert 0.0 < by_place.p_value < 1.0
    assert math.isfinite(by_place.statistic)
    assert by_place.interval.low < by_place.estimate < by_place.interval.high


@pytest.mark.parametrize("shape", [list, tuple, np.array])
def test_boundaries_take_any_sequence_and_give_one_entry_per_look(shape: Call) -> None:
    found = prx.stats.boundaries(shape(LOOKS), alpha=0.05, sides=2, spending="hsd:-4")
    assert found == prx.stats.boundaries(fractions=LOOKS, alpha=np.float64(0.05), sides=np.int64(2))
    assert isinstance(found.upper_z, tuple)
    assert isinstance(found.alpha_spent, tuple)
    assert len(found.upper_z) == len(found.alpha_spent) == 3
    assert found.alpha_spent[-1] == pytest.approx(0.05)
    assert all(type(v) is float for v in (*found.upper_z, *found.alpha_spent))


@pytest.mark.parametrize("spending", ["hsd:-4", "obf", "pocock", "power:2", lambda t: t**3, lambda t: t / 20])
@pytest.mark.parametrize("sides", [1, 2])
def test_every_spending_ends_with_all_of_alpha(spending: Any, sides: int) -> None:
    found = prx.stats.boundaries(LOOKS, alpha=0.05, sides=sides, spending=spending)
    assert found.alpha_spent[-1] == pytest.approx(0.05)
    assert list(found.alpha_spent) == sorted(found.alpha_spent)


@pytest.mark.parametrize("shape", [list, tuple, np.array])
def test_the_ratio_test_takes_shares_or_weights(shape: Call) -> None:
    found = prx.stats.srm(shape([520, 480]), shape([0.5, 0.5]))
    assert found == prx.stats.srm(counts=[520, 480], expected=[1, 1])
    assert found.statistic == pytest.approx(1.6)
    assert found.df == 1


@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize("n", [0, 1, 2])
@pytest.mark.parametrize("shape", [list, np.array])
def test_up_to_two_values_are_not_enough(test: Call, n: int, shape: Call) -> None:
    assert isinstance(test(shape(CONTROL[:n]), shape(TREATMENT)), NotEnoughData)
    assert isinstance(test(shape(CONTROL), shape(TREATMENT[:n])), NotEnoughData)


@pytest.mark.parametrize("test", TESTS)
def test_without_variance_or_with_nothing_but_ties_there_is_no_answer(test: Call) -> None:
    assert isinstance(test([0.5] * 40, [0.5] * 40), NotEnoughData)
    assert isinstance(test(np.zeros(40), np.ones(40)), NotEnoughData)


@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize(
    "bad",
    [
        [0.5, math.nan, 0.7],
        [0.5, math.inf, 0.7],
        [0.5, -math.inf, 0.7],
        np.array([0.5, np.nan, 0.7]),
        np.ma.masked_array([0.5, 0.6, 0.7], [0, 1, 0]),
        [0.5, None, 0.7],
        ["good", "poor", "good"],
        [[0.5, 0.6], [0.7, 0.8]],
        0.5,
        None,
        {0.5, 0.6, 0.7},
    ],
)
def test_what_is_no_list_of_numbers_is_a_clear_error_in_either_arm(test: Call, bad: Any) -> None:
    with pytest.raises(BadStatistics, match="control arm"):
        test(bad, TREATMENT)
    with pytest.raises(BadStatistics, match="treatment arm"):
        test(CONTROL, bad)


@pytest.mark.parametrize(
    "fractions",
    [
        [],
        np.array([]),
        [0.0, 1.0],
        [-0.5, 1.0],
        [0.5, 0.5],
        [1.0, 0.5],
        [0.5, math.nan],
        [0.5, math.inf],
        [0.5, 1.0, 1.2],
        ["half", "all"],
        [[0.5], [1.0]],
        None,
        0.5,
    ],
)
def test_looks_that_cannot_be_are_a_clear_error(fractions: Any) -> None:
    with pytest.raises(BadStatistics, match=r"look|information"):
        prx.stats.boundaries(fractions)


@pytest.mark.parametrize("given", [{"alpha": a} for a in (0, 1, -0.1, 1.5, math.nan, "0.05", None)])
def test_an_alpha_that_is_no_probability_is_a_clear_error(given: dict[str, Any]) -> None:
    with pytest.raises(BadStatistics, match="alpha"):
        prx.stats.boundaries(LOOKS, **given)


@pytest.mark.parametrize("sides", [0, 3, "2", None])
def test_a_test_has_one_side_or_two(sides: Any) -> None:
    with pytest.raises(BadStatistics, match="sides"):
        prx.stats.boundaries(LOOKS, sides=sides)


@pytest.mark.parametrize(
    "spending",
    [
        "",
        "bogus",
        "hsd:",
        "hsd:nan",
        "hsd:inf",
        "power:0",
        "power:-1",
        "obf:2",
        None,
        3,
        lambda t: 1.0 - t,
        lambda t: t * math.nan,
        lambda t: 5.0 * t,
        lambda t: f"{t} much",
        lambda t: -0.1 if t < 1.0 else 1.0,
        lambda t: 0.9 if t < 0.4 else (0.1 if t < 1.0 else 1.0),
    ],
)
def test_a_spending_that_cannot_be_is_a_clear_error(spending: Any) -> None:
    with pytest.raises(BadStatistics, match=r"spend|alpha back"):
        prx.stats.boundaries(LOOKS, spending=spending)


@pytest.mark.parametrize("counts", [(0, 0), (1, 0), (1, 1), (2, 0), (4, 5)])
def test_a_handful_of_units_is_no_ratio(counts: tuple[int, int]) -> None:
    assert isinstance(prx.stats.srm(counts, (0.5, 0.5)), NotEnoughData)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ([], []),
        ([10], [1.0]),
        ([50, 50], [0.5]),
        ([50, 50], [0.0, 1.0]),
        ([50, 50], [-0.5, 1.5]),
        ([50, 50], [math.nan, 1.0]),
        ([50, 50], [math.inf, 1.0]),
        ([50, math.nan], [0.5, 0.5]),
        ([50, math.inf], [0.5, 0.5]),
        ([50, -1], [0.5, 0.5]),
        ([50, 50.5], [0.5, 0.5]),
        (["many", 50], [0.5, 0.5]),
        ([[50, 50]], [0.5, 0.5]),
        (None, [0.5, 0.5]),
        ([50, 50], None),
    ],
)
def test_counts_or_shares_that_cannot_be_are_a_clear_error(counts: Any, expected: Any) -> None:
    with pytest.raises(BadStatistics, match=r"counts|shares"):
        prx.stats.srm(counts, expected)
