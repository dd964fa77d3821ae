"""A change in one sentence, safe to print."""

from prx.domain.changes import (
    AddExample,
    AddLine,
    Change,
    DeleteLine,
    MemoryAdd,
    MemoryPatch,
    PromptOp,
    ReplaceLine,
    StrategyPatch,
)
from prx.domain.plaintext import quoted


def describe(change: Change) -> str:
    """What the change does, in at most a few hundred characters; texts are quoted."""
    if isinstance(change, StrategyPatch):
        old = "unset" if change.old is None else _value(change.old)
        return f"Set {quoted(change.path, 120)} from {old} to {_value(change.new)}"
    if isinstance(change, MemoryPatch):
        added = sum(isinstance(op, MemoryAdd) for op in change.ops)
        return f"Add {added} memory entries and archive {len(change.ops) - added}"
    listed = "; ".join(_operation(op) for op in change.ops)
    return f"Prompt '{quoted(change.prompt, 60)}': {listed}"


def _operation(op: PromptOp) -> str:
    if isinstance(op, AddLine):
        return f"add line '{quoted(op.text, 120)}'"
    if isinstance(op, ReplaceLine):
        return f"replace line '{quoted(op.old, 80)}' by '{quoted(op.new, 120)}'"
    if isinstance(op, DeleteLine):
        return f"delete line '{quoted(op.old, 120)}'"
    if isinstance(op, AddExample):
        return f"add example '{quoted(op.user, 80)}' with answer '{quoted(op.answer, 60)}'"
    return "replace the whole text"


def _value(value: float | str) -> str:
    return f"{value:g}" if isinstance(value, float | int) else f"'{quoted(value, 60)}'"
