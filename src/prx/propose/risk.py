"""How risky a change is, by one formula."""

from prx.domain.changes import (
    AddExample,
    AddLine,
    Change,
    DeleteLine,
    MemoryArchive,
    MemoryPatch,
    PromptPatch,
    ReplaceAll,
    ReplaceLine,
    StrategyPatch,
)
from prx.domain.editlimits import text_size

_LAYER = {MemoryPatch: 0.10, PromptPatch: 0.25, StrategyPatch: 0.40}
_TOUCHED = 0.30
_REMOVES = 0.10
_BY_MODEL = 0.10
_STEP = 0.15


def risk_of(change: Change, *, before: str = "", entries: int = 0, by_model: bool = False) -> float:
    """Risk in 0..1 = layer + 0.30 touched + 0.10 if something is removed + 0.10 if a model wrote it.

    layer: memory 0.10, prompt 0.25, strategy 0.40. touched, 0..1: share of the prompt's words that are
    new or gone (`before` is its text); relative step over 0.15 of a number, 1 for a name; share of the
    memory's `entries` that are added or archived (1 when their number is unknown).
    """
    touched, removes = _touched(change, before, entries)
    return round(
        min(1.0, _LAYER[type(change)] + _TOUCHED * touched + _REMOVES * removes + _BY_MODEL * by_model), 4
    )


def _touched(change: Change, before: str, entries: int) -> tuple[float, bool]:
    if isinstance(change, StrategyPatch):
        if isinstance(change.new, str) or isinstance(change.old, str) or not change.old:
            return 1.0, False
        return min(1.0, abs(change.new - change.old) / abs(change.old) / _STEP), False
    if isinstance(change, MemoryPatch):
        share = min(1.0, len(change.ops) / entries) if entries else 1.0
        return share, any(isinstance(op, MemoryArchive) for op in change.ops)
    moved, removes = 0.0, False
    for op in change.ops:
        if isinstance(op, ReplaceAll):
            return 1.0, True
        if isinstance(op, AddLine):
            moved += text_size(op.text)
        elif isinstance(op, AddExample):
            moved += text_size(op.user) + text_size(op.answer)
        elif isinstance(op, ReplaceLine):
            kept = op.new.startswith(op.old.rstrip(" .)"))
            moved += abs(text_size(op.new) - text_size(op.old)) if kept else text_size(op.new)
            removes = removes or not kept
        elif isinstance(op, DeleteLine):
            moved, removes = moved + text_size(op.old), True
    return min(1.0, moved / max(1.0, text_size(before))), removes
