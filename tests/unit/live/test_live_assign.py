import csv
from hashlib import blake2b
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from prx.domain.layers import Layer
from prx.domain.records import UnitSource
from prx.domain.serving import ServedExperiment
from prx.live.assign import assign, held_back, position, unit_of

# Computed once by an implementation of RFC 7693 written from the RFC's text, not by hashlib.
VECTORS = list(
    csv.DictReader(Path(__file__).with_name("assignment_vectors.csv").read_text("utf-8").splitlines())
)


def experiment(**fields: object) -> ServedExperiment:
    given_fields: dict[str, object] = {
        "experiment_id": "e-1",
        "layer": Layer.PROMPT,
        "ramp": 1.0,
        "traffic_split": 0.5,
        "ramp_salt": "ramp",
        "variant_salt": "variant",
    }
    return ServedExperiment(**(given_fields | fields))  # type: ignore[arg-type]


@pytest.mark.parametrize("row", VECTORS, ids=range(len(VECTORS)))
def test_every_implementation_agrees_with_the_golden_vectors(row: dict[str, str]) -> None:
    assert position(row["ramp_salt"], row["unit"]) == int(row["ramp_position"])
    assert position(row["variant_salt"], row["unit"]) == int(row["variant_position"])
    found = assign(
        row["unit"],
        experiment(
            ramp=float(row["ramp"]),
            traffic_split=float(row["traffic_split"]),
            ramp_salt=row["ramp_salt"],
            variant_salt=row["variant_salt"],
        ),
    )
    assert (found or "") == row["arm"]


def test_there_are_golden_vectors_of_every_arm() -> None:
    assert len(VECTORS) >= 50
    assert {row["arm"] for row in VECTORS} == {"control", "treatment", ""}


def chi_square(counts: list[int], shares: list[float]) -> float:
    total = sum(counts)
    return sum((c - total * s) ** 2 / (total * s) for c, s in zip(counts, shares, strict=True))


@pytest.mark.parametrize("salt", ["s1", "s2", "s3", "another salt", "соль"])
@pytest.mark.parametrize("make", ["user-{}", "{}", "{:032x}"])
def test_positions_are_uniform_for_units_that_look_alike(salt: str, make: str) -> None:
    counts = [0] * 64
    for n in range(20_000):
        counts[position(salt, make.format(n)) >> 58] += 1
    # 15 fixed cases, each passed by a uniform hash with probability 0.9999.
    assert chi_square(counts, [1 / 64] * 64) < chi2.isf(1e-4, 63)


@pytest.mark.parametrize("split", [0.5, 0.1])
def test_ramp_and_variant_of_an_experiment_and_two_experiments_are_independent(split: float) -> None:
    first = experiment(ramp=0.5, traffic_split=split)
    second = experiment(traffic_split=split, variant_salt="variant of another")
    cells = {(a, b): 0 for a in ("control", "treatment", None) for b in ("control", "treatment")}
    for n in range(20_000):
        unit = f"user-{n}"
        cells[assign(unit, first), assign(unit, second)] += 1  # type: ignore[index]
    arm = {"control": 1 - split, "treatment": split}
    shares = [(0.5 if a is None else 0.5 * arm[a]) * arm[b] for a, b in cells]
    assert chi_square(list(cells.values()), shares) < chi2.isf(1e-4, 5)


@given(st.text(max_size=40), st.floats(0, 1), st.floats(0, 1))
def test_a_growing_ramp_moves_no_unit_between_arms(unit: str, one: float, other: float) -> None:
    narrow = assign(unit, experiment(ramp=min(one, other)))
    assert narrow in (None, assign(unit, experiment(ramp=max(one, other))))


def test_the_ends_of_ramp_and_split_are_exact() -> None:
    units = [f"u-{n}" for n in range(500)]
    assert {assign(u, experiment(ramp=0.0)) for u in units} == {None}
    assert {assign(u, experiment(traffic_split=0.0)) for u in units} == {"control"}
    assert {assign(u, experiment(traffic_split=1.0)) for u in units} == {"treatment"}


@pytest.mark.parametrize(
    ("rule", "session_id", "user", "expected"),
    [
        ("auto", "s", "u", ("u", UnitSource.USER)),
        ("auto", "s", None, ("s", UnitSource.SESSION)),
        ("auto", "s", "", ("s", UnitSource.SESSION)),
        ("auto", None, None, (None, UnitSource.NONE)),
        ("session", "s", "u", ("s", UnitSource.SESSION)),
        ("session", None, "u", (None, UnitSource.NONE)),
        ("user", "s", "u", ("u", UnitSource.USER)),
        ("user", "s", None, (None, UnitSource.NONE)),
    ],
)
def test_the_unit_is_the_user_when_there_is_one_unless_the_rule_says_otherwise(
    rule: str, session_id: str | None, user: str | None, expected: tuple[str | None, UnitSource]
) -> None:
    assert unit_of(rule, session_id=session_id, user=user) == expected


def test_who_is_held_back_is_fixed_for_ever_and_grows_with_the_share() -> None:
    """Worked out here once more from RFC 7693: the highest positions under the salt are held back."""
    units = [f"u{k}" for k in range(500)]
    for salt in ("salt", "\u5f20" * 40):
        key = salt.encode() if len(salt.encode()) <= 64 else blake2b(salt.encode()).digest()
        places = {
            u: int.from_bytes(blake2b(u.encode(), key=key, digest_size=8).digest(), "big") for u in units
        }
        kept = {share: {u for u in units if held_back(u, salt, share)} for share in (0.0, 0.1, 0.2, 0.5, 1.0)}
        for share, found in kept.items():
            assert found == {u for u in units if places[u] >= int((1 - share) * 2**64)}
        assert kept[0.0] < kept[0.1] < kept[0.2] < kept[0.5] < kept[1.0]
