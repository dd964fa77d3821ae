"""Promotion: one transaction that composes the current version with a treated part."""

from typing import Any

from prx.domain.errors import Conflict
from prx.domain.events import Event, EventName
from prx.domain.layers import Layer
from prx.domain.proposals import Proposal, ProposalState
from prx.domain.versions import (
    Manifest,
    MemoryState,
    Part,
    PromptSet,
    Strategy,
    Version,
    VersionSource,
    next_label,
)
from prx.ledger.port import Transaction, View
from prx.release.applied import current
from prx.release.decisions import amend
from prx.release.evidence import require_proofs


def initial_version(
    tx: Transaction,
    agent: str,
    *,
    prompts: PromptSet,
    source: VersionSource,
    note: str,
    own: dict[str, str] | None = None,
) -> Version:
    """Create v1.0 and serve it."""
    manifest = Manifest(
        prompt=tx.put_part(prompts), memory=tx.put_part(MemoryState()), strategy=tx.put_part(Strategy())
    )
    version = _version(
        tx, agent, manifest, parents=(), source=source, layer=None, proposal_id=None, note=note, own=own
    )
    tx.add_version(version)
    tx.point(agent, version.label, expected=None)
    return version


def new_version(
    tx: Transaction,
    agent: str,
    layer: Layer,
    part: Part | str,
    *,
    source: VersionSource,
    note: str,
    proposal_id: str | None = None,
    also_from: tuple[str, ...] = (),
    baseline: dict[str, Any] | None = None,
    own: dict[str, str] | None = None,
) -> Version:
    """Append a version that is the current one with another part for `layer`, and serve it.

    `own`: the app's own texts that its prompts were made from, where they are not those of the current one.
    """
    base = current(tx, agent)
    pointer = tx.pointer(agent)
    part_hash = part if isinstance(part, str) else tx.put_part(part)
    version = _version(
        tx,
        agent,
        base.manifest.with_part(layer, part_hash),
        parents=(base.label, *also_from),
        source=source,
        layer=layer,
        proposal_id=proposal_id,
        note=note,
        baseline=baseline or {},
        own=base.own if own is None else own,
    )
    for one in Layer:
        tx.part(version.manifest.part(one))  # a damaged or erased part is refused before it serves
    tx.add_version(version)
    tx.point(agent, version.label, expected=pointer.revision if pointer else None)
    return version


def promote(
    tx: Transaction, proposal: Proposal, *, why: str, evidence: str, baseline: dict[str, Any]
) -> tuple[Proposal, Version]:
    """Serve the proposal's treated part to everyone and start its watch against `baseline`.

    Raises: Conflict when a proof is missing, or when the layer's part is no longer the one that the proposal
    was proven on; nothing is written then.
    """
    require_proofs(proposal)
    base = current(tx, proposal.agent)
    found = base.manifest.part(proposal.layer)
    if found != proposal.base:
        raise Conflict(
            f"the {proposal.layer.label} of agent {proposal.agent!r} changed while "
            f"proposal {proposal.proposal_id} was being proven; nothing was promoted, "
            "propose it again on the current version"
        )
    version = new_version(
        tx,
        proposal.agent,
        proposal.layer,
        proposal.treated,
        source=VersionSource.ENGINE,
        note=proposal.description,
        proposal_id=proposal.proposal_id,
        baseline=baseline,
    )
    moved = tx.move(proposal, ProposalState.WATCHING, why=why, version=version.label)
    amend(
        tx,
        proposal.decision_id,
        f"promoted as {version.label}: {why}",
        executed=True,
        evidence=evidence,
        promoted_at=tx.now,
    )
    tx.emit(
        Event(
            event_id=tx.ids.new(tx.now),
            at=tx.now,
            agent=proposal.agent,
            name=EventName.APPLIED,
            summary=f"{version.label} serves: {proposal.description}",
            subject=proposal.proposal_id,
            layer=proposal.layer,
            details={"version": version.label, "why": why},
        )
    )
    return moved, version


def _version(
    tx: Transaction,
    agent: str,
    manifest: Manifest,
    *,
    parents: tuple[str, ...],
    source: VersionSource,
    layer: Layer | None,
    proposal_id: str | None,
    note: str,
    baseline: dict[str, Any] | None = None,
    own: dict[str, str] | None = None,
) -> Version:
    return Version(
        snapshot_id=tx.ids.snapshot(tx.now),
        agent=agent,
        label=next_label(_labels(tx, agent)),
        created_at=tx.now,
        manifest=manifest,
        parents=parents,
        source=source,
        layer=layer,
        proposal_id=proposal_id,
        note=note,
        baseline=baseline or {},
        own=own or {},
    )


def _labels(view: View, agent: str) -> list[str]:
    # numbers rise with every version, so the newest has the highest
    return [version.label for version in view.find(Version, agent=agent, newest_first=True, limit=1)]
