"""tau-bench: runs with a reward (airline), and dialogs shown as text (retail)."""

import re
from collections.abc import Iterator
from typing import Any

from prx.domain.records import FeedbackName, Record
from prx.ingest.drafting import Call, Draft, Signal, Source, draft_records, turn_fields
from prx.ingest.plain import Misfit, dict_at, list_at, name_of, share_of
from prx.ingest.transcript import split_chat

_SPEAKER = re.compile(r"^(system|user|assistant|tool): ?", re.MULTILINE)
_NO_TEXT = "None"


def fits_run(value: Any) -> bool:
    """True for a run: task, reward, list of messages."""
    return isinstance(value, dict) and isinstance(value.get("traj"), list) and "reward" in value


def read_run(value: Any, source: Source) -> Iterator[Record]:
    """One run as one session: trials of a task are sessions of their own, the reward is the outcome."""
    messages = list_at(value, "traj")
    reward = share_of(value.get("reward"))
    if not messages:
        raise Misfit("the run has no messages in `traj`")
    if reward is None:
        raise Misfit(f"the reward {value.get('reward')!r} is no number in 0..1")
    task, trial = name_of(value.get("task_id")), name_of(value.get("trial"))
    calls = [Call(turn_fields(turn)) for turn in split_chat(messages)]
    yield from draft_records(
        Draft(
            session_id=source.session_id(task, trial, messages),
            calls=calls,
            signals=[Signal(FeedbackName.TASK_OUTCOME, reward)],
            user=name_of(dict_at(dict_at(value, "info"), "task").get("user_id")),
            ref=f"tau-bench task {task} trial {trial}",
        ),
        source,
    )


def fits_dialog(value: Any) -> bool:
    """True for a dialog shown as text."""
    return isinstance(value, dict) and isinstance(value.get("messages_display"), str)


def read_dialog(value: Any, source: Source) -> Iterator[Record]:
    """One dialog as one session; tools have no names there, and no outcome is told."""
    text: str = value["messages_display"]
    marks = list(_SPEAKER.finditer(text))
    if not marks or text[: marks[0].start()].strip():
        raise Misfit("`messages_display` does not begin with a speaker such as `user: `")
    ends = [mark.start() for mark in marks[1:]] + [len(text)]
    messages = [
        _message(mark[1], text[mark.end() : end].removesuffix("\n"))
        for mark, end in zip(marks, ends, strict=True)
    ]
    calls = [Call(turn_fields(turn)) for turn in split_chat(messages)]
    yield from draft_records(Draft(session_id=source.session_id(text), calls=calls), source)


def _message(role: str, content: str) -> dict[str, Any]:
    return {"role": role, "content": None if role == "assistant" and content == _NO_TEXT else content}
