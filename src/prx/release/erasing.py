"""Erasure in the ledger: versions that hold erased text are sealed, records lose it, the chain holds."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Any

import msgspec

from prx.domain.accepted import AcceptedPrompt
from prx.domain.changes import MemoryPatch, PromptPatch
from prx.domain.decisions import Verdict
from prx.domain.errors import NotFound
from prx.domain.experiments import Experiment, ExperimentStatus
from prx.domain.layers import Layer
from prx.domain.proposals import TERMINAL_STATES, Proposal, ProposalState
from prx.domain.spans import Said
from prx.domain.times import to_micros
from prx.domain.versions import MemoryState, Part, PromptSet, Version, VersionSource, VersionStatus
from prx.ledger.binding import LASTING
from prx.ledger.kinds import KINDS
from prx.ledger.port import Transaction, View
from prx.release.applied import current
from prx.release.decisions import amend
from prx.release.erased import ERASED, Held, redacted, strings
from prx.release.promote import new_version
from prx.release.stop import cancel_experiment

_WHY = "it holds text that was erased"
_OVER = TERMINAL_STATES | {ProposalState.WATCHING}


@dataclass(frozen=True, slots=True)
class LedgerErased:
    """What an erasure did to the ledger, or would do: versions as AGENT/LABEL; `successors` serve in place
    of sealed ones; `proposals` and `experiments` that were cancelled, by id."""

    sealed: tuple[str, ...] = ()
    successors: tuple[str, ...] = ()
    proposals: tuple[str, ...] = ()
    experiments: tuple[str, ...] = ()
    records: int = 0
    events: int = 0
    audit_texts: int = 0


def copied(view: View, said: Said, offered: Iterable[tuple[str, datetime]]) -> frozenset[str]:
    """Spans of `said` that stand anywhere in the ledger, or in a text that the app offered, and did not stand
    in a version, a proposal or such a text before they were said: what a prompt told the user is not the
    user's own."""
    written: dict[str, int] = {}
    found: set[str] = set()
    apps = ((text, to_micros(at)) for text, at in offered)
    for text, at in chain(_authored(view), apps):
        for span in said.within(text):
            found.add(span)
            written[span] = min(written.get(span, at), at)
    for text in _told(view):
        found |= said.within(text)
    return frozenset(span for span in found if said.first(span) < written.get(span, said.first(span) + 1))


def erase_from_ledger(tx: Transaction, held: Held) -> LedgerErased:
    """Take everything held out of the ledger; doing it twice changes nothing more."""
    affected = {name for name, part in _parts(tx).items() if held.in_part(part)}
    experiments = tuple(_cancel_experiments(tx, affected))
    successors = tuple(_succeed(tx, held, affected))
    proposals = tuple(_cancel_proposals(tx, held, affected))
    sealed = tuple(_seal(tx, affected))
    for name in sorted(affected):
        tx.erase_part(name)
    return LedgerErased(
        sealed=sealed,
        successors=successors,
        proposals=proposals,
        experiments=experiments,
        records=_redact_records(tx, held),
        events=_redact_events(tx, held),
        audit_texts=_redact_audit(tx, held),
    )


def _authored(view: View) -> Iterator[tuple[str, int]]:
    """Texts that were written into the agent, each with the time in microseconds."""
    for version in view.find(Version):
        for layer in (Layer.PROMPT, Layer.MEMORY):
            for text in _texts(_maybe(view, version.manifest.part(layer))):
                yield text, to_micros(version.created_at)
    for proposal in view.find(Proposal):
        if isinstance(proposal.change, PromptPatch | MemoryPatch):
            for text in strings(msgspec.to_builtins(proposal.change)):
                yield text, to_micros(proposal.created_at)
    for accepted in view.find(AcceptedPrompt):
        yield accepted.text, to_micros(accepted.at)


def _told(view: View) -> Iterator[str]:
    for kind in KINDS:
        for record in view.find(kind):
            yield from strings(msgspec.to_builtins(record))
    for _, event in view.events():
        yield from strings(msgspec.to_builtins(event))
    for row in view.audit_rows():
        if row.body is not None and row.kind not in LASTING:
            yield row.body


def _texts(part: Part | None) -> tuple[str, ...]:
    if isinstance(part, PromptSet):
        return tuple(part.texts.values())
    return part.operations if isinstance(part, MemoryState) else ()


def _parts(view: View) -> dict[str, Part]:
    """Every part that anything names, by hash; those that are gone are left out."""
    names: dict[str, None] = {}
    for version in view.find(Version):
        names |= dict.fromkeys(version.manifest.part(layer) for layer in Layer)
    for experiment in view.find(Experiment):
        for variant in (experiment.control, experiment.treatment):
            names |= dict.fromkeys(variant.manifest.part(layer) for layer in Layer)
    for proposal in view.find(Proposal):
        names |= dict.fromkeys((proposal.base, proposal.treated))
    found = {name: _maybe(view, name) for name in names}
    return {name: part for name, part in found.items() if part is not None}


def _maybe(view: View, name: str) -> Part | None:
    try:
        return view.part(name)
    except NotFound:
        return None


def _cancel_experiments(tx: Transaction, affected: set[str]) -> Iterator[str]:
    for experiment in tx.find(Experiment, state=(ExperimentStatus.RUNNING, ExperimentStatus.EVALUATING)):
        arms = (experiment.control, experiment.treatment)
        if any(arm.manifest.part(experiment.layer) in affected for arm in arms):
            cancel_experiment(tx, experiment, reason="erased", why=_WHY)
            yield experiment.experiment_id


def _succeed(tx: Transaction, held: Held, affected: set[str]) -> Iterator[str]:
    """A clean version in place of what an agent serves, one per layer that holds erased text."""
    for agent in tx.agents():
        if tx.pointer(agent) is None:
            continue
        for layer in Layer:
            served = current(tx, agent)
            name = served.manifest.part(layer)
            if name in affected:
                clean = held.cleaned(tx.part(name))
                note = f"erased text was taken out of the {layer.label} of {served.label}"
                made = new_version(tx, agent, layer, clean, source=VersionSource.ERASURE, note=note)
                yield f"{agent}/{made.label}"


def _cancel_proposals(tx: Transaction, held: Held, affected: set[str]) -> Iterator[str]:
    for proposal in tx.find(Proposal):
        if proposal.state in _OVER:
            continue
        own = any(held.has(text) for text in strings(msgspec.to_builtins(proposal.change)))
        if own or {proposal.base, proposal.treated} & affected:
            tx.move(proposal, ProposalState.CANCELLED, why=_WHY)
            amend(
                tx,
                proposal.decision_id,
                f"cancelled: {_WHY}",
                verdict=Verdict.REJECTED,
                verdict_reason=_WHY,
                ended_at=tx.now,
            )
            yield proposal.proposal_id


def _seal(tx: Transaction, affected: set[str]) -> Iterator[str]:
    for version in tx.find(Version):
        holds = any(version.manifest.part(layer) in affected for layer in Layer)
        if holds and version.status is not VersionStatus.SEALED:
            tx.put(msgspec.structs.replace(version, status=VersionStatus.SEALED))
            yield f"{version.agent}/{version.label}"


def _redact_records(tx: Transaction, held: Held) -> int:
    changed = 0
    for kind in KINDS:
        for record in tx.find(kind):
            clean: Any = redacted(record, held)
            if isinstance(record, Version):
                clean = msgspec.structs.replace(record, note=clean.note)
            if clean != record:
                tx.put(clean)
                changed += 1
    return changed


def _redact_events(tx: Transaction, held: Held) -> int:
    changed = 0
    for seq, event in tx.events():
        if event.summary != ERASED and redacted(event, held) != event:
            tx.erase_event(seq)
            changed += 1
    return changed


def _redact_audit(tx: Transaction, held: Held) -> int:
    rows = [row.seq for row in tx.audit_rows() if row.kind not in LASTING and row.body and held.has(row.body)]
    for seq in rows:
        tx.erase_audit_body(seq)
    return len(rows)
