"""What a proof is given from outside: a way to tell whether an answer is right."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Truth:
    """What is known of the right answer; `labels` are all labels that occur among the tasks."""

    expected: str | None
    labels: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Unscored:
    """No score could be given, and why; never counted as 0."""

    why: str


class Checker(Protocol):
    """Tells right from wrong without a model."""

    @property
    def name(self) -> str:
        """Name as in `judge = "checker:NAME"`."""
        ...

    def check(self, answer: str, truth: Truth) -> float | Unscored:
        """1.0 when `answer` is right, 0.0 when wrong; Unscored when this task cannot be checked."""
        ...
