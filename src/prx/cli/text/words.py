"""Numbers, times and spans as people read them."""

from datetime import UTC, datetime

from prx.cli.output import WIDE
from prx.fitness.numbers import rounded
from prx.views.identify import short

NOTHING = "-"


def number(value: float | None, places: int = 3) -> str:
    """Fixed decimals, halves up; a dash for nothing."""
    return NOTHING if value is None else rounded(value, places)


def signed(value: float | None, places: int = 3) -> str:
    """A difference with its sign; a dash for nothing."""
    if value is None:
        return NOTHING
    shown = rounded(value, places)
    return shown if shown.startswith("-") else f"+{shown}"


def compact(value: float | None, places: int = 3) -> str:
    """Fixed decimals, or two significant digits where these would show nothing; a dash for nothing."""
    if value is None or value == 0 or abs(value) >= 10**-places:
        return number(value, places)
    return f"{value:.1e}"


def shortened(text: str, width: int | None, most: int = 110) -> str:
    """Text on one line, cut after `most` characters on a screen; whole in a pipe."""
    line = first_line(text)
    return (
        line if width is None or len(line) <= most else f"{line[: most - 1].rstrip()}\N{HORIZONTAL ELLIPSIS}"
    )


def chance(value: float | None) -> str:
    """A p-value: three decimals, `<0.001` below; a dash for nothing."""
    if value is None:
        return NOTHING
    return "<0.001" if value < 0.001 else rounded(value, 3)


def percent(value: float | None, places: int = 0) -> str:
    """A share as `97 %`; a dash for nothing."""
    return NOTHING if value is None else f"{rounded(value * 100, places)} %"


def span(low: float | None, high: float | None, places: int = 3) -> str:
    """An interval as `[-0.010, 0.030]`; a dash for nothing."""
    return NOTHING if low is None or high is None else f"[{number(low, places)}, {number(high, places)}]"


def moment(at: datetime | None) -> str:
    """`2026-12-01 08:00`, UTC; a dash for nothing."""
    return NOTHING if at is None else at.astimezone(UTC).strftime("%Y-%m-%d %H:%M")


def lasting(seconds: float | None) -> str:
    """A span of time in its largest fitting unit: `45 s`, `12 min`, `5.5 h`, `12.3 d`."""
    if seconds is None:
        return NOTHING
    for size, unit, places in ((86400, "d", 1), (3600, "h", 1), (60, "min", 0)):
        if seconds >= size:
            return f"{rounded(seconds / size, places).removesuffix('.0')} {unit}"
    return f"{rounded(seconds, 0)} s"


def relative(at: datetime | None, now: datetime) -> str:
    """`2.0 h ago`, `in 4.0 h`; a dash for nothing."""
    if at is None:
        return NOTHING
    seconds = (now - at).total_seconds()
    if abs(seconds) < 60:
        return "now"
    return f"{lasting(seconds)} ago" if seconds > 0 else f"in {lasting(-seconds)}"


def schedule_words(schedule: str) -> str:
    """A schedule as read: seconds become a span."""
    return f"every {lasting(float(schedule))}" if schedule.isdigit() else schedule


def wide(width: int | None) -> bool:
    """Whether there is room for whole ids and all columns."""
    return width is None or width >= WIDE


def an_id(record_id: str | None, width: int | None) -> str:
    """The whole id where there is room, else its end, which every command takes as well."""
    if not record_id:
        return NOTHING
    return record_id if wide(width) else short(record_id)


def first_line(text: str) -> str:
    """Text on one line."""
    return " ".join(text.split())


def count(number_of: int, noun: str) -> str:
    """`1 session`, `2 sessions`, `3 entries`."""
    if number_of == 1:
        return f"1 {noun}"
    return f"{number_of} {noun[:-1]}ies" if noun.endswith("ry") else f"{number_of} {noun}s"


def titled(title: str, text: str) -> str:
    """Text under a title; nothing when there is no text."""
    return f"{title}\n{text}" if text else ""
