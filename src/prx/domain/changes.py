"""Typed changes: a proposal patches one part of one layer."""

import msgspec

from prx.domain.errors import InvalidInput
from prx.domain.layers import Layer


class AddLine(msgspec.Struct, frozen=True, tag="add_line"):
    """Append a line at the end of the prompt's evolvable text."""

    text: str


class ReplaceLine(msgspec.Struct, frozen=True, tag="replace_line"):
    """Replace the one line that equals `old`."""

    old: str
    new: str


class DeleteLine(msgspec.Struct, frozen=True, tag="delete_line"):
    """Remove the one line that equals `old`."""

    old: str


class AddExample(msgspec.Struct, frozen=True, tag="add_example"):
    """Append one worked example (user text and wanted answer) to the prompt."""

    user: str
    answer: str


class ReplaceAll(msgspec.Struct, frozen=True, tag="replace_all"):
    """Put a whole new text in place; only a person proposes this."""

    text: str


PromptOp = AddLine | ReplaceLine | DeleteLine | AddExample | ReplaceAll


class PromptPatch(msgspec.Struct, frozen=True, kw_only=True, tag="prompt_patch"):
    """Edits of one prompt (L2), applied in order."""

    prompt: str
    ops: tuple[PromptOp, ...]


class StrategyPatch(msgspec.Struct, frozen=True, kw_only=True, tag="strategy_patch"):
    """Set one typed parameter of the strategy (L3); `path` as in Strategy, such as `router.gamma`."""

    path: str
    old: float | str | None
    new: float | str


class MemoryAdd(msgspec.Struct, frozen=True, kw_only=True, tag="memory_add"):
    """Add a derived entry; `derived_from` names its sources."""

    memory_id: str
    text: str
    derived_from: tuple[str, ...] = ()


class MemoryArchive(msgspec.Struct, frozen=True, kw_only=True, tag="memory_archive"):
    """Take an entry out of recall; its content stays and the operation can be inverted."""

    memory_id: str
    why: str


MemoryOp = MemoryAdd | MemoryArchive


class MemoryPatch(msgspec.Struct, frozen=True, kw_only=True, tag="memory_patch"):
    """Operations on the memory (L1), one invertible unit."""

    ops: tuple[MemoryOp, ...]


Change = PromptPatch | StrategyPatch | MemoryPatch


def layer_of(change: Change) -> Layer:
    """The one layer that the change touches."""
    if isinstance(change, PromptPatch):
        return Layer.PROMPT
    return Layer.STRATEGY if isinstance(change, StrategyPatch) else Layer.MEMORY


def apply_prompt_ops(text: str, ops: tuple[PromptOp, ...]) -> str:
    """The prompt's text after `ops`. Raises: InvalidInput when a named line is not there exactly once."""
    for op in ops:
        text = _apply(text, op)
    return text


def _apply(text: str, op: PromptOp) -> str:
    if isinstance(op, ReplaceAll):
        return op.text
    if isinstance(op, AddLine):
        return f"{text.rstrip()}\n{op.text}\n"
    if isinstance(op, AddExample):
        return f"{text.rstrip()}\nExample:\nUser: {op.user}\nAssistant: {op.answer}\n"
    lines = text.splitlines()
    if lines.count(op.old) != 1:
        raise InvalidInput(
            f"the prompt holds the line {op.old!r} {lines.count(op.old)} times, "
            "the edit needs it exactly once; propose again on the current version"
        )
    index = lines.index(op.old)
    lines[index : index + 1] = [op.new] if isinstance(op, ReplaceLine) else []
    return "\n".join(lines) + "\n"
