"""What one call of the engine did, step by step."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Step:
    """One executed step; `answer` is pass, fail, not_enough_data, error or done."""

    what: str
    subject: str
    answer: str
    why: str


@dataclass(slots=True)
class Report:
    """Steps in order of execution."""

    steps: list[Step] = field(default_factory=list)

    def add(self, what: str, subject: str, answer: str, why: str) -> None:
        """Note one step."""
        self.steps.append(Step(what, subject, answer, why))
