"""When recurring work is due: schedule words, cron text or seconds, always in UTC."""

from datetime import UTC, datetime, timedelta

from cronsim import CronSim, CronSimError

from prx.domain.errors import InvalidInput

AFTER_SESSION = "after_session"
WORDS = (AFTER_SESSION, "hourly", "daily", "weekly", "monthly")
COALESCE = timedelta(hours=1)
"""Work that follows every session is gathered to one run an hour."""
_SECONDS = range(60, 366 * 86400 + 1)
_CRON = {"hourly": "0 * * * *", "daily": "0 0 * * *", "weekly": "0 0 * * 1", "monthly": "0 0 1 * *"}
_REFERENCE = datetime(2024, 1, 1, tzinfo=UTC)


def check_schedule(schedule: str) -> str | None:
    """None when `schedule` can be used, else what is wrong with it."""
    try:
        next_due(schedule, _REFERENCE)
    except InvalidInput as error:
        return str(error)
    return None


def next_due(schedule: str, after: datetime) -> datetime:
    """First time strictly later than `after` at which work of this schedule is due.

    Words are aligned to the calendar in UTC (the next full hour, midnight, Monday, first of the month), so
    catching up after downtime never drifts. `after_session` gives one hour after the last run: what sessions
    leave behind is gathered. Cron text has five fields (`0 3 * * *`); digits alone are seconds.

    Raises: InvalidInput for another text, for fewer than 60 seconds, and for a cron text that never fires.
    """
    text = schedule.strip()
    if text == AFTER_SESSION:
        return after + COALESCE
    if text.isascii() and text.isdigit():
        if int(text) not in _SECONDS:
            raise InvalidInput(
                f"a schedule of {text} seconds is outside {_SECONDS.start} to {_SECONDS.stop - 1}"
            )
        return after + timedelta(seconds=int(text))
    try:
        return next(CronSim(_CRON.get(text, text), after.astimezone(UTC)))
    except (CronSimError, StopIteration) as error:
        raise InvalidInput(
            f"{schedule!r} is no schedule that ever comes; write {', '.join(WORDS)}, "
            "a cron text such as '0 3 * * *', or seconds"
        ) from error
