"""Three-way answers of guardrails and validity checks."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as oracle

from prx.domain.answers import Failed, NotEnoughData, Passed
from prx.domain.errors import BadStatistics
from prx.stats.anytime import critical_z
from prx.stats.estimator import ArmTable, Composite, composite
from prx.stats.guardrails import Guardrail, gate, harm, watch_information
from prx.stats.losses import LossBlock, loss_answer, loss_imbalance
from prx.stats.validity import (
    Exposures,
    RatioTest,
    SequentialTest,
    contamination_answer,
    exposure_answer,
    ratio_answer,
    sequential_srm,
    srm,
)

MISSING = NotEnoughData("no recall yet")


def arms(change: float, n: int, *, sd: float = 0.25, mean: float = 0.6) -> Composite:
    """A result with exactly this change and spread, one session per unit."""
    shape = oracle.norm.ppf((np.arange(n) + 0.5) / n)
    y = mean + sd * shape / shape.std()
    tables = [ArmTable.from_rows(np.arange(n), {"d": y + c}, bounds=None) for c in (0.0, change)]
    found = composite(*tables, weights={"d": 1.0})
    assert isinstance(found, Composite)
    return found


def test_a_clear_drop_is_harm_and_names_the_metric() -> None:
    answers = harm({"latency": arms(-0.12, 300), "relevance": arms(0.02, 300), "memory": MISSING})
    assert isinstance(answers["latency"], Failed)
    assert answers["latency"].code == "guardrail_harm"
    assert "latency changed by -0.12" in answers["latency"].why
    assert isinstance(answers["relevance"], Passed)
    assert answers["memory"] == NotEnoughData("memory: no recall yet")


def test_a_certain_drop_below_five_points_is_no_harm() -> None:
    small = arms(-0.049, 20_000)
    assert small.z < -15
    assert isinstance(harm({"d": small})["d"], Passed)
    assert isinstance(harm({"d": arms(-0.05, 20_000)})["d"], Failed)


def test_a_large_but_uncertain_drop_is_no_harm() -> None:
    assert isinstance(harm({"d": arms(-0.08, 100)})["d"], Passed)


def test_every_further_guardrail_raises_the_bar() -> None:
    alone = arms(-0.1, 180)
    others = {f"d{k}": arms(0.0, 180) for k in range(40)}
    assert isinstance(harm({"d": alone})["d"], Failed)
    assert isinstance(harm({"d": alone, **others})["d"], Passed)


def test_harm_of_a_metric_where_less_is_better_is_a_rise() -> None:
    cost = Guardrail(better="lower", scale="relative", margin=0.10, harm_at=0.05, tuned_at=0.10)
    dearer, cheaper = arms(0.2, 400), arms(-0.2, 400)
    assert isinstance(harm({"cost": dearer}, {"cost": cost})["cost"], Failed)
    assert "+33.3%" in harm({"cost": dearer}, {"cost": cost})["cost"].why
    assert isinstance(harm({"cost": cheaper}, {"cost": cost})["cost"], Passed)
    assert isinstance(gate({"cost": cheaper}, {"cost": cost})["cost"], Passed)
    assert isinstance(gate({"cost": dearer}, {"cost": cost})["cost"], Failed)


def test_a_change_is_told_from_its_low_end_to_its_high_end_whichever_way_is_better() -> None:
    cost = Guardrail(better="lower", scale="relative", margin=0.10)
    said = gate({"cost": arms(0.02, 4000)}, {"cost": cost})["cost"].why
    assert said == "cost changed by +1.8% to +4.9%, within the margin of 10.0%"
    fell = gate({"cost": arms(-0.02, 4000)}, {"cost": cost})["cost"].why
    assert fell == "cost changed by -4.8% to -1.8%, within the margin of 10.0%"
    assert "changed by -0.0292 to -0.0108," in gate({"d": arms(-0.02, 4000)})["d"].why


def test_a_certain_drop_too_small_to_be_harm_says_so() -> None:
    cost = Guardrail(better="lower", scale="relative", margin=0.10)
    said = harm({"cost": arms(0.02, 40000)}, {"cost": cost})["cost"]
    assert isinstance(said, Passed)
    assert said.why.endswith("worse for certain, but by less than 5.0%")


def test_the_watch_is_tuned_to_the_drop_that_it_should_see() -> None:
    information = watch_information(0.1, 0.01 / 6)
    z = critical_z(information, planned_information=information, alpha=0.01 / 6, sides=1)
    assert 0.1 * math.sqrt(information) == pytest.approx(z)


def test_the_gate_has_three_answers() -> None:
    answers = gate(
        {"fine": arms(0.0, 300), "worse": arms(-0.3, 300), "open": arms(-0.09, 100), "none": MISSING}
    )
    assert isinstance(answers["fine"], Passed)
    assert isinstance(answers["worse"], Failed)
    assert answers["worse"].code == "guardrail_regression"
    assert isinstance(answers["open"], NotEnoughData)
    assert isinstance(answers["none"], NotEnoughData)


def test_the_gate_takes_the_one_sided_bound() -> None:
    found = arms(-0.05, 150)
    bound = found.delta - oracle.t.ppf(0.95, found.df) * found.se
    for margin, kind in ((-bound + 1e-6, Passed), (-bound - 1e-6, NotEnoughData)):
        assert isinstance(gate({"d": found}, {"d": Guardrail(margin=margin)})["d"], kind)


def test_limits_of_a_guardrail_must_be_above_zero() -> None:
    with pytest.raises(BadStatistics, match="above 0"):
        Guardrail(margin=0.0)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(10, 5000), min_size=2, max_size=5))
def test_the_ratio_test_is_pearsons(counts: list[int]) -> None:
    found = srm(counts, [1.0] * len(counts))
    assert isinstance(found, RatioTest)
    theirs = oracle.chisquare(counts)
    assert found.statistic == pytest.approx(theirs.statistic, rel=1e-9, abs=1e-12)
    assert found.p_value == pytest.approx(theirs.pvalue, rel=1e-9)


@pytest.mark.parametrize("counts", [(0, 0), (1, 0), (1, 1), (4, 4)])
def test_a_handful_of_units_gives_no_ratio(counts: tuple[int, int]) -> None:
    assert isinstance(srm(counts, (0.5, 0.5)), NotEnoughData)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ((10,), (1.0,)),
        ((10, 20), (0.5, 0.3, 0.2)),
        ((-1, 20), (0.5, 0.5)),
        ((10.5, 20), (0.5, 0.5)),
        ((math.nan, 20), (0.5, 0.5)),
        ((10, 20), (1.0, 0.0)),
        ((10, 20), (math.nan, 0.5)),
        ((10, 20), (math.inf, 0.5)),
    ],
)
def test_counts_or_shares_that_cannot_be_are_refused(
    counts: tuple[float, ...], expected: tuple[float, ...]
) -> None:
    with pytest.raises(BadStatistics):
        srm(counts, expected)  # type: ignore[arg-type]
    with pytest.raises(BadStatistics):
        sequential_srm([counts], expected)  # type: ignore[list-item]


def test_the_sequential_ratio_test_remembers_its_worst_look() -> None:
    looks = [(100, 100), (1300, 1000), (5000, 5000)]
    found = sequential_srm(looks, (0.5, 0.5))
    assert isinstance(found, SequentialTest)
    assert found.crossed_at == 1
    assert found.p_value == pytest.approx(math.exp(-found.log_evidence))
    assert found.p_value < 0.001
    calm = sequential_srm(looks[:1], (0.5, 0.5))
    assert isinstance(calm, SequentialTest)
    assert (calm.crossed_at, calm.p_value) == (None, 1.0)
    answer = ratio_answer(looks, (0.5, 0.5))
    assert isinstance(answer, Failed)
    assert answer.code == "sample_ratio"
    assert isinstance(ratio_answer(looks[:1], (0.5, 0.5)), Passed)


def test_an_uneven_planned_split_is_no_mismatch() -> None:
    assert isinstance(ratio_answer([(8000, 2000)], (0.8, 0.2)), Passed)
    assert isinstance(ratio_answer([(8000, 2000)], (0.75, 0.25)), Failed)


def test_units_that_go_back_between_looks_are_an_error() -> None:
    with pytest.raises(BadStatistics, match="went back"):
        sequential_srm([(100, 100), (99, 120)], (0.5, 0.5))
    assert isinstance(sequential_srm([], (0.5, 0.5)), NotEnoughData)
    assert isinstance(ratio_answer([(0, 0)], (0.5, 0.5)), NotEnoughData)


def test_the_evidence_for_uneven_loss_is_fair_under_equal_loss() -> None:
    # A mixture of likelihood ratios has mean 1 over what equal loss can give: sum it exactly.
    control, treatment, lost = 40, 60, 7
    mean = 0.0
    for k in range(lost + 1):
        found = loss_imbalance([LossBlock(control, treatment, lost - k, k)])
        assert isinstance(found, SequentialTest)
        mean += oracle.hypergeom.pmf(k, control + treatment, treatment, lost) * math.exp(found.log_evidence)
    assert mean == pytest.approx(1.0, abs=1e-9)


def test_one_arm_that_loses_more_is_found_and_equal_drift_is_not() -> None:
    uneven = [LossBlock(200, 200, 2, 9)] * 12
    even = [LossBlock(200, 200, k, k) for k in range(12)]
    answer = loss_answer(uneven)
    assert isinstance(answer, Failed)
    assert answer.code == "lost_sessions"
    assert isinstance(loss_answer(uneven[:1]), Passed)
    assert isinstance(loss_answer(even), Passed)
    assert isinstance(loss_answer([LossBlock(0, 0, 0, 0)]), NotEnoughData)
    with pytest.raises(BadStatistics, match="more sessions lost"):
        LossBlock(5, 5, 6, 0)


def test_contamination_over_five_percent_blocks() -> None:
    assert isinstance(contamination_answer((200, 200), (10, 3)), Passed)
    blocked = contamination_answer((200, 200), (3, 11))
    assert isinstance(blocked, Failed)
    assert blocked.code == "contamination"
    assert isinstance(contamination_answer((0, 200), (0, 3)), NotEnoughData)
    with pytest.raises(BadStatistics):
        contamination_answer((200, 200), (3, 201))
    with pytest.raises(BadStatistics):
        contamination_answer((200, 200), (3,))


def test_records_of_assignment_exposure_and_outcome_must_agree() -> None:
    good = [Exposures(1000, 900, 850), Exposures(1010, 905, 870)]
    assert isinstance(exposure_answer(good), Passed)
    for answer in (
        exposure_answer(good, exposed_unassigned=1),
        exposure_answer(good, in_both_arms=1),
        exposure_answer([Exposures(1000, 900, 850), Exposures(1000, 700, 690)]),
        exposure_answer([Exposures(1000, 900, 850), Exposures(1000, 900, 700)]),
    ):
        assert isinstance(answer, Failed)
        assert answer.code == "exposure"
    assert isinstance(exposure_answer([Exposures(0, 0, 0), Exposures(0, 0, 0)]), NotEnoughData)
    with pytest.raises(BadStatistics, match="nested"):
        exposure_answer([Exposures(5, 6, 0), Exposures(5, 5, 5)])
