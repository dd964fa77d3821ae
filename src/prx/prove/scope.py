"""Where a change may reach: an allowlist of paths per layer, with steps and ranges for numbers."""

import re
from dataclasses import dataclass

from prx.domain.answers import Failed
from prx.domain.changes import (
    AddLine,
    Change,
    MemoryAdd,
    MemoryPatch,
    PromptPatch,
    ReplaceLine,
    StrategyPatch,
)
from prx.domain.parameters import TABLES
from prx.domain.versions import PromptSet, Strategy
from prx.prove.applying import TOOL_ON, value_at
from prx.prove.rules import Bound, GateRules

_PATH = re.compile(r"[a-z_]{1,40}(?:\.[A-Za-z0-9_][A-Za-z0-9_:/.-]{0,80})?")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,120}")
# what judges, measures or restrains the engine is no part of any layer
_NEVER_WORDS = """
    judge gate gates breaker breakers metric metrics fitness log logs logging audit approval approvals
    security
    policy policies safety redaction record records experiment experiments budget watch shadow rollback
    evaluation rubric holdout golden test tests self_evolution prx settings config seed locale timezone clock
    permissions auth keys
"""
_NEVER = frozenset(_NEVER_WORDS.split())


def prompt_scope(part: PromptSet, change: PromptPatch, rules: GateRules) -> Failed | None:
    """Whether a prompt patch names one existing, unprotected prompt and one line per line edit."""
    if change.prompt in rules.protected_prompts or change.prompt.casefold().startswith("prx."):
        return Failed(f"prompt {change.prompt!r} is protected and never evolves", "protected")
    if change.prompt not in part.texts:
        return Failed(f"there is no prompt {change.prompt!r}; the name must match exactly", "unknown_key")
    if not change.ops:
        return Failed("the change holds no operation", "empty_change")
    for op in change.ops:
        text = op.text if isinstance(op, AddLine) else op.new if isinstance(op, ReplaceLine) else ""
        if len(text.splitlines()) > 1:
            return Failed("a line edit holds several lines; one operation changes one line", "several_lines")
    return None


@dataclass(frozen=True, slots=True)
class Reach:
    """What bounds a strategy change besides its present value.

    `approved`: the last strategy that a person approved, from which many small steps count together.
    `known_intents`: those that may get a default model of their own.
    """

    rules: GateRules
    approved: Strategy | None = None
    known_models: frozenset[str] = frozenset()
    known_intents: frozenset[str] = frozenset()
    by_person: bool = False


def strategy_scope(part: Strategy, change: StrategyPatch, reach: Reach) -> Failed | None:
    """Whether a strategy patch sets one allowed parameter within its range, step and drift."""
    path = change.path
    head, _, key = path.partition(".")
    if {word.casefold() for word in re.split(r"[^A-Za-z_]+", path)} & _NEVER:
        return Failed(f"{path!r} belongs to what restrains the engine and never evolves", "protected")
    if not _PATH.fullmatch(path) or ".." in path:
        return Failed(f"{path!r} is no parameter path", "unknown_key")
    if head in TABLES:
        return _table(part, change, key, reach)
    if path not in reach.rules.bounds:
        return Failed(f"{path!r} is not on the list of parameters that may evolve", "unknown_key")
    return _number(part, change, reach.rules.bounds[path], reach)


def memory_scope(change: MemoryPatch) -> Failed | None:
    """Whether memory operations name entries plainly and derived entries name their sources."""
    if not change.ops:
        return Failed("the change holds no operation", "empty_change")
    for op in change.ops:
        if not _NAME.fullmatch(op.memory_id) or ".." in op.memory_id:
            return Failed(f"{op.memory_id!r} is no memory id", "unknown_key")
        if isinstance(op, MemoryAdd) and not op.derived_from:
            return Failed(f"entry {op.memory_id} names no source that it is derived from", "no_lineage")
    return None


def change_kind_fits(part: object, change: Change) -> bool:
    """True when the change is written for the kind of part that it is applied to."""
    if isinstance(change, PromptPatch):
        return isinstance(part, PromptSet)
    return isinstance(part, Strategy) == isinstance(change, StrategyPatch)


def _table(part: Strategy, change: StrategyPatch, key: str, reach: Reach) -> Failed | None:
    head = change.path.partition(".")[0]
    if not key or "*" in key:
        return Failed(f"{change.path!r} names no single entry", "unknown_key")
    if head == "disabled_tools":
        if change.new == TOOL_ON and not reach.by_person:
            return Failed(f"{key} would be switched on; only a person widens the tool set", "wider_tools")
        return None
    opened = head == "default_models" and key in reach.known_intents
    if value_at(part, change.path) is None and not opened:
        return Failed(f"{change.path!r} does not exist; only existing entries may change", "unknown_key")
    if head == "default_models":
        if change.new not in reach.known_models:
            return Failed(f"model {change.new!r} is not among those in use", "unknown_model")
        return None
    return _number(part, change, reach.rules.bounds[head], reach)


def _number(part: Strategy, change: StrategyPatch, bound: Bound, reach: Reach) -> Failed | None:
    present, new = value_at(part, change.path), change.new
    if isinstance(new, str) or isinstance(present, str) or present is None:
        return Failed(f"{change.path} takes a number, not {new!r}", "wrong_type")
    if not bound.low <= new <= bound.high:
        return Failed(f"{change.path} may be {bound.low:g} to {bound.high:g}, not {new:g}", "out_of_range")
    if bound.whole and new != int(new):
        return Failed(f"{change.path} takes a whole number, not {new:g}", "wrong_type")
    if bound.person_raises and new > present and not reach.by_person:
        return Failed(f"{change.path} would rise to {new:g}; only a person raises it", "person_raises")
    if not _within(present, new, bound, 1):
        return Failed(f"{change.path} moves from {present:g} to {new:g} in one step", "step_too_large")
    anchor = present if reach.approved is None else value_at(reach.approved, change.path)
    if isinstance(anchor, int | float) and not _within(anchor, new, bound, reach.rules.drift_steps):
        return Failed(
            f"{change.path} would stand at {new:g}, more than {reach.rules.drift_steps} steps from the last "
            f"approved {anchor:g}; a person must approve the way so far",
            "drift",
        )
    return None


def _within(start: float, end: float, bound: Bound, steps: int) -> bool:
    slack = 1e-9
    if bound.relative:
        factor = bound.step**steps
        return bool(start / factor - slack <= end <= start * factor + slack)
    return abs(end - start) <= bound.step * steps + slack
