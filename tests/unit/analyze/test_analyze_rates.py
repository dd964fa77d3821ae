import random

import pytest
from scipy.stats import binomtest, false_discovery_control, fisher_exact

from prx.analyze.rates import benjamini_hochberg, difference_lower, fisher_upper, wilson


@pytest.mark.parametrize(("count", "total"), [(0, 10), (5, 10), (3, 200), (200, 200), (1, 1)])
def test_the_wilson_interval_equals_scipys(count: int, total: int) -> None:
    expected = binomtest(count, total).proportion_ci(method="wilson")
    assert wilson(count, total).low == pytest.approx(expected.low, abs=1e-12)
    assert wilson(count, total).high == pytest.approx(expected.high, abs=1e-12)


@pytest.mark.parametrize("seed", range(30))
def test_the_one_sided_fisher_p_equals_scipys(seed: int) -> None:
    rng = random.Random(seed)
    total, rest_total = rng.randint(1, 60), rng.randint(1, 200)
    count, rest_count = rng.randint(0, total), rng.randint(0, rest_total)
    table = [[count, total - count], [rest_count, rest_total - rest_count]]
    expected = fisher_exact(table, alternative="greater").pvalue
    assert fisher_upper(count, total, rest_count, rest_total) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("seed", range(20))
def test_benjamini_hochberg_picks_what_scipys_adjusted_p_picks(seed: int) -> None:
    rng = random.Random(seed)
    p_values = {f"c{n}": rng.random() ** 3 for n in range(25)}
    adjusted = false_discovery_control(list(p_values.values()), method="bh")
    expected = {name for name, p in zip(p_values, adjusted, strict=True) if p <= 0.1}
    assert benjamini_hochberg(p_values, 0.1) == expected


def test_newcombes_lower_bound_equals_his_published_example() -> None:
    # Newcombe 1998, table II, contrast (a) 56/70 - 48/80, method 10: 0.0524 to 0.3339
    assert difference_lower(56, 70, 48, 80, 0.025) == pytest.approx(0.0524, abs=5e-5)
