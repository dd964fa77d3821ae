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
    """Steps in order of execution; `broken` names what raised an error instead of answering.
    `replaced`: a store was replaced while it was open; whoever holds it opens it anew."""

    steps: list[Step] = field(default_factory=list)
    broken: set[str] = field(default_factory=set)
    replaced: bool = False

    def add(self, what: str, subject: str, answer: str, why: str) -> None:
        """Note one step."""
        self.steps.append(Step(what, subject, answer, why))

    def extend(self, other: "Report") -> None:
        """Take in the steps of another report, after those here."""
        self.steps.extend(other.steps)
        self.broken |= other.broken
        self.replaced |= other.replaced

    def broke(self, what: str, subject: str, why: str) -> None:
        """Note one step that raised an error."""
        self.add(what, subject, "error", why)
        self.broken.add(f"{what} of {subject}")
