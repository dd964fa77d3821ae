"""Boundaries against published and independently computed numbers, and in the corners where they break."""

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import ndtri
from scipy.stats import multivariate_normal

from prx.domain.errors import BadStatistics
from prx.stats import boundaries, crossing, inflation
from prx.stats.planning import equivalence_sample, sample_per_arm, smallest_effect
from prx.stats.power import (
    drift_for_power,
    drift_with_futility,
    fixed_information,
    futility_bounds,
)

ROOT = Path(__file__).resolve().parents[3]
SHARED = ROOT.parent / "shared" / "data" / "stats_reference.json"
COPIED = ROOT / "tests" / "data" / "stats_boundary_reference.json"
FAMILIES = {
    "Lan-DeMets O'Brien-Fleming": "obf",
    "Lan-DeMets Pocock": "pocock",
    "Hwang-Shih-DeCani gamma=-4": "hsd:-4",
    "Hwang-Shih-DeCani gamma=1": "hsd:1",
    "power family t^2": "power:2",
    "power family phi=1": "power:1",
}
METHODS = ("lan_demets_boundary", "group_sequential_design")


def entries(path: Path, *methods: str) -> list[object]:
    if not path.exists():
        return [pytest.param(None, id=f"absent-{path.parent.name}")]
    found = [e for e in json.loads(path.read_text())["entries"] if e["method"] in methods]
    return [pytest.param(e, id=e["id"]) for e in found]


def needed(entry: dict | None) -> dict:
    if entry is None:
        pytest.skip("../shared/data/stats_reference.json is not here; the copied subset runs instead")
    return entry


def both(*methods: str) -> list[object]:
    return [*entries(COPIED, *methods), *entries(SHARED, *methods)]


def spending_of(inputs: dict) -> object:
    if inputs.get("spending") == "user":
        table = dict(zip(inputs["info_fractions"], inputs["cumulative"], strict=True))
        return table.__getitem__
    return FAMILIES.get(inputs.get("spending", ""))


def expected_z(expected: dict) -> list[float]:
    given = expected.get("adjudicated_upper_z") or expected["upper_z"]
    return [math.inf if z is None else z for z in given]


@pytest.mark.parametrize("entry", both(*METHODS))
def test_every_reference_boundary_is_met(entry: dict | None) -> None:
    entry = needed(entry)
    inputs, tolerance = entry["inputs"], entry["tolerance"]
    spending = spending_of(inputs)
    if spending is None:
        given_bounds_spend_what_the_reference_says(entry)
        return
    result = boundaries(
        inputs.get("info_fractions") or inputs["information"],
        alpha=inputs["alpha_total"],
        sides=inputs["sides"],
        spending=spending,
        spending_times=inputs.get("spending_time"),
    )
    allowed = tolerance.get("upper_z_abs") or tolerance.get("adjudicated_abs") or tolerance["abs"]
    for got, want in zip(result.upper_z, expected_z(entry["expected"]), strict=True):
        assert got == want or abs(got - want) <= (max(allowed, 2e-5) if want > 6 else allowed)
    for key, factor in (("cumulative_alpha_spent", 1), ("cumulative_alpha_spent_per_side", inputs["sides"])):
        if key in entry["expected"]:
            want_spent = [factor * a for a in entry["expected"][key]]
            assert result.alpha_spent == pytest.approx(want_spent, rel=1e-6, abs=1.1e-8)
    if "nominal_p" in entry["expected"]:
        assert result.nominal_p == pytest.approx(entry["expected"]["nominal_p"], abs=1e-6)


def given_bounds_spend_what_the_reference_says(entry: dict) -> None:
    """Bounds that no spending function made (classical, Haybittle-Peto, Wang-Tsiatis): check their exits."""
    inputs, bounds = entry["inputs"], expected_z(entry["expected"])
    lower = None if inputs["sides"] == 2 else [-math.inf] * len(bounds)
    exits = crossing(inputs["info_fractions"], bounds, lower)
    total, running = inputs["alpha_total"], 0.0
    per_side = (
        entry["expected"].get("cumulative_alpha_spent_per_side")
        or entry["expected"]["cumulative_alpha_spent"]
    )
    for up, want in zip(exits.upper, per_side, strict=True):
        running += up
        assert running == pytest.approx(want, abs=2e-7)
    assert inputs["sides"] * running == pytest.approx(total, abs=1e-6)


@pytest.mark.parametrize("entry", both("group_sequential_design"))
def test_inflation_and_expected_information_are_those_of_the_reference(entry: dict | None) -> None:
    entry = needed(entry)
    expected, inputs = entry["expected"], entry["inputs"]
    if "max_info_inflation_vs_fixed" not in expected:
        pytest.skip("this entry has bounds only")
    bounds = expected_z(expected)
    drift = drift_for_power(inputs["info_fractions"], bounds, power=inputs["power"])
    phi = drift**2 / fixed_information(1.0, power=inputs["power"])
    assert phi == pytest.approx(expected["max_info_inflation_vs_fixed"], abs=5e-5)
    for effect, key in ((0.0, "expected_info_ratio_H0"), (drift, "expected_info_ratio_H1")):
        mean = crossing(inputs["info_fractions"], bounds, drift=effect).expected_information
        assert phi * mean == pytest.approx(expected[key], abs=5e-5)


@pytest.mark.parametrize("entry", both("crossing_probability"))
def test_crossing_probabilities_are_those_of_rpact(entry: dict | None) -> None:
    entry = needed(entry)
    inputs, expected = entry["inputs"], list(entry["expected"].values())
    exits = crossing(inputs["info_fractions"], inputs["upper_z"], inputs["lower_z"])
    assert exits.lower == pytest.approx(expected[0], abs=1e-6)
    going = 1.0
    for low, up, below_upper, inside in zip(exits.lower, exits.upper, expected[1], expected[2], strict=True):
        assert going == pytest.approx(inside, abs=1e-6)
        assert going - up == pytest.approx(below_upper, abs=1e-6)
        going -= low + up


@pytest.mark.parametrize("entry", both("type1_of_repeated_1.96"))
def test_naive_peeking_errs_as_often_as_published(entry: dict | None) -> None:
    entry = needed(entry)
    looks = entry["inputs"]["looks"]
    exits = crossing([k + 1 for k in range(looks)], [entry["inputs"]["critical_z"]] * looks)
    assert 1.0 - exits.inside == pytest.approx(entry["expected"]["type1"], abs=2e-5)


@pytest.mark.parametrize("entry", both("type1_of_spending_value_as_nominal_p"))
def test_spending_values_used_as_nominal_p_err_as_often_as_computed(entry: dict | None) -> None:
    entry = needed(entry)
    for looks, want in zip(entry["inputs"]["looks"], entry["expected"]["type1"], strict=True):
        fractions = [(k + 1) / looks for k in range(looks)]
        # The misused rule compares p with 2 - 2 Phi(z / sqrt t), that is |z| with z / sqrt t.
        bounds = [1.959963985 / math.sqrt(t) for t in fractions]
        assert 1.0 - crossing(fractions, bounds).inside == pytest.approx(want, abs=2e-4)


@pytest.mark.parametrize("entry", both("sequential_adjusted_alpha"))
def test_an_overrun_gives_the_published_nominal_alphas(entry: dict | None) -> None:
    entry = needed(entry)
    seen = entry["inputs"]["n_cumulative_total"]
    result = boundaries(
        [n / seen[-1] for n in seen], alpha=entry["inputs"]["alpha_total"], spending="power:2"
    )
    assert result.nominal_p == pytest.approx(entry["expected"]["nominal_alpha"], abs=1e-4)


@pytest.mark.parametrize("entry", both("operating_characteristics_30_equal_looks"))
def test_operating_characteristics_are_those_computed_independently(entry: dict | None) -> None:
    entry = needed(entry)
    fractions = [(k + 1) / 30 for k in range(30)]
    rows = {row[0]: row[1:] for row in entry["expected"]["rows"]}
    fixed80, fixed90 = fixed_information(1.0) ** 0.5, fixed_information(1.0, power=0.9) ** 0.5
    families = {"LD_OBF": "obf", "HSD_-4": "hsd:-4", "power_t2": "power:2", "power_t1": "power:1"}
    for name, spending in {**families, "LD_Pocock": "pocock"}.items():
        bounds = boundaries(fractions, spending=spending).upper_z

        def rejects(effect: float, bounds: tuple[float, ...] = bounds) -> float:
            return 1.0 - crossing(fractions, bounds, drift=effect).inside  # that table counts both tails

        drift = float(brentq(lambda effect: rejects(effect) - 0.8, 0.5, 9.0))
        phi = (drift / fixed80) ** 2
        got = [
            rejects(0.0),
            rejects(fixed80),
            rejects(fixed90),
            phi,
            phi * crossing(fractions, bounds, drift=drift).expected_information,
            phi * crossing(fractions, bounds).expected_information,
            phi * crossing(fractions, bounds, drift=2.0 * drift).expected_information,
        ]
        assert got == pytest.approx(rows[name], abs=1e-3), name


@pytest.mark.parametrize("entry", both("sample_size_t", "sample_size_relative_effect"))
def test_sample_sizes_are_those_of_the_reference(entry: dict | None) -> None:
    entry = needed(entry)
    inputs, expected = entry["inputs"], entry["expected"]
    if entry["method"] == "sample_size_relative_effect":
        for row, want in zip(inputs["rows"], expected["n_per_variant"], strict=True):
            information = fixed_information(row["min_relative_effect"] * row["mean"])
            assert 2.0 * row["sd"] ** 2 * information == pytest.approx(want, abs=2)
        return
    delta, sd = inputs["delta"], inputs["sd"]
    assert sample_per_arm(delta, sd) == pytest.approx(expected["n_per_arm_power80"], rel=1e-6)
    assert sample_per_arm(delta, sd, power=0.9) == pytest.approx(expected["n_per_arm_power90"], rel=1e-6)
    effect = smallest_effect(100, sd)
    # R's root finder stops at 1.2e-4, so its effect is that close and not closer: at it the exact power is
    # 0.79977, at ours 0.8 (the sample size, which R solves in another scale, agrees to 1e-9).
    assert effect == pytest.approx(expected["mde_at_n100_power80"], abs=1.2e-4 * sd)
    assert isinstance(effect, float)
    assert sample_per_arm(effect, sd) == pytest.approx(100.0, rel=1e-9)


@pytest.mark.parametrize(
    ("looks", "lower", "maximum", "null", "effect"),
    [
        (5, "hsd:-4", 1.050, 0.633, 0.794),
        (10, "hsd:-4", 1.072, 0.595, 0.762),
        (10, "hsd:-2", 1.133, 0.532, 0.767),
    ],
)
def test_futility_costs_and_saves_what_gsdesign_says(
    looks: int, lower: str, maximum: float, null: float, effect: float
) -> None:
    """Values: gsDesign 3.11, test.type 4, 80 % power (experiment-stats.md section 6.1)."""
    fractions = [(k + 1) / looks for k in range(looks)]
    bounds = boundaries(fractions).upper_z
    drift = drift_with_futility(fractions, bounds, beta=0.2, spending=lower)
    stop = futility_bounds(fractions, bounds, effect=drift, beta=0.2, spending=lower)
    phi = inflation(fractions, futility=lower)
    assert phi == pytest.approx(maximum, abs=6e-4)
    assert phi * crossing(fractions, bounds, stop).expected_information == pytest.approx(null, abs=6e-4)
    assert phi * crossing(fractions, bounds, stop, drift=drift).expected_information == pytest.approx(
        effect, abs=6e-4
    )
    assert stop[-1] == pytest.approx(bounds[-1], abs=1e-5)


def test_two_looks_one_percent_apart_agree_with_the_bivariate_normal() -> None:
    fractions = (0.98, 0.99, 1.0)
    bounds = boundaries(fractions, spending="pocock").upper_z
    correlation = [[math.sqrt(min(a, b) / max(a, b)) for b in fractions[:2]] for a in fractions[:2]]
    joint = multivariate_normal(mean=[0.0, 0.0], cov=correlation, abseps=1e-10, releps=1e-10)
    inside = joint.cdf(bounds[:2], lower_limit=[-b for b in bounds[:2]])
    spent_by_second = boundaries(fractions, spending="pocock").alpha_spent[1]
    assert 1.0 - inside == pytest.approx(spent_by_second, abs=1e-7)


def test_looks_many_and_close_hold_the_level() -> None:
    fractions = [0.01 * k for k in range(1, 101)]
    result = boundaries(fractions)
    assert 1.0 - crossing(fractions, result.upper_z).inside == pytest.approx(0.05, abs=1e-9)


def test_a_skipped_look_leaves_its_alpha_to_the_next() -> None:
    skipped = boundaries([0.25, 0.75, 1.0])
    assert skipped.alpha_spent[1] == boundaries([0.25, 0.5, 0.75, 1.0]).alpha_spent[2]
    assert 1.0 - crossing(skipped.fractions, skipped.upper_z).inside == pytest.approx(0.05, abs=1e-9)


def test_an_early_end_spends_all_alpha_that_is_left_at_the_true_correlation() -> None:
    early = boundaries([0.2, 0.5, 0.61], final=True)
    assert early.alpha_spent[-1] == 0.05
    assert 1.0 - crossing(early.fractions, early.upper_z).inside == pytest.approx(0.05, abs=1e-9)
    assert early.upper_z[:2] == boundaries([0.2, 0.5, 1.0]).upper_z[:2]


def test_an_overrun_spends_all_alpha_once_and_uses_its_real_information() -> None:
    over = boundaries([0.5, 0.9, 1.3])
    assert over.alpha_spent[-1] == 0.05
    assert 1.0 - crossing([0.5, 0.9, 1.3], over.upper_z).inside == pytest.approx(0.05, abs=1e-9)


def test_bounds_too_far_out_to_cross_are_infinite_and_their_alpha_rolls_on() -> None:
    result = boundaries([0.01, 0.02, 0.5, 1.0], spending="obf")
    assert result.upper_z[:2] == (math.inf, math.inf)
    assert result.upper_z[2:] == pytest.approx(boundaries([0.5, 1.0], spending="obf").upper_z, abs=1e-12)


def test_a_function_may_give_shares_or_alpha() -> None:
    named = boundaries([0.3, 0.6, 1.0], spending="power:2")
    assert boundaries([0.3, 0.6, 1.0], spending=lambda t: t * t).upper_z == pytest.approx(named.upper_z)
    assert boundaries([0.3, 0.6, 1.0], spending=lambda t: 0.05 * t * t).upper_z == pytest.approx(
        named.upper_z
    )


@pytest.mark.parametrize(
    "call",
    [
        lambda: boundaries([]),
        lambda: boundaries([0.5, 0.5, 1.0]),
        lambda: boundaries([0.5, 0.4, 1.0]),
        lambda: boundaries([0.0, 1.0]),
        lambda: boundaries([math.nan, 1.0]),
        lambda: boundaries([0.5, math.inf]),
        lambda: boundaries([0.5, 1.0, 1.1]),
        lambda: boundaries([1.0], alpha=0.0),
        lambda: boundaries([1.0], alpha=1.0),
        lambda: boundaries([1.0], alpha=math.nan),
        lambda: boundaries([1.0], sides=3),
        lambda: boundaries([1.0], spending="hsd"),
        lambda: boundaries([1.0], spending="hsd:x"),
        lambda: boundaries([1.0], spending="power:-1"),
        lambda: boundaries([1.0], spending="bonferroni"),
        lambda: boundaries([0.5, 1.0], spending=lambda t: 0.7 * t),
        lambda: boundaries([0.5, 0.7, 1.0], spending=lambda t: 1.0 - abs(t - 1.0) * (t < 0.6 or 2.0)),
        lambda: boundaries([0.5, 1.0], spending_times=[0.5]),
        lambda: boundaries([0.5, 1.0], spending_times=[0.5, 1.5]),
        lambda: crossing([1.0], [2.0, 2.0]),
        lambda: crossing([1.0], [math.nan]),
        lambda: crossing([1.0], [1.0], [2.0]),
        lambda: crossing([1.0], [1.0], drift=math.inf),
        lambda: fixed_information(0.0),
        lambda: fixed_information(0.02, power=1.0),
        lambda: sample_per_arm(0.02, 0.0),
        lambda: sample_per_arm(math.nan, 0.2),
        lambda: equivalence_sample(0.02, math.inf),
    ],
)
def test_inputs_out_of_range_are_an_error_and_never_a_number(call) -> None:
    with pytest.raises(BadStatistics):
        call()


def test_equivalence_sample_matches_the_survey() -> None:
    assert equivalence_sample(0.02, 0.2) == pytest.approx(1713, abs=1)


@given(
    gaps=st.lists(st.floats(0.01, 0.4), min_size=1, max_size=12),
    family=st.sampled_from(["hsd:-4", "hsd:1", "obf", "pocock", "power:3"]),
    alpha=st.floats(0.005, 0.2),
    sides=st.sampled_from([1, 2]),
)
def test_whatever_the_looks_all_of_alpha_is_spent_and_no_more(
    gaps: list[float], family: str, alpha: float, sides: int
) -> None:
    total, fractions = 0.0, []
    for gap in gaps:
        total += gap
        fractions.append(total)
    fractions = [f / total for f in fractions]
    result = boundaries(fractions, alpha=alpha, sides=sides, spending=family)
    lower = None if sides == 2 else [-math.inf] * len(fractions)
    exits = crossing(fractions, result.upper_z, lower)
    assert sides * math.fsum(exits.upper) == pytest.approx(alpha, rel=1e-7)
    assert min(result.upper_z) >= float(ndtri(1.0 - alpha / sides)) - 1e-9
