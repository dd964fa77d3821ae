"""The chain of versions that is in force: from the served version back to the first."""

from itertools import pairwise

from prx.domain.errors import InvalidInput
from prx.domain.layers import Layer
from prx.domain.versions import Version, VersionSource
from prx.ledger.port import View


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
    chain = [version]
    while chain[-1].parents:
        last = chain[-1]
        restored = last.source is VersionSource.ROLLBACK and last.layer is layer and len(last.parents) > 1
        chain.append(view.version(version.agent, last.parents[1 if layer and restored else 0]))
    return tuple(chain)


def last_change(view: View, version: Version, layer: Layer | None) -> tuple[Version, Layer | None]:
    """(the version to go back to, the layer when only that may move) to undo the newest applied change.

    Raises: InvalidInput when nothing that was changed is still in force.
    """
    if layer is None and version.source is not VersionSource.ROLLBACK and version.parents:
        return view.version(version.agent, version.parents[0]), None
    for newer, older in pairwise(lineage(view, version, layer)):
        if newer.source is VersionSource.ROLLBACK:
            continue
        for changed in (layer,) if layer else changed_layers(newer, older):
            part = newer.manifest.part(changed)
            if part == version.manifest.part(changed) and part != older.manifest.part(changed):
                return older, changed
    scope = f"the {layer.label} of " if layer else ""
    raise InvalidInput(f"nothing to roll back: no change of {scope}agent {version.agent!r} is in force")


def changed_layers(left: Version, right: Version) -> tuple[Layer, ...]:
    """Layers whose parts differ between two versions."""
    return tuple(layer for layer in Layer if left.manifest.part(layer) != right.manifest.part(layer))
