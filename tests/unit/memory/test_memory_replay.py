"""Query replay as proof: pass, fail, not enough data, from the numbers alone."""

from datetime import UTC, datetime

import pytest

from prx.prove.memoryreplay import MemoryReplayRules, ReplayedQuery, replay_verdict

NOW = datetime(2026, 9, 1, tzinfo=UTC)
RULES = MemoryReplayRules()


def queries(
    count: int, *, lost: int = 0, confirmed: bool = False, unreachable: int = 0
) -> list[ReplayedQuery]:
    """`count` queries with one evidence each, the first `lost` of them not reached any more."""
    return [
        ReplayedQuery(
            query_id=f"q{n}",
            evidence=("m",),
            confirmed=confirmed,
            before=frozenset() if n >= count - unreachable else frozenset({"m"}),
            after=frozenset() if n < lost or n >= count - unreachable else frozenset({"m"}),
        )
        for n in range(count)
    ]


@pytest.mark.parametrize(
    ("count", "lost", "answer"),
    [
        (49, 0, "not_enough_data"),
        (50, 0, "pass"),
        (200, 1, "pass"),
        (200, 12, "fail"),
        (60, 2, "not_enough_data"),
    ],
)
def test_the_answer_follows_from_how_many_queries_lose_their_evidence(
    count: int, lost: int, answer: str
) -> None:
    step = replay_verdict(queries(count, lost=lost), RULES, NOW)
    assert step.answer == answer
    assert step.evidence == "paired_offline"


def test_one_lost_entry_that_was_told_to_be_relevant_is_a_failure() -> None:
    step = replay_verdict(queries(200, lost=1, confirmed=True), RULES, NOW)
    assert (step.answer, step.code) == ("fail", "evidence_lost")
    assert step.numbers["lost"] == ["q0"]


def test_queries_that_reach_nothing_today_do_not_dilute_a_loss() -> None:
    step = replay_verdict(queries(200, unreachable=160), RULES, NOW)
    assert step.answer == "not_enough_data"
    assert step.numbers["queries"] == 40


def test_recall_before_and_after_is_told() -> None:
    step = replay_verdict(queries(100, lost=10), RULES, NOW)
    assert step.numbers["recall_before"] == 1.0
    assert step.numbers["recall_after"] == pytest.approx(0.9)
