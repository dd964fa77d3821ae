"""Times are aware datetimes in UTC; durations are read from words such as `30d`."""

import re
from datetime import UTC, datetime, timedelta

from prx.domain.errors import InvalidInput

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])", re.IGNORECASE)


def parse_duration(text: str) -> timedelta:
    """Positive duration written as number and unit (`90s`, `15m`, `24h`, `30d`, `2w`).

    Raises: InvalidInput for another form, and for a duration of zero or below.
    """
    match = _DURATION.fullmatch(text.strip())
    seconds = float(match[1]) * _UNITS[match[2].lower()] if match else 0.0
    if seconds <= 0:
        raise InvalidInput(f"{text!r} is no duration; write a number above 0 and a unit, such as 24h or 30d")
    try:
        return timedelta(seconds=seconds)
    except OverflowError as error:
        raise InvalidInput(f"{text!r} is longer than any record; use at most 99999d") from error


def parse_time(text: str) -> datetime:
    """Aware UTC time from ISO 8601; a time without zone is read as UTC. Raises: InvalidInput."""
    try:
        at = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    except ValueError as error:
        raise InvalidInput(f"{text!r} is no time; write it as 2026-12-01T08:00:00Z") from error
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


def show_time(at: datetime) -> str:
    """`2026-12-01T08:00:00Z`, whole seconds, UTC."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def to_micros(at: datetime) -> int:
    """Whole microseconds since 1970 in UTC; exact, so `from_micros` gives the same time back.

    Raises: InvalidInput for a time without zone.
    """
    if at.tzinfo is None:
        raise InvalidInput(f"{at.isoformat()} has no zone; pass an aware time such as datetime.now(UTC)")
    return (at - _EPOCH) // _MICROSECOND


def from_micros(micros: int) -> datetime:
    """Aware UTC time of a count of microseconds since 1970."""
    return _EPOCH + timedelta(microseconds=micros)


def utc_now() -> datetime:
    """The machine's clock; only the edges call this, everything else is given `now`."""
    return datetime.now(UTC)
