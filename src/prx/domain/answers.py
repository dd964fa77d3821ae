"""The answers a measurement can give: pass, fail, not enough data, and a broken measurement."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Interval:
    """Closed interval in the unit of the quantity that it describes."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Passed:
    """The check ran and the subject meets it."""

    why: str


@dataclass(frozen=True, slots=True)
class Failed:
    """The check ran and the subject does not meet it; `code` is stable for scripts."""

    why: str
    code: str


@dataclass(frozen=True, slots=True)
class NotEnoughData:
    """The check could not decide yet; never promotes and never rolls back."""

    why: str


@dataclass(frozen=True, slots=True)
class Broken:
    """The measurement itself failed (judge down, check crashed); never promotes."""

    why: str


Answer = Passed | Failed | NotEnoughData | Broken
