"""How one configuration key is declared: default, meaning, and what values it takes."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from prx.settings.schedule import check_schedule

T = TypeVar("T")


class Check(Protocol):
    """What a value must be, beyond its type."""

    @property
    def allowed(self) -> str:
        """The accepted values in words, printed in errors and in the reference page."""
        ...

    def accepts(self, value: Any) -> bool:
        """Whether the value, already of the right type, is accepted."""
        ...


@dataclass(frozen=True, slots=True)
class Between:
    """A number from `low` to `high`; an open end leaves the bound itself out."""

    low: float
    high: float = math.inf
    open_low: bool = False
    open_high: bool = False

    @property
    def allowed(self) -> str:
        """The range in words."""
        if math.isinf(self.high):
            return f"above {self.low:g}" if self.open_low else f"of {self.low:g} or more"
        if not self.open_low and not self.open_high:
            return f"from {self.low:g} to {self.high:g}"
        end = f"below {self.high:g}" if self.open_high else f"up to {self.high:g}"
        return f"{f'above {self.low:g}' if self.open_low else f'of {self.low:g} or more'} and {end}"

    def accepts(self, value: Any) -> bool:
        """Whether the number lies in the range."""
        if not math.isfinite(value):
            return False
        above = value > self.low if self.open_low else value >= self.low
        below = value < self.high if self.open_high else value <= self.high
        return bool(above and below)


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of a few words."""

    words: tuple[str, ...]

    @property
    def allowed(self) -> str:
        """The words."""
        return ", ".join(f'"{word}"' for word in self.words)

    def accepts(self, value: Any) -> bool:
        """Whether the value is one of the words."""
        return value in self.words


@dataclass(frozen=True, slots=True)
class WordOr:
    """A word, or a number that another check accepts."""

    word: str
    number: Between

    @property
    def allowed(self) -> str:
        """Both forms in words."""
        return f'"{self.word}", or a number {self.number.allowed}'

    def accepts(self, value: Any) -> bool:
        """Whether it is the word or an accepted number."""
        return value == self.word if isinstance(value, str) else self.number.accepts(value)


@dataclass(frozen=True, slots=True)
class Text:
    """A text that `test` accepts."""

    allowed: str
    test: Callable[[str], bool]

    def accepts(self, value: Any) -> bool:
        """Whether the text passes."""
        return self.test(value)


def _is_url(text: str) -> bool:
    return not text or (text.startswith(("http://", "https://")) and len(text.split("://", 1)[1]) > 0)


def _is_schedule(text: str) -> bool:
    return check_schedule(text) is None


def _is_spending(text: str) -> bool:
    family, _, parameter = text.partition(":")
    if family in ("obf", "pocock"):
        return not parameter and ":" not in text
    try:
        value = float(parameter)
    except ValueError:
        return False
    return (family == "hsd" and abs(value) <= 50) or (family == "power" and 0 < value <= 50)


def _is_postgres(text: str) -> bool:
    return not text or text.startswith(("postgresql://", "postgres://"))


POSTGRES = Text("an address that begins with postgresql://, or empty", _is_postgres)
SIGNING_KEY = Text("a text of 16 characters or more, or empty", lambda text: not text or len(text) >= 16)
URL = Text("a URL that begins with http:// or https://, or empty", _is_url)
SCHEDULE = Text(
    '"after_session", "hourly", "daily", "weekly", "monthly", a cron text such as "0 3 * * *", '
    "or seconds from 60",
    _is_schedule,
)
SPENDING = Text(
    '"hsd:GAMMA" such as "hsd:-4", "obf", "pocock", or "power:RHO" such as "power:2"', _is_spending
)
NOT_EMPTY = Text("a text that is not empty", lambda text: bool(text.strip()))
SHARE = Between(0, 1)
OPEN_SHARE = Between(0, 1, open_low=True, open_high=True)
RAMP = Between(0, 1, open_low=True)
HOURS = Between(0, 87600, open_low=True)
HOURS_OR_ZERO = Between(0, 87600)
POSITIVE = Between(0, open_low=True)
COUNT = Between(1)
COUNT_OR_ZERO = Between(0)


def key(
    default: T,
    doc: str,
    check: Check | None = None,
    *,
    alias: str = "",
    secret: bool = False,
    idle: bool = False,
    required: bool = False,
) -> T:
    """Declare a key of a section: what it is when absent, what it means, what it accepts.

    `alias` is a second spelling; a `secret` is never printed or hashed, and may be missing in the
    environment (the model role then counts as not configured) unless it is `required`. An `idle` key is of
    the source documents but nothing in this version acts on it yet: setting it gives a note, and the
    reference says so.
    """
    metadata = {
        "doc": doc,
        "check": check,
        "alias": alias,
        "secret": secret,
        "idle": idle,
        "required": required,
    }
    made: T = field(default=default, repr=not secret, metadata=metadata)
    return made
