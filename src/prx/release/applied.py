"""The chain of versions that is in force: from the served version back to the first."""

from prx.domain.errors import InvalidInput
from prx.domain.layers import Layer
from prx.domain.versions import Version
from prx.ledger.port import View


def current(view: View, agent: str) -> Version:
    """The version that the agent serves. Raises: InvalidInput before the first one."""
    pointer = view.pointer(agent)
    if pointer is None:
        raise InvalidInput(
            f"agent {agent!r} has no version yet; it gets v1.0 when its first prompt is recorded or proposed"
        )
    return view.version(agent, pointer.label)


def lineage(view: View, version: Version) -> tuple[Version, ...]:
    """`version` and its first parents, newest first."""
    chain = [version]
    while chain[-1].parents:
        chain.append(view.version(version.agent, chain[-1].parents[0]))
    return tuple(chain)


def last_change(view: View, version: Version, layer: Layer | None) -> tuple[Version, Version]:
    """(the version that made the newest change of `layer`, the version before it).

    Raises: InvalidInput when nothing was ever changed.
    """
    chain = lineage(view, version)
    for newer, older in zip(chain, chain[1:], strict=False):
        if layer is None or newer.manifest.part(layer) != older.manifest.part(layer):
            return newer, older
    scope = f"the {layer.label} of " if layer else ""
    raise InvalidInput(
        f"nothing to roll back: {scope}agent {version.agent!r} still is as in {chain[-1].label}"
    )


def changed_layers(left: Version, right: Version) -> tuple[Layer, ...]:
    """Layers whose parts differ between two versions."""
    return tuple(layer for layer in Layer if left.manifest.part(layer) != right.manifest.part(layer))
