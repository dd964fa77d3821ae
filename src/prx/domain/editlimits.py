"""How much one prompt edit may change; the proposer and the gate hold to the same numbers."""

from dataclasses import dataclass

from prx.domain.answers import Failed, Passed
from prx.domain.words import span_units


@dataclass(frozen=True, slots=True)
class EditLimits:
    """`growth` and `shrink`: share of the text's size; sizes in words (a CJK character counts half).

    `small_room`: words that may always be added, so that a prompt of a few lines can grow at all.
    `max_size`: absolute cap of the text after the edit. `max_line`: characters of one new line.
    """

    max_ops: int = 3
    growth: float = 0.15
    small_room: int = 24
    shrink: float = 0.25
    max_size: int = 1200
    max_line: int = 600


def text_size(text: str) -> float:
    """Size in words; a CJK character counts half."""
    return sum(weight for _, weight in span_units(text))


def check_size(before: str, after: str, ops: int, limits: EditLimits) -> Passed | Failed:
    """Whether an edit of `ops` operations from `before` to `after` stays within `limits`."""
    old, new = text_size(before), text_size(after)
    if ops > limits.max_ops:
        return Failed(f"{ops} operations, at most {limits.max_ops} in one edit", "too_many_ops")
    longest = max((len(line) for line in set(after.splitlines()) - set(before.splitlines())), default=0)
    if longest > limits.max_line:
        return Failed(f"a new line has {longest} characters, at most {limits.max_line}", "line_too_long")
    room = max(limits.growth * old, float(limits.small_room))
    if new > old + room:
        return Failed(
            f"the prompt grows from {old:g} to {new:g} words, at most {old + room:g}", "grows_too_much"
        )
    if new > max(old, float(limits.max_size)):
        return Failed(f"the prompt would have {new:g} words, at most {limits.max_size}", "too_long")
    if new < old * (1 - limits.shrink):
        least = old * (1 - limits.shrink)
        return Failed(
            f"the prompt shrinks from {old:g} to {new:g} words, at least {least:g}", "shrinks_too_much"
        )
    return Passed(f"{old:g} to {new:g} words with {ops} operations")
