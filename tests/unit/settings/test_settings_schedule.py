"""When work is due."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prx.domain.errors import InvalidInput
from prx.settings import check_schedule, next_due

FRIDAY = datetime(2024, 3, 1, 12, 34, 56, tzinfo=UTC)


@pytest.mark.parametrize(
    ("schedule", "due"),
    [
        ("after_session", datetime(2024, 3, 1, 13, 34, 56, tzinfo=UTC)),
        ("hourly", datetime(2024, 3, 1, 13, 0, tzinfo=UTC)),
        ("daily", datetime(2024, 3, 2, tzinfo=UTC)),
        ("weekly", datetime(2024, 3, 4, tzinfo=UTC)),
        ("monthly", datetime(2024, 4, 1, tzinfo=UTC)),
        ("30 2 * * 0", datetime(2024, 3, 3, 2, 30, tzinfo=UTC)),
        ("259200", datetime(2024, 3, 4, 12, 34, 56, tzinfo=UTC)),
    ],
)
def test_each_form_of_schedule_has_its_next_time(schedule: str, due: datetime) -> None:
    assert next_due(schedule, FRIDAY) == due


@pytest.mark.parametrize(
    "schedule",
    ["", "59", "weekley", "0 0 31 2 *", "* * *", "-5", "9" * 30, "\u0663\u0660\u0660", "61 * * * *"],
)
def test_a_text_that_never_comes_is_refused(schedule: str) -> None:
    assert check_schedule(schedule) is not None
    with pytest.raises(InvalidInput):
        next_due(schedule, FRIDAY)


@given(
    st.sampled_from(["after_session", "hourly", "daily", "weekly", "monthly", "3600", "*/7 3 * * *"]),
    st.datetimes(datetime(2020, 1, 1), datetime(2035, 1, 1)),
    st.integers(-12, 14),
)
def test_the_next_time_is_later_and_does_not_depend_on_the_zone(
    schedule: str, naive: datetime, hours: int
) -> None:
    after = naive.replace(tzinfo=UTC)
    due = next_due(schedule, after)
    assert due > after
    assert due == next_due(schedule, after.astimezone(timezone(timedelta(hours=hours))))


def test_catching_up_after_downtime_does_not_shift_the_calendar() -> None:
    late = next_due("monthly", datetime(2024, 1, 31, 3, tzinfo=UTC))
    assert [late, next_due("monthly", late)] == [
        datetime(2024, 2, 1, tzinfo=UTC),
        datetime(2024, 3, 1, tzinfo=UTC),
    ]
