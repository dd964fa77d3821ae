"""Rollback in its five spellings; always one transaction, never an edited version."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile

import msgspec

from prx.domain.decisions import Decision, DecisionOutcome, Verdict
from prx.domain.errors import InvalidInput
from prx.domain.events import Event, EventName
from prx.domain.experiments import Experiment, ExperimentStatus
from prx.domain.ids import cycle_id
from prx.domain.layers import Layer
from prx.domain.proposals import Proposal, ProposalState
from prx.domain.versions import Version, VersionSource, VersionStatus, parse_label
from prx.ledger.port import Transaction, View
from prx.release.applied import (
    NO_CHANGE,
    back_from,
    changed_layers,
    current,
    last_change,
    restorable,
)
from prx.release.decisions import amend
from prx.release.promote import new_version
from prx.release.stop import cancel_experiment


@dataclass(frozen=True, slots=True)
class RollbackPlan:
    """What a rollback would do: serve `target` as a whole, or only its part of `layer`."""

    agent: str
    left: Version
    target: Version
    layer: Layer | None
    undone: tuple[Version, ...]

    @property
    def layers(self) -> tuple[Layer, ...]:
        """Layers that change for users."""
        return (self.layer,) if self.layer else changed_layers(self.left, self.target)

    def describe(self) -> str:
        """One sentence for a person who is about to agree."""
        what = (
            "; ".join(f"{version.label} ({version.note or 'no note'})" for version in self.undone)
            or "nothing"
        )
        parts = ", ".join(layer.label for layer in self.layers) or "no layer"
        if self.layer:
            return f"restore the {self.layer.label} of {self.target.label} in a new version; undoes {what}"
        return (
            f"serve {self.target.label} again instead of {self.left.label} (changes {parts}); undoes {what}"
        )


@dataclass(frozen=True, slots=True)
class RollbackResult:
    """What a rollback did; `restored` is the label now served. `repeated`: the operation was carried out
    before, and nothing was done now."""

    restored: str
    left: str
    layers: tuple[Layer, ...]
    version: Version
    cancelled_experiments: tuple[str, ...]
    repeated: bool = False


def plan_rollback(
    view: View,
    agent: str,
    *,
    target: str | None = None,
    layer: Layer | None = None,
    snapshot: str | None = None,
) -> RollbackPlan:
    """Work out what the given spelling means. Raises: NotFound, InvalidInput."""
    left = current(view, agent)
    if target and snapshot:
        raise InvalidInput("give a version or a snapshot, not both")
    if snapshot:
        named = view.get(Version, snapshot)
        wanted = view.version(named.agent, named.label)
        if wanted.agent != agent:
            raise InvalidInput(f"{snapshot} belongs to agent {wanted.agent!r}; use --agent {wanted.agent}")
    elif target:
        wanted = view.version(agent, target)
    else:
        wanted, layer = last_change(view, left, layer)
    if wanted.status is VersionStatus.SEALED:
        raise InvalidInput(_sealed(view, wanted))
    if layer and wanted.manifest.part(layer) == left.manifest.part(layer):
        raise InvalidInput(f"the {layer.label} is already as in {wanted.label}; nothing to roll back")
    if layer is None and wanted.label == left.label:
        raise InvalidInput(f"{wanted.label} is what agent {agent!r} serves already; nothing to roll back")
    for part_layer in (layer,) if layer else tuple(Layer):
        view.part(wanted.manifest.part(part_layer))
    return RollbackPlan(agent, left, wanted, layer, _undone(view, left, wanted, layer))


def _sealed(view: View, wanted: Version) -> str:
    newest = restorable(view, wanted)
    told = (
        f"the newest before it that can be restored is {newest.label}" if newest else "so are all before it"
    )
    return f"{wanted.label} is sealed: it held text that was erased, its content is gone for good; {told}"


def _undone(view: View, left: Version, wanted: Version, layer: Layer | None) -> tuple[Version, ...]:
    if layer is None:
        return _in_force(view, left, _left_behind(view, left, wanted))
    changes: list[Version] = []
    for newer, older in pairwise(back_from(view, left, layer)):
        if newer.label == wanted.label or newer.manifest.part(layer) == wanted.manifest.part(layer):
            break
        if newer.manifest.part(layer) != older.manifest.part(layer):
            changes.append(newer)
    return _in_force(view, left, changes)


def _in_force(view: View, left: Version, changes: Sequence[Version]) -> tuple[Version, ...]:
    """Those of the changes, newest first, that no rollback of their layer alone has undone already."""
    kept: list[Version] = []
    labels: dict[Layer, frozenset[str]] = {}
    end = parse_label(changes[-1].label) if changes else (0, 0)
    for change in changes:
        layer = change.layer
        if layer is not None and layer not in labels:
            chain = takewhile(lambda one: parse_label(one.label) >= end, back_from(view, left, layer))
            labels[layer] = frozenset(one.label for one in chain)
        if change.source not in NO_CHANGE and (layer is None or change.label in labels[layer]):
            kept.append(change)
    return tuple(kept)


def execute_rollback(
    tx: Transaction, plan: RollbackPlan, *, why: str, detector: str | None = None, sessions: int = 0
) -> RollbackResult:
    """Carry out a plan made in this same transaction. `sessions`: how many a detector decided on."""
    cancelled = tuple(
        experiment.experiment_id
        for layer in plan.layers
        for experiment in tx.find(Experiment, agent=plan.agent, layer=layer, state=ExperimentStatus.RUNNING)
    )
    for experiment_id in cancelled:
        cancel_experiment(tx, tx.get(Experiment, experiment_id), reason="rollback", why=why)
    served = _serve(tx, plan, why)
    for version in _left_behind(tx, plan.left, plan.target) if plan.layer is None else ():
        if version.status is VersionStatus.LIVE:
            tx.put(msgspec.structs.replace(version, status=VersionStatus.ROLLED_BACK))
    for version in plan.undone:
        _settle_proposal(tx, version, served, why)
    _write_decision(tx, plan, served, why=why, detector=detector, sessions=sessions)
    tx.audit("rollback", served.label, {"left": plan.left.label, "restored": served.label, "why": why})
    tx.emit(
        Event(
            event_id=tx.ids.new(tx.now),
            at=tx.now,
            agent=plan.agent,
            name=EventName.ROLLED_BACK,
            summary=f"{plan.left.label} was left for {served.label}: {why}",
            subject=served.snapshot_id,
            layer=plan.layer,
            details={"left": plan.left.label, "restored": served.label, "by": detector or tx.actor},
        )
    )
    return RollbackResult(served.label, plan.left.label, plan.layers, served, cancelled)


def _serve(tx: Transaction, plan: RollbackPlan, why: str) -> Version:
    if plan.layer:
        return new_version(
            tx,
            plan.agent,
            plan.layer,
            plan.target.manifest.part(plan.layer),
            source=VersionSource.ROLLBACK,
            note=f"{plan.layer.label} restored from {plan.target.label}: {why}",
            also_from=(plan.target.label,) if plan.target.label != plan.left.label else (),
            own=plan.target.own if plan.layer is Layer.PROMPT else None,
        )
    pointer = tx.pointer(plan.agent)
    tx.point(plan.agent, plan.target.label, expected=pointer.revision if pointer else None)
    if plan.target.status is VersionStatus.ROLLED_BACK:
        restored = msgspec.structs.replace(plan.target, status=VersionStatus.LIVE)
        tx.put(restored)
        return restored
    return plan.target


def _left_behind(view: View, left: Version, wanted: Version) -> tuple[Version, ...]:
    """Versions that no longer serve once the pointer moved from one to the other, newest first: those under
    the one down to where both began. The other may lie on another branch, left by an earlier rollback.

    A version is made from earlier ones, so of two that differ only the later one can lie behind the other.
    """
    behind: list[Version] = []
    mine, its = back_from(view, left), back_from(view, wanted)
    one, other = next(mine, None), next(its, None)
    while one is not None and (other is None or one.label != other.label):
        if other is None or parse_label(one.label) > parse_label(other.label):
            behind.append(one)
            one = next(mine, None)
        else:
            other = next(its, None)
    return tuple(behind)


def _settle_proposal(tx: Transaction, version: Version, served: Version, why: str) -> None:
    if version.proposal_id is None:
        return
    proposal = tx.get(Proposal, version.proposal_id)
    if proposal.state in (ProposalState.WATCHING, ProposalState.CONFIRMED):
        tx.move(proposal, ProposalState.ROLLED_BACK, why=why)
        amend(
            tx,
            proposal.decision_id,
            f"rolled back to {served.label}: {why}",
            outcome=DecisionOutcome.ROLLED_BACK,
            rollback_id=served.snapshot_id,
            ended_at=tx.now,
        )


def _write_decision(
    tx: Transaction, plan: RollbackPlan, served: Version, *, why: str, detector: str | None, sessions: int
) -> None:
    layers = plan.layers
    tx.put(
        Decision(
            decision_id=tx.ids.new(tx.now),
            cycle_id=cycle_id(tx.now),
            layer=layers[0] if layers else Layer.PROMPT,
            timestamp=tx.now,
            proposal={
                "type": "rollback",
                "description": plan.describe(),
                "parameters": {
                    "left": plan.left.label,
                    "restored": served.label,
                    "undone": [version.label for version in plan.undone],
                    "layers": [layer.value for layer in layers],
                },
            },
            rationale=why,
            data_points=sessions,
            agent=plan.agent,
            verdict=Verdict.AUTO_APPROVED if detector else Verdict.APPROVED,
            verdict_reason=f"detector {detector}" if detector else f"asked for by {tx.actor}",
            executed=True,
            rollback_id=served.snapshot_id,
            evidence="live" if detector else "human",
        )
    )
