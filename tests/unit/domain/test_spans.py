"""What is found again of what somebody said, and what is not taken as somebody's own."""

from datetime import UTC, datetime, timedelta

import pytest

from prx.domain.spans import Said

NOW = datetime(2026, 12, 1, 8, 0, tzinfo=UTC)


def said(*texts: str, known: frozenset[str] = frozenset()) -> Said:
    made = Said(known)
    for text in texts:
        made.add(text, NOW)
    return made


@pytest.mark.parametrize(
    ("text", "copy"),
    [
        ("my grandmother hid the silver spoon there", "Note: MY grandmother, hid the\nsilver “spoon”!"),
        ("call me tonight please", "Users say: call me tonight, please."),
        ("write to anna.k@example.org", "ask anna.k@example.org about it"),
        ("my code is AX-9931-q", "the code (ax-9931-Q) fails"),
        ("我奶奶把银勺子藏在第三块地板下面", "顾客说:我奶奶把银勺子藏在第三块地板下面。"),
        ("моя бабушка спрятала ложку под пол", "Жалоба: моя бабушка спрятала ложку под пол"),
        ("내 할머니가 은숟가락을 마루 밑에 숨겼다", "내 할머니가 은숟가락을 마루 밑에"),
        ("ばあちゃんが銀のスプーンを床下に隠した", "要約:ばあちゃんが銀のスプーンを床下に隠した"),
    ],
)
def test_a_copy_is_found_in_every_language_whatever_its_spelling(text: str, copy: str) -> None:
    assert said(text).within(copy)


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("where is my parcel that I ordered", "where is my parcel"),
        ("thank you very", "thank you very much"),
        ("on 2026-12-01 at 08:15:00", "since 2026-12-01 08:15:00"),
        ("I paid 1234567 euro", "in 1234567 cases"),
        ("use gpt-4o-mini please", "default model gpt-4o-mini"),
        ("银勺子", "银勺子很贵"),
    ],
)
def test_what_anybody_says_is_nobodys_own(text: str, other: str) -> None:
    assert not said(text, known=frozenset({"GPT-4o-mini"})).within(other)


def test_a_span_knows_when_it_was_said_first_and_can_be_kept_alone() -> None:
    made = Said()
    for days in (3, 1, 2):
        made.add("code ax-9931-q", NOW + timedelta(days=days))
    (span,) = made.within("ax-9931-q")
    assert made.first(span) == int((NOW + timedelta(days=1)).timestamp() * 1_000_000)
    assert made.only(frozenset({span})).within("ax-9931-q") == {span}
    assert not made.only(frozenset())
