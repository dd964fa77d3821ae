"""What a trace tells about a request: what was asked, and what the right answer was."""

from collections.abc import Sequence

from prx.domain.plaintext import folded
from prx.domain.records import Interaction, Trace

ANSWER_NAMES = ("correction", "expected", "answer", "label", "correct_label", "expected_answer")
MAX_REQUEST = 4000
MAX_ANSWER = 200
_NUMBER_WORDS = frozenset({"up", "down", "yes", "no", "true", "false"})


def request_text(calls: Sequence[Interaction]) -> str:
    """What the user asked first: the last user message of the first call that has one, cut at 4000."""
    for call in calls:
        for message in reversed(call.messages):
            if message.role == "user":
                return message.content[:MAX_REQUEST]
    return ""


def told_answer(trace: Trace, names: Sequence[str] = ANSWER_NAMES) -> str | None:
    """The right answer as a person told it: the latest feedback of one of `names` whose value is a text."""
    for item in sorted(trace.feedback, key=lambda f: f.at, reverse=True):
        if item.name in names and isinstance(item.value, str) and _is_text(item.value):
            return item.value.strip()[:MAX_ANSWER]
    return None


def same_text(a: str, b: str) -> bool:
    """Equal but for case, spaces, unseen characters and an end mark."""
    return folded(a).strip(" .!。！") == folded(b).strip(" .!。！")


def _is_text(value: str) -> bool:
    word = value.strip().lower()
    try:
        float(word)
    except ValueError:
        return bool(word) and word not in _NUMBER_WORDS
    return False
