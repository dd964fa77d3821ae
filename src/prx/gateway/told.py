"""The value of a feedback signal as it came over HTTP."""

import math

from prx.domain.errors import InvalidInput
from prx.domain.records import FeedbackName

_WORDS = {"up": 1.0, "down": 0.0, "yes": 1.0, "no": 0.0, "true": 1.0, "false": 0.0}
_KNOWN = frozenset(name.value for name in FeedbackName)
_LONGEST = 4096


def feedback_value(name: str, value: float | bool | str) -> float | str:
    """The value to record: 0..1 for the names that fitness reads, also told as up and down, yes and no.

    Raises: InvalidInput.
    """
    if isinstance(value, str) and name not in _KNOWN:
        if len(value) > _LONGEST:
            raise InvalidInput(f"a text value has at most {_LONGEST} characters")
        return value
    if isinstance(value, str):
        word = _WORDS.get(value.strip().lower())
        if word is None:
            raise InvalidInput(f"{name} takes a number from 0 to 1, or up and down")
        return word
    number = float(value)
    if not math.isfinite(number) or (name in _KNOWN and not 0.0 <= number <= 1.0):
        raise InvalidInput(f"{name} takes a finite number{' from 0 to 1' * (name in _KNOWN)}")
    return number
