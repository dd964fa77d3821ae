"""The estimator against its formula written out by hand, and against what must not change it."""

import math
import random
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as oracle

from prx.domain.answers import NotEnoughData
from prx.domain.errors import BadStatistics
from prx.stats.estimator import (
    ArmTable,
    Composite,
    Floor,
    UnitSum,
    by_dimension,
    choose_dimensions,
    composite,
)

OPEN = Floor(0, 2.0)
WEIGHTS = {"relevance": 0.5, "completion": 0.3, "precision": 0.2}
Sums = dict[str, dict[str, UnitSum]]


def partly_observed(seed: int, users: int, shift: float = 0.0) -> Sums:
    rng = random.Random(seed)
    sums: Sums = {d: {} for d in WEIGHTS}
    for user in range(users):
        level = rng.gauss(0.6 + shift, 0.1)
        for _ in range(rng.choice((1, 1, 2, 3, 8))):
            for d, share in zip(WEIGHTS, (1.0, 0.6, 0.35), strict=True):
                if rng.random() < share:
                    score = min(1.0, max(0.0, rng.gauss(level, 0.2)))
                    name = f"u{user}"
                    sums[d][name] = sums[d].get(name, UnitSum()) + UnitSum.of(score)
    return sums


def by_hand(control: Sums, treatment: Sums, weights: Mapping[str, float], rho: float) -> dict[str, float]:
    """SPEC section 6 "Estimator", term by term."""
    delta, parts, effective = 0.0, [], []
    for sign, sums in ((-1, control), (1, treatment)):
        psi: dict[str, float] = {}
        h: dict[str, float] = {}
        for d, w in weights.items():
            a = {i: s.n / (1 + (s.n - 1) * rho) for i, s in sums[d].items()}
            total = math.fsum(a.values())
            mean = math.fsum(a[i] * s.total / s.n for i, s in sums[d].items()) / total
            delta += sign * w * mean
            for i, s in sums[d].items():
                psi[i] = psi.get(i, 0.0) + w * a[i] * (s.total / s.n - mean) / total
                h[i] = h.get(i, 0.0) + w * a[i] / total
        parts.append(math.fsum(psi[i] ** 2 / (1 - h[i]) for i in psi))
        effective.append(1 / math.fsum(v * v for v in h.values()))
    variance = sum(parts)
    df = variance**2 / sum(v**2 / (g - 1) for v, g in zip(parts, effective, strict=True))
    return {
        "delta": delta,
        "se": math.sqrt(variance),
        "df": df,
        "control": effective[0],
        "treatment": effective[1],
    }


@pytest.mark.parametrize("rho", [0.0, 0.2, 0.7])
def test_the_estimate_is_the_formula_of_the_specification(rho: float) -> None:
    control, treatment = partly_observed(1, 60), partly_observed(2, 45, 0.05)
    found = composite(control, treatment, weights=WEIGHTS, rho=rho, floor=OPEN)
    expected = by_hand(control, treatment, WEIGHTS, rho)
    assert isinstance(found, Composite)
    assert found.delta == pytest.approx(expected["delta"], rel=1e-12)
    assert found.se == pytest.approx(expected["se"], rel=1e-12)
    assert found.df == pytest.approx(expected["df"], rel=1e-11)
    assert found.control.effective_units == pytest.approx(expected["control"], rel=1e-12)
    assert found.treatment.effective_units == pytest.approx(expected["treatment"], rel=1e-12)
    assert found.p_value == pytest.approx(2 * oracle.t.sf(abs(found.t), found.df), rel=1e-9)
    assert found.z == pytest.approx(oracle.norm.isf(oracle.t.sf(found.t, found.df)), rel=1e-9)
    assert found.information == pytest.approx(found.se**-2)


def test_one_session_per_unit_and_one_dimension_is_welchs_test() -> None:
    rng = np.random.default_rng(5)
    control, treatment = rng.beta(8, 2, 130), rng.beta(7, 3, 90)
    arms = [ArmTable.from_rows(np.arange(len(y)), {"fitness": y}) for y in (control, treatment)]
    found = composite(*arms, weights={"fitness": 1.0}, floor=OPEN)
    theirs = oracle.ttest_ind(treatment, control, equal_var=False)
    assert isinstance(found, Composite)
    assert found.t == pytest.approx(theirs.statistic, rel=1e-7)
    assert found.df == pytest.approx(theirs.df, rel=1e-7)
    assert found.interval(0.95).low == pytest.approx(theirs.confidence_interval().low, rel=1e-6)
    one_sided = oracle.ttest_ind(treatment, control, equal_var=False, alternative="greater")
    assert found.one_sided_p() == pytest.approx(one_sided.pvalue, rel=1e-7)


def test_units_without_shrinkage_are_ordinary_clusters() -> None:
    rng = np.random.default_rng(9)
    unit = rng.integers(0, 40, 400)
    y = np.clip(0.6 + 0.1 * rng.normal(size=40)[unit] + 0.1 * rng.normal(size=400), 0, 1)
    arm = ArmTable.from_rows(unit, {"fitness": y})
    found = composite(arm, arm, weights={"fitness": 1.0}, rho=0.0, floor=OPEN)
    assert isinstance(found, Composite)
    residual = np.bincount(unit, weights=y - y.mean()) / 400
    share = np.bincount(unit) / 400
    assert found.control.mean == pytest.approx(y.mean(), rel=1e-9)
    assert found.control.variance == pytest.approx(float((residual**2 / (1 - share)).sum()), rel=1e-7)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 5))
def test_any_order_and_any_split_of_the_events_gives_the_same_bits(seed: int, pieces: int) -> None:
    rng = random.Random(seed)
    events = [
        (f"u{rng.randrange(40)}", rng.choice(tuple(WEIGHTS)), rng.random(), rng.random() < 0.5)
        for _ in range(900)
    ]

    def arms(order: list[tuple[str, str, float, bool]]) -> tuple[Sums, Sums]:
        merged: tuple[Sums, Sums] = ({d: {} for d in WEIGHTS}, {d: {} for d in WEIGHTS})
        size = math.ceil(len(order) / pieces)
        for start in range(0, len(order), size):
            part: tuple[Sums, Sums] = ({d: {} for d in WEIGHTS}, {d: {} for d in WEIGHTS})
            for unit, d, score, treated in order[start : start + size]:
                part[treated][d][unit] = part[treated][d].get(unit, UnitSum()) + UnitSum.of(score)
            for side in (0, 1):
                for d, units in part[side].items():
                    for unit, s in units.items():
                        merged[side][d][unit] = merged[side][d].get(unit, UnitSum()) + s
        return merged

    first = composite(*arms(events), weights=WEIGHTS, floor=OPEN)
    rng.shuffle(events)
    assert composite(*arms(events), weights=WEIGHTS, floor=OPEN) == first


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000))
def test_raw_rows_in_any_order_give_the_same_bits_as_stored_sums(seed: int) -> None:
    rng = np.random.default_rng(seed)
    unit, score, scored = rng.integers(0, 30, 300), rng.random(300), rng.random(300) < 0.7
    order = rng.permutation(300)
    sums: Sums = {"fitness": {}}
    sessions: dict[str, int] = {}
    for u, y, known in zip(unit, score, scored, strict=True):
        name = f"{u:02d}"
        sessions[name] = sessions.get(name, 0) + 1
        if known:
            sums["fitness"][name] = sums["fitness"].get(name, UnitSum()) + UnitSum.of(float(y))
    tables = [
        ArmTable.from_rows(unit, {"fitness": score}, scored={"fitness": scored}),
        ArmTable.from_rows(unit[order], {"fitness": score[order]}, scored={"fitness": scored[order]}),
        ArmTable.from_sums(sums, sessions=[sessions]),
    ]
    other = ArmTable.from_rows(np.arange(60), {"fitness": np.linspace(0, 1, 60)})
    results = [composite(other, t, weights={"fitness": 1.0}, floor=OPEN) for t in tables]
    assert results[0] == results[1] == results[2]


def test_exchanging_the_arms_turns_the_sign_of_everything() -> None:
    a, b = partly_observed(3, 50), partly_observed(4, 70)
    there = composite(a, b, weights=WEIGHTS, floor=OPEN)
    back = composite(b, a, weights=WEIGHTS, floor=OPEN)
    assert isinstance(there, Composite)
    assert isinstance(back, Composite)
    assert (there.delta, there.t, there.z) == pytest.approx((-back.delta, -back.t, -back.z), rel=1e-12)
    assert (there.se, there.df, there.p_value) == pytest.approx((back.se, back.df, back.p_value), rel=1e-12)


def test_strata_are_compared_within_themselves() -> None:
    # Second base 0.3 better, and the treatment met it more often; within each base the arms are equal.
    def arm(first: int, second: int) -> ArmTable:
        y = [0.2, 0.4] * (first // 2) + [0.5, 0.7] * (second // 2)
        return ArmTable.from_rows(
            np.arange(first + second), {"fitness": y}, stratum=[0] * first + [1] * second
        )

    control, treatment = arm(80, 20), arm(20, 80)
    found = composite(control, treatment, weights={"fitness": 1.0}, floor=OPEN)
    assert isinstance(found, Composite)
    assert found.delta == pytest.approx(0.0, abs=1e-9)
    since = composite(control.only(1), treatment.only(1), weights={"fitness": 1.0}, floor=OPEN)
    assert isinstance(since, Composite)
    assert (since.control.sessions, since.treatment.sessions) == (20, 80)


def test_a_unit_in_two_strata_is_one_cluster() -> None:
    rng = np.random.default_rng(2)
    level = rng.normal(0.5, 0.15, 60)
    twice = np.concatenate((np.arange(60), np.arange(60)))
    y = np.clip(level[twice], 0, 1)
    split = ArmTable.from_rows(twice, {"fitness": y}, stratum=[0] * 60 + [1] * 60)
    apart = ArmTable.from_rows(np.arange(120), {"fitness": y}, stratum=[0] * 60 + [1] * 60)
    other = ArmTable.from_rows(
        np.arange(200), {"fitness": np.linspace(0, 1, 200)}, stratum=[0] * 100 + [1] * 100
    )
    joined = composite(other, split, weights={"fitness": 1.0}, floor=OPEN)
    naive = composite(other, apart, weights={"fitness": 1.0}, floor=OPEN)
    assert isinstance(joined, Composite)
    assert isinstance(naive, Composite)
    assert joined.treatment.units == 60
    assert joined.treatment.variance == pytest.approx(2 * naive.treatment.variance, rel=0.03)


def test_one_stratum_without_treatment_takes_no_part() -> None:
    control = ArmTable.from_rows(np.arange(60), {"fitness": [0.1, 0.2, 0.6] * 20}, stratum=[0, 0, 1] * 20)
    treatment = ArmTable.from_rows(np.arange(40), {"fitness": [0.5, 0.7] * 20}, stratum=[1] * 40)
    assert isinstance(composite(control, treatment, weights={"fitness": 1.0}, floor=OPEN), Composite)
    nowhere = ArmTable.from_rows(np.arange(40), {"fitness": [0.5, 0.7] * 20}, stratum=[2] * 40)
    assert isinstance(composite(control, nowhere, weights={"fitness": 1.0}, floor=OPEN), NotEnoughData)


def test_below_the_floor_of_sessions_or_effective_units_there_is_no_number() -> None:
    y = [0.4, 0.6, 0.8, 0.5]
    few = ArmTable.from_rows(np.arange(99), {"fitness": (y * 25)[:99]})
    enough = ArmTable.from_rows(np.arange(100), {"fitness": y * 25})
    alike = ArmTable.from_rows(np.arange(200) % 10, {"fitness": y * 50})
    weights = {"fitness": 1.0}
    below = composite(few, enough, weights=weights)
    assert isinstance(below, NotEnoughData)
    assert "99 of 100 sessions in the control arm" in below.why
    few_units = composite(enough, alike, weights=weights)
    assert isinstance(few_units, NotEnoughData)
    assert "10.0 of 20 effective units in the treatment arm" in few_units.why
    assert isinstance(composite(enough, enough, weights=weights), Composite)


def test_a_dimension_without_a_score_in_one_arm_is_named() -> None:
    full, empty = partly_observed(1, 30), partly_observed(2, 30)
    empty["precision"] = {}
    found = composite(full, empty, weights=WEIGHTS, floor=OPEN)
    assert isinstance(found, NotEnoughData)
    assert "treatment" in found.why
    assert "precision" in found.why


def test_two_constant_arms_decide_nothing_however_far_apart() -> None:
    same = [ArmTable.from_rows(np.arange(500), {"fitness": [v] * 500}) for v in (0.1, 0.9)]
    assert isinstance(composite(*same, weights={"fitness": 1.0}), NotEnoughData)


def test_a_perfect_arm_can_win_but_not_by_having_no_spread() -> None:
    def rate(bad: int) -> ArmTable:
        return ArmTable.from_rows(np.arange(100), {"completion": [0.0] * bad + [1.0] * (100 - bad)})

    close = composite(rate(4), rate(0), weights={"completion": 1.0})
    clear = composite(rate(30), rate(0), weights={"completion": 1.0})
    assert isinstance(close, Composite)
    assert isinstance(clear, Composite)
    assert close.treatment.variance == pytest.approx((0.96 / 100) ** 2)
    assert close.p_value > 0.05
    assert clear.p_value < 1e-6


def test_the_tail_of_a_huge_difference_stays_a_finite_z() -> None:
    rng = np.random.default_rng(1)
    arms = [
        ArmTable.from_rows(np.arange(50_000), {"fitness": m + 0.01 * rng.random(50_000)}) for m in (0.1, 0.9)
    ]
    found = composite(*arms, weights={"fitness": 1.0})
    assert isinstance(found, Composite)
    assert found.p_value == 0.0
    assert 300 < found.z < found.t


@pytest.mark.parametrize("weights", [{}, {"a": 0.7}, {"a": 1.5, "b": -0.5}, {"a": math.nan}])
def test_weights_that_do_not_sum_to_one_are_an_error_naming_the_sum(weights: dict[str, float]) -> None:
    with pytest.raises(BadStatistics, match=f"sum to {sum(weights.values()):g}"):
        composite({}, {}, weights=weights)


@pytest.mark.parametrize("rho", [-0.1, 1.0, math.nan])
def test_a_correlation_out_of_range_is_an_error(rho: float) -> None:
    with pytest.raises(BadStatistics, match="intra-class"):
        composite(partly_observed(1, 30), partly_observed(2, 30), weights=WEIGHTS, rho=rho)


@pytest.mark.parametrize("n", [0, 1, 2])
def test_hardly_any_session_gives_no_number(n: int) -> None:
    tiny = ArmTable.from_rows(np.arange(n), {"fitness": [0.5, 0.6][:n]})
    full = ArmTable.from_rows(np.arange(200), {"fitness": np.linspace(0, 1, 200)})
    for arms in ((tiny, full), (full, tiny), (tiny, tiny)):
        assert isinstance(composite(*arms, weights={"fitness": 1.0}), NotEnoughData)


def test_dimensions_are_tested_alone_for_the_secondary_reading() -> None:
    control, treatment = partly_observed(1, 60), partly_observed(2, 60, 0.1)
    found = by_dimension(control, treatment, dimensions=("relevance", "precision", "latency"), floor=OPEN)
    assert isinstance(found["latency"], NotEnoughData)
    alone = by_hand(control, treatment, {"precision": 1.0}, 0.2)
    precision = found["precision"]
    assert isinstance(precision, Composite)
    assert (precision.delta, precision.se) == pytest.approx((alone["delta"], alone["se"]), rel=1e-12)


def test_coverage_counts_sessions_without_a_score() -> None:
    sums: Sums = {"thumbs": {"a": UnitSum(1, 1.0), "b": UnitSum(2, 1.0)}}
    table = ArmTable.from_sums(sums, sessions=[{"a": 4, "b": 2, "c": 6}])
    assert table.coverage("thumbs") == pytest.approx(3 / 12)


def test_only_dimensions_with_coverage_enter_and_their_weights_sum_to_one() -> None:
    frozen = choose_dimensions({"a": 0.9, "b": 0.25, "c": 0.24}, {"a": 0.4, "b": 0.2, "c": 0.3, "d": 0.1})
    assert not isinstance(frozen, NotEnoughData)
    assert frozen.weights == pytest.approx({"a": 2 / 3, "b": 1 / 3})
    assert frozen.reported == ("c", "d")
    assert isinstance(choose_dimensions({"a": 0.1}, {"a": 1.0}), NotEnoughData)
    with pytest.raises(BadStatistics, match="outside 0 to 1"):
        choose_dimensions({"a": 1.2}, {"a": 1.0})
