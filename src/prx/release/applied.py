"""The chain of versions that is in force: from the served version back to the first."""

from collections.abc import Iterator
from itertools import pairwise

from prx.domain.errors import InvalidInput, NotFound
from prx.domain.layers import Layer
from prx.domain.versions import PromptSet, Version, VersionSource, VersionStatus, parse_label
from prx.ledger.port import View

NO_CHANGE = frozenset({VersionSource.ROLLBACK, VersionSource.ERASURE})
"""Sources of versions that are nobody's change, so that there is nothing to undo or to blame in them."""


def current(view: View, agent: str) -> Version:
    """The version that the agent serves. Raises: InvalidInput before the first one."""
    pointer = view.pointer(agent)
    if pointer is None:
        raise InvalidInput(
            f"agent {agent!r} has no version yet; it gets v1.0 when its first prompt is recorded or proposed"
        )
    return view.version(agent, pointer.label)


def lineage(view: View, version: Version, layer: Layer | None = None) -> tuple[Version, ...]:
    """`version` and what it was made from, newest first.

    With a `layer`, a selective rollback of that layer counts as the version that it restored, so that
    undone changes are not met again.
    """
    return tuple(back_from(view, version, layer))


def back_from(view: View, version: Version, layer: Layer | None = None) -> Iterator[Version]:
    """The versions of `lineage`, each read when it is asked for: a history may be long."""
    last = version
    yield last
    while last.parents:
        restored = last.source is VersionSource.ROLLBACK and last.layer is layer and len(last.parents) > 1
        last = view.version(version.agent, last.parents[1 if layer and restored else 0])
        yield last


def changes_in_force(view: View, version: Version) -> tuple[Version, ...]:
    """The changes that `version` still serves, newest first: undone ones and those whose text the app has
    replaced since by one of its own are left out, and so is the first version."""
    found: dict[str, Version] = {}
    for layer in Layer:
        replaced: frozenset[str] = frozenset()
        for newer, older in pairwise(lineage(view, version, layer)):
            if newer.source in NO_CHANGE or newer.layer is not layer:
                continue
            touched = _touched(view, newer, older, layer)
            if not touched <= replaced:
                found[newer.label] = newer
            if newer.source in (VersionSource.OPERATOR, VersionSource.CLIENT):
                replaced |= touched
    return tuple(sorted(found.values(), key=lambda one: parse_label(one.label), reverse=True))


def _touched(view: View, newer: Version, older: Version, layer: Layer) -> frozenset[str]:
    """What a change is about: names of prompts, else the layer as a whole."""
    try:
        after, before = view.part(newer.manifest.part(layer)), view.part(older.manifest.part(layer))
    except NotFound:  # one of them was erased
        return frozenset({layer.value})
    if not isinstance(after, PromptSet) or not isinstance(before, PromptSet):
        return frozenset({layer.value})
    names = after.texts.keys() | before.texts.keys()
    return frozenset(name for name in names if after.texts.get(name) != before.texts.get(name))


def last_change(view: View, version: Version, layer: Layer | None) -> tuple[Version, Layer | None]:
    """(the version to go back to, the layer when only that may move) to undo the newest applied change.

    Raises: InvalidInput when nothing that was changed is still in force.
    """
    if layer is None and version.source not in NO_CHANGE and version.parents:
        return view.version(version.agent, version.parents[0]), None
    force = version.manifest
    for newer, older in pairwise(back_from(view, version, layer)):
        if newer.source is VersionSource.ERASURE and newer.layer:
            if newer.manifest.part(newer.layer) == force.part(newer.layer):
                force = force.with_part(newer.layer, older.manifest.part(newer.layer))
            continue
        if newer.source is VersionSource.ROLLBACK:
            continue
        for changed in (layer,) if layer else changed_layers(newer, older):
            part = newer.manifest.part(changed)
            if part == force.part(changed) and part != older.manifest.part(changed):
                return older, changed
    scope = f"the {layer.label} of " if layer else ""
    raise InvalidInput(f"nothing to roll back: no change of {scope}agent {version.agent!r} is in force")


def changed_layers(left: Version, right: Version) -> tuple[Layer, ...]:
    """Layers whose parts differ between two versions."""
    return tuple(layer for layer in Layer if left.manifest.part(layer) != right.manifest.part(layer))


def restorable(view: View, version: Version) -> Version | None:
    """`version`, or the newest that it was made from which is not sealed; None when all are."""
    return next((one for one in back_from(view, version) if one.status is not VersionStatus.SEALED), None)
