"""Proposals with what they would change."""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

from prx.domain.changes import MemoryAdd, MemoryPatch, PromptPatch, StrategyPatch, apply_prompt_ops
from prx.domain.errors import EvolutionError
from prx.domain.layers import Layer
from prx.domain.proposals import Proposal, ProposalState
from prx.domain.versions import PromptSet
from prx.ledger.port import View


def proposals(
    view: View,
    *,
    agent: str | None = None,
    states: Iterable[ProposalState] | None = None,
    layer: Layer | None = None,
    limit: int | None = None,
) -> tuple[Proposal, ...]:
    """Proposals, newest first."""
    wanted = None if states is None else [state.value for state in states]
    return view.find(Proposal, agent=agent, state=wanted, layer=layer, newest_first=True, limit=limit)


@dataclass(frozen=True, slots=True)
class ProposalView:
    """One proposal with its change as lines of a unified diff."""

    proposal: Proposal
    diff: tuple[str, ...]


def proposal_view(view: View, proposal: Proposal) -> ProposalView:
    """The proposal, and its change against the part that it was written for."""
    return ProposalView(proposal, tuple(change_lines(view, proposal)))


def change_lines(view: View, proposal: Proposal) -> Iterable[str]:
    """The change as a diff; a part that was erased is said to be."""
    change = proposal.change
    if isinstance(change, StrategyPatch):
        return (f"-{change.path} = {change.old}", f"+{change.path} = {change.new}")
    if isinstance(change, MemoryPatch):
        return tuple(
            f"+{op.memory_id}: {op.text}" if isinstance(op, MemoryAdd) else f"-{op.memory_id} ({op.why})"
            for op in change.ops
        )
    try:
        before = _text(view, proposal.base, change)
        after = apply_prompt_ops(before, change.ops)
    except EvolutionError as error:
        return (f"the text cannot be shown: {error}",)
    return text_diff(before, after, change.prompt, change.prompt)


def text_diff(before: str, after: str, old_name: str, new_name: str) -> tuple[str, ...]:
    """Unified diff of two texts; nothing when they are equal."""
    lines = difflib.unified_diff(
        before.splitlines(), after.splitlines(), f"{old_name} (before)", f"{new_name} (after)", lineterm=""
    )
    return tuple(lines)


def _text(view: View, part_hash: str, change: PromptPatch) -> str:
    part = view.part(part_hash)
    return part.texts.get(change.prompt, "") if isinstance(part, PromptSet) else ""
