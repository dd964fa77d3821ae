"""Versions of an agent, what each holds, and what lies between two of them."""

from dataclasses import dataclass
from typing import Any

from prx.domain.errors import NotFound
from prx.domain.layers import Layer
from prx.domain.versions import MemoryState, Part, PromptSet, Strategy, Version
from prx.ledger.port import View
from prx.views.fullform import full
from prx.views.identify import identify
from prx.views.proposals import text_diff


@dataclass(frozen=True, slots=True)
class VersionRow:
    """One version; `current` when the agent serves it."""

    version: Version
    current: bool


def versions(view: View, agent: str) -> tuple[VersionRow, ...]:
    """All versions of the agent, oldest first."""
    pointer = view.pointer(agent)
    served = pointer.label if pointer else None
    return tuple(VersionRow(one, one.label == served) for one in view.find(Version, agent=agent))


def version_named(view: View, agent: str, name: str) -> Version:
    """A version by label (`v1.2`), snapshot id, or an end of one. Raises: NotFound, InvalidInput."""
    if name.strip().lower().startswith("v"):
        return view.version(agent, name.strip().lower())
    return identify(view, Version, name)


@dataclass(frozen=True, slots=True)
class PartView:
    """One layer's part of a version; `content` None when it was erased."""

    layer: Layer
    part_hash: str
    content: Part | None


def parts(view: View, version: Version) -> tuple[PartView, ...]:
    """The three parts that a version names."""
    return tuple(PartView(layer, h := version.manifest.part(layer), _part(view, h)) for layer in Layer)


@dataclass(frozen=True, slots=True)
class LayerDiff:
    """What differs in one layer, as lines of a diff."""

    layer: Layer
    lines: tuple[str, ...]


def diff(view: View, left: Version, right: Version) -> tuple[LayerDiff, ...]:
    """Layers in which the two versions differ, left to right."""
    changed = [one for one in Layer if left.manifest.part(one) != right.manifest.part(one)]
    return tuple(
        LayerDiff(
            layer,
            _lines(
                _part(view, left.manifest.part(layer)),
                _part(view, right.manifest.part(layer)),
                (left.label, right.label),
            ),
        )
        for layer in changed
    )


def _part(view: View, part_hash: str) -> Part | None:
    try:
        return view.part(part_hash)
    except NotFound:
        return None


def _lines(left: Part | None, right: Part | None, labels: tuple[str, str]) -> tuple[str, ...]:
    if left is None or right is None:
        return ("the content of one side was erased; only its hash is kept",)
    if isinstance(left, PromptSet) and isinstance(right, PromptSet):
        names = sorted({*left.texts, *right.texts})
        return tuple(
            line
            for name in names
            for line in text_diff(
                left.texts.get(name, ""),
                right.texts.get(name, ""),
                f"{name} {labels[0]}",
                f"{name} {labels[1]}",
            )
        )
    before, after = flat_settings(left), flat_settings(right)
    return tuple(
        line
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
        for line in (
            *((f"-{name} = {before[name]}",) if name in before else ()),
            *((f"+{name} = {after[name]}",) if name in after else ()),
        )
    )


def flat_settings(part: Part) -> dict[str, Any]:
    """Memory operations or strategy parameters, each under one dotted name."""
    if isinstance(part, MemoryState):
        return {f"operation {number}": name for number, name in enumerate(part.operations, 1)}
    flat: dict[str, Any] = {}
    if isinstance(part, Strategy):
        for name, value in full(part).items():
            inner = value if isinstance(value, dict) else None
            flat |= {f"{name}.{key}": v for key, v in inner.items()} if inner is not None else {name: value}
    return flat
