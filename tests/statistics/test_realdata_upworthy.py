"""A natural benchmark for sample-ratio tests: the Upworthy Research Archive (CC BY 4.0).

From 2013-06-25 to 2014-01-10 the archive's randomisation was faulty. A test's start is in its id, whose
first four bytes are seconds since 1970 (as in an ObjectId). All arms of a test were meant to be shown equally
often. The archive holds final counts only, so the sequential test sees one look: with looks in between it
could only flag more inside.
"""

import csv
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from prx.domain.answers import NotEnoughData
from prx.stats.twosample import Moments, Welch, welch_from_moments
from prx.stats.validity import RatioTest, SequentialTest, sequential_srm, srm

FILE = Path(__file__).resolve().parents[3] / "shared" / "data" / "dev" / "upworthy_ab_arms_dev.csv"
FAULTY = datetime(2013, 6, 25, tzinfo=UTC), datetime(2014, 1, 11, tzinfo=UTC)

Arms = list[tuple[int, int]]


@pytest.fixture(scope="module")
def tests() -> dict[str, Arms]:
    if not FILE.exists():
        pytest.skip(f"the Upworthy data are not at {FILE}")
    found: dict[str, Arms] = {}
    with FILE.open(newline="") as rows:
        for row in csv.DictReader(rows):
            found.setdefault(row["test_id"], []).append((int(row["impressions"]), int(row["clicks"])))
    return found


def in_faulty_window(test_id: str) -> bool:
    started = datetime.fromtimestamp(int(test_id[:8], 16), tz=UTC)
    return FAULTY[0] <= started < FAULTY[1]


def test_the_faulty_window_is_flagged_and_the_rest_is_left_alone(
    tests: dict[str, Arms], record_property: Callable[[str, object], None]
) -> None:
    size, fixed, sequential = Counter[bool](), Counter[bool](), Counter[bool]()
    for test_id, arms in tests.items():
        faulty = in_faulty_window(test_id)
        counts, shares = [shown for shown, _ in arms], [1.0] * len(arms)
        once, at_any_look = srm(counts, shares), sequential_srm([counts], shares)
        assert isinstance(once, RatioTest)
        assert isinstance(at_any_look, SequentialTest)
        size[faulty] += 1
        fixed[faulty] += once.p_value < 0.001
        sequential[faulty] += at_any_look.crossed_at is not None
    flagged = {"tests": size, "chi-square": fixed, "sequential": sequential}
    record_property("upworthy", {name: dict(count) for name, count in flagged.items()})
    assert (size[True], size[False]) == (525, 1912)
    assert fixed[True] / size[True] >= 0.66
    assert fixed[False] / size[False] <= 0.006
    assert sequential[True] / size[True] >= 0.50
    assert sequential[False] / size[False] <= 0.002


def test_every_arm_of_every_test_is_compared_with_its_first_or_says_why_not(tests: dict[str, Arms]) -> None:
    answers = Counter[type]()
    for (shown, clicked), *others in tests.values():
        for more_shown, more_clicked in others:
            arms = [
                Moments(n, k / n if n else 0.0, k / n * (1 - k / n) * n / (n - 1) if n > 1 else 0.0)
                for n, k in ((shown, clicked), (more_shown, more_clicked))
            ]
            answers[type(welch_from_moments(*arms))] += 1
    assert set(answers) <= {Welch, NotEnoughData}
    assert answers[Welch] > 8_000
