"""Where a drop began: the change that did it is named, the innocent are cleared, and doubt is said."""

import random

import pytest

from prx.release.onset import BEFORE, onset


def drawn(seed: int, lengths: tuple[int, ...], begins: int, good: float, bad: float) -> list[list[float]]:
    """Stretches in which every session from the start of stretch `begins` on fails at the bad rate."""
    rng = random.Random(seed)
    return [
        [float(rng.random() < (bad if number >= begins else good)) for _ in range(length)]
        for number, length in enumerate(lengths)
    ]


@pytest.mark.parametrize("culprit", [0, 1, 2])
def test_one_bad_change_of_three_is_named_alone_nine_times_in_ten_and_hardly_ever_another(
    culprit: int,
) -> None:
    found = [onset(drawn(k, (300, 60, 60, 60), culprit + 1, 0.05, 0.3), failures=True) for k in range(200)]
    alone = [one.suspects for one in found if one is not None and len(one.suspects) == 1]
    assert sum(one == (culprit,) for one in alone) >= 0.9 * len(alone)
    assert sum(culprit in one.suspects for one in found if one is not None) >= 0.95 * len(found)
    assert len(alone) >= 120


def test_a_drop_that_began_long_before_a_change_clears_it() -> None:
    stretches = [[0.0] * 200 + [1.0, 0.0] * 40, [1.0, 0.0] * 30]
    found = onset(stretches, failures=True)
    assert found is not None
    assert found.suspects == (BEFORE,)


def test_a_change_that_served_nobody_is_as_suspect_as_the_next_one() -> None:
    found = onset([[0.0] * 100, [], [1.0, 0.0] * 20], failures=True)
    assert found is not None
    assert set(found.suspects) == {0, 1}


def test_scores_that_fall_are_traced_like_failures_that_rise() -> None:
    rng = random.Random(3)
    high, low = [[rng.gauss(mean, 0.2) for _ in range(80)] for mean in (0.8, 0.6)]
    found = onset([high, high[:50], low], failures=False)
    assert found is not None
    assert found.suspects == (1,)


def test_without_a_rise_there_is_nothing_to_trace() -> None:
    assert onset([[1.0] * 30, [0.0] * 30], failures=True) is None
    assert onset([[0.0] * 30, [], []], failures=True) is None
