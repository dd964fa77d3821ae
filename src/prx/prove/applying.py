"""The part of a layer after a change."""

import math

import msgspec

from prx.domain.changes import Change, MemoryPatch, PromptPatch, StrategyPatch, apply_prompt_ops
from prx.domain.codec import encode
from prx.domain.errors import InvalidInput
from prx.domain.versions import MemoryState, Part, PromptSet, Strategy

TOOL_ON, TOOL_OFF = "on", "off"
_PLAIN = ("automix_threshold", "explore")


def treated_part(part: Part, change: Change) -> Part:
    """`part` with `change` applied. Raises: InvalidInput when the change does not fit the part."""
    if isinstance(change, PromptPatch) and isinstance(part, PromptSet):
        if change.prompt not in part.texts:
            known = ", ".join(sorted(part.texts)) or "none"
            raise InvalidInput(f"no prompt is called {change.prompt!r}; known prompts: {known}")
        text = apply_prompt_ops(part.texts[change.prompt], change.ops)
        return PromptSet(texts={**part.texts, change.prompt: text})
    if isinstance(change, StrategyPatch) and isinstance(part, Strategy):
        return _strategy(part, change)
    if isinstance(change, MemoryPatch) and isinstance(part, MemoryState):
        return MemoryState(operations=part.operations + tuple(encode(op).decode() for op in change.ops))
    raise InvalidInput(f"a {type(change).__name__} cannot change a {type(part).__name__}")


def value_at(part: Strategy, path: str) -> float | str | None:
    """Present value of a strategy path, None for an absent key of a table.

    Paths: `router.NAME`, `automix_threshold`, `explore`, `concurrency.CHANNEL`, `timeouts.NAME`,
    `default_models.INTENT`, and `disabled_tools.TOOL` with the values `on` and `off`. Raises: InvalidInput.
    """
    head, _, key = path.partition(".")
    if head == "router" and key in part.router.__struct_fields__:
        return float(getattr(part.router, key))
    if path in _PLAIN:
        return float(getattr(part, path))
    tables: dict[str, dict[str, str] | dict[str, int] | dict[str, float]] = {
        "default_models": part.default_models,
        "concurrency": part.concurrency,
        "timeouts": part.timeouts,
    }
    if key and head in tables:
        return tables[head].get(key)
    if key and head == "disabled_tools":
        return TOOL_OFF if key in part.disabled_tools else TOOL_ON
    raise InvalidInput(f"the strategy has no parameter {path!r}")


def _strategy(part: Strategy, change: StrategyPatch) -> Strategy:
    present, new = value_at(part, change.path), change.new
    if present != change.old:
        raise InvalidInput(f"{change.path} is {present!r}, the change was written against {change.old!r}")
    head, _, key = change.path.partition(".")
    wants_text = head in {"default_models", "disabled_tools"}
    if isinstance(new, str) != wants_text or (not isinstance(new, str) and not math.isfinite(new)):
        kind = "text" if wants_text else "a finite number"
        raise InvalidInput(f"{change.path} takes {kind}, not {new!r}")
    if head == "router":
        return msgspec.structs.replace(part, router=msgspec.structs.replace(part.router, **{key: new}))
    if head == "disabled_tools":
        if new not in {TOOL_ON, TOOL_OFF}:
            raise InvalidInput(f"{change.path} takes {TOOL_ON} or {TOOL_OFF}, not {new!r}")
        others = set(part.disabled_tools) - {key}
        tools = others | {key} if new == TOOL_OFF else others
        return msgspec.structs.replace(part, disabled_tools=tuple(sorted(tools)))
    if head in _PLAIN:
        return msgspec.structs.replace(part, **{head: new})
    if head == "concurrency":
        if new != int(new):
            raise InvalidInput(f"{change.path} takes a whole number, not {new!r}")
        new = int(new)
    return msgspec.structs.replace(part, **{head: {**getattr(part, head), key: new}})
