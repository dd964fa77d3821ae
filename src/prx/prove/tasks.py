"""Recorded inputs on which a candidate can be tried, and what is known of the right answer."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from prx.domain.records import Feedback, FeedbackName, Interaction, Message, Terminal, Trace
from prx.domain.told import ANSWER_NAMES
from prx.prove.toolbook import ToolBook


@dataclass(frozen=True, slots=True)
class Task:
    """One recorded model call with a text answer.

    `success`: what feedback says of it, None when nothing does. `expected`: the right answer if told.
    """

    interaction: Interaction
    tools: ToolBook
    expected: str | None = None
    success: bool | None = None

    @property
    def task_id(self) -> str:
        """Record id of the interaction."""
        return self.interaction.record_id

    @property
    def recorded(self) -> str:
        """The answer that production gave."""
        return self.interaction.response or ""


def tasks_from(traces: Iterable[Trace]) -> Iterator[Task]:
    """Every completed call of `traces` that ended in a text, in the order given."""
    for trace in traces:
        book: ToolBook | None = None
        for interaction in trace.interactions:
            if interaction.terminal is Terminal.COMPLETED and (interaction.response or "").strip():
                book = book or ToolBook.of(trace)
                yield Task(
                    interaction, book, expected_answer(trace, interaction), succeeded(trace, interaction)
                )


def expected_answer(trace: Trace, interaction: Interaction) -> str | None:
    """The right answer as told: the latest feedback for this call, else `extra["expected"]`, else None.

    Feedback for the session counts for its last call only.
    """
    told = [f for f in _about(trace, interaction) if f.name in ANSWER_NAMES and isinstance(f.value, str)]
    if told:
        return str(max(told, key=lambda f: (f.at, f.record_id)).value)
    extra = interaction.extra.get("expected")
    return extra if isinstance(extra, str) else None


def succeeded(trace: Trace, interaction: Interaction) -> bool | None:
    """Whether feedback calls the answer good: task outcome, then acceptance, correction, thumb."""
    latest: dict[str, float] = {}
    for feedback in sorted(_about(trace, interaction), key=lambda f: (f.at, f.record_id)):
        if isinstance(feedback.value, int | float):
            latest[feedback.name] = float(feedback.value)
    for name, sign in _OUTCOMES:
        if name in latest:
            return (latest[name] >= 0.5) == sign
    return None


def conversation(messages: Iterable[Message]) -> str:
    """What a judge is shown of a request: every message but the system's, which holds the prompt itself."""
    shown = [m for m in messages if m.role not in {"system", "developer"}]
    if len(shown) == 1:
        return shown[0].content
    return "\n".join(f"[{m.role}] {m.content}" for m in shown)


_OUTCOMES = (
    (FeedbackName.TASK_OUTCOME, True),
    (FeedbackName.ACCEPTED, True),
    (FeedbackName.CORRECTION, False),
    (FeedbackName.THUMB, True),
)


def _about(trace: Trace, interaction: Interaction) -> Iterator[Feedback]:
    last = trace.interactions[-1] if trace.interactions else None
    for feedback in trace.feedback:
        target, kind = feedback.target, feedback.target_kind
        by_ref = kind == "ref" and interaction.ref is not None and target == interaction.ref
        of_session = kind == "session" or (kind == "ref" and target == trace.start.ref)
        whole = of_session and last is not None and interaction.record_id == last.record_id
        if by_ref or whole or (kind == "interaction" and target == interaction.record_id):
            yield feedback
