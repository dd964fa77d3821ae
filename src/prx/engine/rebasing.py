"""Edits of a prompt after the app changed the text they were made on: offered again on the new one."""

from prx.domain.changes import PromptPatch, ReplaceAll
from prx.domain.codec import content_hash
from prx.domain.layers import Layer
from prx.domain.merging import merged
from prx.domain.proposals import Proposal
from prx.domain.versions import PromptSet, Version, VersionStatus
from prx.engine.filing import Filing, file_proposal, open_proposals
from prx.ledger.port import Transaction, View
from prx.propose.fingerprint import fingerprint
from prx.propose.risk import risk_of

TRIGGER = "rebase"


def offer_again(
    tx: Transaction, agent: str, name: str, *, edited: str, own: str | None, now: str
) -> Proposal | None:
    """One proposal of what `edited` changed in the app's earlier text, on the text `now` that serves.

    `own`: content hash of the earlier text. None when nothing was edited, when the app changed the same
    lines, or when such a proposal is open already: it is then moved on as any other.
    """
    before = _text_of(tx, agent, name, own)
    kept = None if before is None or before == edited else merged(before, edited, now)
    if kept is None or kept == now or _is_open(tx, agent, name):
        return None
    change = PromptPatch(prompt=name, ops=(ReplaceAll(text=kept),))
    return file_proposal(
        tx,
        Filing(
            agent=agent,
            change=change,
            description=f"earlier edits of prompt {name!r} on the app's new text",
            rationale="the app changed its own text; the edits of the version before that still fit it",
            trigger=TRIGGER,
            author="engine",
            fingerprint=fingerprint(change),
            risk=risk_of(change, before=now),
            data_points=0,
        ),
    )


def _text_of(view: View, agent: str, name: str, own: str | None) -> str | None:
    """The app's own text with this hash, from a version that held it unedited."""
    for version in view.find(Version, agent=agent):
        if version.status is VersionStatus.SEALED:
            continue
        part = view.part(version.manifest.prompt)
        text = part.texts.get(name) if isinstance(part, PromptSet) else None
        if text is not None and content_hash(text) == own:
            return text
    return None


def _is_open(view: View, agent: str, name: str) -> bool:
    return any(
        one.trigger == TRIGGER and isinstance(one.change, PromptPatch) and one.change.prompt == name
        for one in open_proposals(view, agent, Layer.PROMPT)
    )
