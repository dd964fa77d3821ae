"""Published and recomputed numbers, each within the tolerance that its source states."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prx.stats.anytime import (
    Tally,
    anytime_p,
    asymptotic_interval,
    critical_z,
    exact_interval,
    log_normal_mixture,
    normal_mixture_bound,
    tightest_rho,
)
from prx.stats.effects import ArmMean, delta_lift
from prx.stats.multiplicity import bonferroni, holm
from prx.stats.twosample import (
    Moments,
    brunner_munzel,
    mann_whitney,
    welch,
    welch_from_moments,
)
from prx.stats.validity import log_dirichlet_multinomial, log_multinomial, srm

ROOT = Path(__file__).resolve().parents[3]
SHARED = ROOT.parent / "shared" / "data" / "stats_reference.json"
OWN = ROOT / "tests" / "data" / "stats_two_sample_reference.json"
ENTRIES: dict[str, dict[str, Any]] = {e["id"]: e for e in json.loads(OWN.read_text())["entries"]}


def entry(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    return ENTRIES[name]["inputs"], ENTRIES[name]["expected"]


def moments(arm: dict[str, float]) -> Moments:
    if "successes" in arm:
        share = arm["successes"] / arm["n"]
        return Moments(int(arm["n"]), share, share * (1 - share))
    mean = arm["sum"] / arm["n"]
    return Moments(int(arm["n"]), mean, (arm["sum_squares"] - arm["n"] * mean**2) / (arm["n"] - 1))


def mean_of(arm: Moments) -> ArmMean:
    return ArmMean(arm.mean, arm.variance / arm.n)


def test_the_committed_numbers_are_those_of_the_shared_file() -> None:
    if not SHARED.exists():
        pytest.skip(f"the shared reference numbers are not at {SHARED}")
    shared = {e["id"]: e for e in json.loads(SHARED.read_text())["entries"]}
    methods = {e["method"] for e in ENTRIES.values()}
    assert {name: e for name, e in shared.items() if e["method"] in methods} == ENTRIES


@pytest.mark.parametrize("name", ["R-welch-sleep", "R-welch-example1"])
def test_welch_gives_the_t_df_p_and_interval_of_r(name: str) -> None:
    given, expected = entry(name)
    found = welch(given["y"], given["x"])
    assert found.statistic == pytest.approx(expected["t"], rel=1e-9)
    assert found.df == pytest.approx(expected["df"], rel=1e-9)
    assert found.p_value == pytest.approx(expected["p"], rel=1e-9)
    assert [found.interval.low, found.interval.high] == pytest.approx(expected["ci95"], rel=1e-9)
    assert found.estimate == pytest.approx(np.mean(given["x"]) - np.mean(given["y"]))


def test_welch_gives_the_absolute_numbers_of_growthbook() -> None:
    given, expected = entry("gb-welch-absolute")
    found = welch_from_moments(moments(given["a"]), moments(given["b"]))
    assert found.estimate == pytest.approx(expected["estimate"], abs=1e-5)
    assert found.se == pytest.approx(expected["se"], abs=1e-5)
    assert found.p_value == pytest.approx(expected["p"], abs=1e-5)
    assert [found.interval.low, found.interval.high] == pytest.approx(expected["ci"], abs=1e-5)


def test_a_one_sided_welch_gives_the_p_and_bound_of_growthbook() -> None:
    given, expected = entry("gb-welch-one-sided-greater-abs")
    found = welch_from_moments(
        moments(given["a"]), moments(given["b"]), alternative="greater", confidence=0.90
    )
    assert found.p_value == pytest.approx(expected["p"], abs=1e-5)
    assert found.interval.low == pytest.approx(expected["ci_lower"], abs=1e-5)


@pytest.mark.parametrize("name", ["gb-welch-binomial-relative", "gb-welch-one-sided-greater-rel"])
def test_a_relative_change_gives_the_numbers_of_growthbook(name: str) -> None:
    given, expected = entry(name)
    one_sided = "ci_lower" in expected
    before, after = moments(given["a"]), moments(given["b"])
    df = welch_from_moments(before, after).df
    found = delta_lift(mean_of(before), mean_of(after), df=df, confidence=0.90 if one_sided else 0.95)
    assert found.estimate == pytest.approx(expected["estimate"], abs=1e-5)
    assert found.se == pytest.approx(expected["se"], abs=1e-5)
    assert (found.p_greater if one_sided else found.p_value) == pytest.approx(expected["p"], abs=1e-5)
    assert found.interval.low == pytest.approx(
        expected["ci_lower"] if one_sided else expected["ci"][0], abs=1e-5
    )


@pytest.mark.parametrize("name", ["gb-asympcs-mean-Nstar1000", "gb-asympcs-prop-Nstar5000"])
def test_the_asymptotic_sequence_gives_the_two_sided_numbers_of_growthbook(name: str) -> None:
    given, expected = entry(name)
    before, after = moments(given["a"]), moments(given["b"])
    lift = delta_lift(mean_of(before), mean_of(after), df=welch_from_moments(before, after).df)
    # Their information is the number of units, so scale ours to it.
    units = before.n + after.n
    planned = lift.se**-2 * given["N_star"] / units
    found = asymptotic_interval(lift.estimate, lift.se, planned_information=planned)
    assert [found.low, found.high] == pytest.approx(expected["ci"], abs=1e-5)
    p = anytime_p(lift.estimate / lift.se, lift.se**-2, planned_information=planned)
    assert p == pytest.approx(expected["p"], abs=1e-5)


def test_the_asymptotic_sequence_gives_the_one_sided_bound_and_p_of_growthbook() -> None:
    given, expected = entry("gb-asympcs-one-sided-greater-abs")
    before, after = moments(given["a"]), moments(given["b"])
    found = welch_from_moments(before, after)
    units = float(before.n + after.n)

    z = critical_z(units, planned_information=given["N_star"], sides=1)
    assert found.estimate - z * found.se == pytest.approx(expected["ci_lower"], abs=1e-5)
    p = anytime_p(found.statistic, units, planned_information=given["N_star"], sides=1)
    # Their p is the last midpoint of a bisection from 1e-5 to 0.4999 that stops after 12 halvings.
    low, high = 1e-5, 0.4999
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (middle, high) if p > middle else (low, middle)
    assert middle == pytest.approx(expected["p"], abs=1e-9)
    assert p == pytest.approx(expected["p"], abs=high - low)


def test_mann_whitney_gives_every_number_of_r() -> None:
    given, expected = entry("R-mwu-help-example")
    x, y = given["x"], given["y"]
    found = mann_whitney(y, x)
    assert (found.method, found.statistic) == ("exact", expected["W"])
    assert found.p_value == pytest.approx(expected["p_exact_two_sided"], rel=1e-9)
    greater = mann_whitney(y, x, alternative="greater")
    assert greater.p_value == pytest.approx(expected["p_exact_greater"], rel=1e-9)
    plain = mann_whitney(y, x, method="asymptotic", alternative="greater", continuity=False)
    assert plain.p_value == pytest.approx(expected["p_asymptotic_greater_no_cc"], rel=1e-9)
    corrected = mann_whitney(y, x, method="asymptotic")
    assert corrected.p_value == pytest.approx(expected["p_asymptotic_two_sided_cc"], rel=1e-9)
    interval = [found.interval.low, found.interval.high]
    assert interval == pytest.approx(expected["hl_ci95"], abs=1e-4)


def test_the_shift_is_the_median_difference_between_whose_neighbours_rs_root_search_stops() -> None:
    given, expected = entry("R-mwu-help-example")
    differences = sorted(a - b for a in given["x"] for b in given["y"])
    found = mann_whitney(given["y"], given["x"])
    assert found.estimate == pytest.approx(np.median(differences), abs=1e-12)
    # R searches a root of a step function, flat from the 25th to the 26th of the 50 differences.
    assert differences[24] - 1e-9 <= expected["hodges_lehmann"] <= differences[25] + 1e-9
    assert differences[24] <= found.estimate <= differences[25]


def test_mann_whitney_gives_every_number_of_scipys_tests() -> None:
    given, expected = entry("scipy-mwu-basic")
    x, y = given["x"], given["y"]
    assert mann_whitney(y, x).statistic == expected["U"]
    for method in ("exact", "asymptotic"):
        for alternative, p in expected[method].items():
            found = mann_whitney(y, x, method=method, alternative=alternative)
            assert found.p_value == pytest.approx(p, rel=1e-10)
    plain = mann_whitney(y, x, method="asymptotic", continuity=False)
    assert plain.p_value == pytest.approx(expected["asymptotic_no_continuity_two_sided"], rel=1e-10)


def test_ties_take_the_tie_corrected_law_by_themselves() -> None:
    given, expected = entry("scipy-mwu-ties")
    found = mann_whitney(given["y"], given["x"])
    assert (found.method, found.statistic) == ("asymptotic", expected["U"])
    assert found.p_value == pytest.approx(expected["p"], rel=1e-10)


def test_brunner_munzel_gives_the_numbers_of_lawstat() -> None:
    given, expected = entry("scipy-brunner-munzel")
    found = brunner_munzel(given["x"], given["y"])
    assert found.statistic == pytest.approx(expected["statistic"], rel=1e-9)
    assert found.p_value == pytest.approx(expected["p_two_sided"], rel=1e-9)
    one_sided = brunner_munzel(given["x"], given["y"], alternative="greater")
    assert one_sided.p_value == pytest.approx(expected["p_less"], rel=1e-9)


def test_all_three_tests_agree_with_scipy_on_a_real_zero_inflated_experiment() -> None:
    _, expected = entry("nsw-zero-inflated")
    with (ROOT / "tests" / "data" / "nsw_re78.csv").open(newline="") as file:
        rows = [(row["treat"], float(row["re78"])) for row in csv.DictReader(file)]
    control, treatment = ([y for arm, y in rows if arm == code] for code in ("0", "1"))
    mean = welch(control, treatment)
    assert mean.statistic == pytest.approx(expected["welch_t"], rel=1e-7)
    assert mean.df == pytest.approx(expected["welch_df"], rel=1e-7)
    assert mean.p_value == pytest.approx(expected["welch_p"], rel=1e-7)
    assert [mean.interval.low, mean.interval.high] == pytest.approx(expected["ci95"], rel=1e-7)
    ranks = mann_whitney(control, treatment)
    assert ranks.statistic == expected["mwu_U"]
    assert ranks.p_value == pytest.approx(expected["mwu_p_asymptotic_cc"], rel=1e-7)
    # The stored sign is scipy's for (treatment, control).
    shape = brunner_munzel(treatment, control)
    assert shape.statistic == pytest.approx(expected["brunner_munzel"], rel=1e-7)
    assert shape.p_value == pytest.approx(expected["brunner_munzel_p"], rel=1e-7)


@pytest.mark.parametrize("name", ["R-srm-chisq-1", "R-srm-chisq-2"])
def test_the_ratio_test_gives_the_chi_square_of_r(name: str) -> None:
    given, expected = entry(name)
    found = srm(given["observed"], given["expected_proportions"])
    assert found.statistic == pytest.approx(expected["chi2"], rel=1e-9)
    assert found.p_value == pytest.approx(expected["p"], rel=1e-9)
    assert found.df == 1


def test_the_sequential_ratio_test_gives_the_marginals_of_ssrm() -> None:
    given, expected = entry("ssrm-units")
    counts = np.cumsum(np.eye(3)[given["units_one_hot"]], axis=0)
    mixed = [log_dirichlet_multinomial(c, given["dirichlet_alpha"]) for c in counts]
    fixed = [log_multinomial(c, given["null"]) for c in counts]
    assert mixed == pytest.approx(expected["log_marginal_M1"], abs=1e-9)
    assert fixed == pytest.approx(expected["log_marginal_M0"], abs=1e-9)


def test_holm_gives_the_numbers_of_growthbook() -> None:
    given, expected = entry("gb-holm")
    adjusted = holm({str(k): p for k, p in enumerate(given["p"])})
    assert list(adjusted.values()) == pytest.approx(expected["adjusted_same_order"], abs=1e-12)


def test_bonferroni_and_holm_give_the_numbers_of_r() -> None:
    given, expected = entry("R-p-adjust-6dims")
    p_values = {str(k): p for k, p in enumerate(given["p"])}
    assert list(bonferroni(p_values).values()) == pytest.approx(expected["bonferroni"], abs=1e-10)
    assert list(holm(p_values).values()) == pytest.approx(expected["holm"], abs=1e-10)


@pytest.mark.parametrize("name", [n for n in ENTRIES if n.startswith("confseq-bernoulli")])
def test_the_exact_interval_gives_the_numbers_of_confseq(name: str) -> None:
    given, expected = entry(name)
    found = exact_interval(
        Tally(given["n"], given["successes"]), alpha=given["alpha"], best_at=given["t_opt"]
    )
    assert [found.low, found.high] == pytest.approx(expected["ci"], abs=1e-5)


def test_the_normal_mixture_gives_the_numbers_of_confseq() -> None:
    given, expected = entry("confseq-rho-two-sided")
    assert tightest_rho(given["v_opt"], alpha=given["alpha_opt"]) == pytest.approx(expected["rho"], abs=1e-5)
    for name, sides in (("confseq-two-sided-normal", 2), ("confseq-one-sided-normal", 1)):
        given, expected = entry(name)
        rho = tightest_rho(given["v_opt"], alpha=given["alpha"], sides=sides)
        log_mixture = log_normal_mixture(given["s"], given["v"], rho=rho, sides=sides)
        assert log_mixture == pytest.approx(expected["log_mixture"], abs=1e-5)
        bound = normal_mixture_bound(given["v"], alpha=given["alpha"], rho=rho, sides=sides)
        assert bound == pytest.approx(expected["bound"], abs=1e-5)
