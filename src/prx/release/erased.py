"""What an erasure looks for in the ledger, and a record with it taken out."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from prx.domain.changes import MemoryAdd
from prx.domain.memory import operations
from prx.domain.spans import Said
from prx.domain.versions import MemoryState, Part, PromptSet, Strategy

ERASED = "[erased]"
_NAMES = frozenset(
    {"agent", "layer", "state", "status", "kind", "verdict", "outcome", "detector", "fingerprint", "base"}
    | {"treated", "cycle_id", "label", "snapshot_id", "proposal_id", "decision_id", "experiment_id"}
    | {"finding_id", "incident_id", "event_id", "baseline_id", "accepted_id"}
)
"""Fields that name things, not people."""
_WORD = re.compile(r"[^\s\"'`(),;\[\]{}]+")


@dataclass(frozen=True, slots=True)
class Held:
    """What must go: spans of the subject's own, and the ids of what was recorded of it."""

    said: Said
    spans: frozenset[str]
    ids: frozenset[str] = field(default_factory=frozenset)

    def has(self, text: str) -> bool:
        """Whether the text holds any of it."""
        if text in self.ids or any(word.strip(".:") in self.ids for word in _WORD.findall(text)):
            return True
        return bool(self.spans & self.said.within(text))

    def in_part(self, part: Part) -> bool:
        """Whether a part holds any of it."""
        if isinstance(part, PromptSet):
            return any(map(self.has, part.texts.values()))
        return isinstance(part, MemoryState) and self.cleaned(part) != part

    def cleaned(self, part: Part) -> Part:
        """The part without it: lines of prompts, examples as a whole; memory operations with everything
        derived from them. A strategy holds typed parameters and stays."""
        if isinstance(part, PromptSet):
            return PromptSet(texts={name: self._clean_text(text) for name, text in part.texts.items()})
        return part if isinstance(part, Strategy) else self._clean_memory(part)

    def _clean_text(self, text: str) -> str:
        if not self.has(text):
            return text
        kept = [block for block in _blocks(text.splitlines(keepends=True)) if not self.has("".join(block))]
        return self._clean_seams([line for block in kept for line in block])

    def _clean_seams(self, lines: list[str]) -> str:
        """A span may run over the end of a line: the lines that share it go as well."""
        text = "".join(lines)
        if not self.has(text):
            return text
        size = 2
        while size <= len(lines):
            for start in range(len(lines) - size + 1):
                if self.has("".join(lines[start : start + size])):
                    return self._clean_seams(lines[:start] + lines[start + size :])
            size += 1
        return ""

    def _clean_memory(self, part: MemoryState) -> MemoryState:
        gone, kept = set(self.ids), list[str]()
        for text, op in zip(part.operations, operations(part), strict=True):
            derived = isinstance(op, MemoryAdd) and (gone & set(op.derived_from) or self.has(op.text))
            if derived or op.memory_id in gone:
                gone.add(op.memory_id)
            else:
                kept.append(text)
        return MemoryState(operations=tuple(kept))


def _blocks(lines: list[str]) -> Iterator[list[str]]:
    """Lines one by one, a worked example as one block."""
    block: list[str] = []
    for line in lines:
        if block and not (block[0].strip() == "Example:" and line.startswith(("User:", "Assistant:"))):
            yield block
            block = []
        block.append(line)
    if block:
        yield block


def strings(value: Any) -> Iterator[str]:
    """Every text of a record in plain form that may be somebody's."""
    yield from (text for text, _ in _walk(value))


def redacted(record: Any, held: Held) -> Any:
    """The record with every text that holds anything of it replaced; the same one where none does."""
    plain = msgspec.to_builtins(record)
    cleaned = _mapped(plain, lambda text: ERASED if held.has(text) else text)
    return record if cleaned == plain else msgspec.convert(cleaned, type(record))


def _walk(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        if name not in _NAMES and not value.startswith("sha256:"):
            yield value, name
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _walk(inner, str(key))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _walk(inner, name)


def _mapped(value: Any, change: Callable[[str], str], name: str = "") -> Any:
    if isinstance(value, str):
        return value if name in _NAMES or value.startswith("sha256:") else change(value)
    if isinstance(value, dict):
        return {key: _mapped(inner, change, str(key)) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_mapped(inner, change, name) for inner in value]
    return value
