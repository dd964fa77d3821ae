"""The decision record of a proposal: written once, amended by appending."""

from typing import Any

import msgspec

from prx.domain.decisions import Amendment, Decision
from prx.ledger.port import Transaction


def amend(tx: Transaction, decision_id: str, what: str, **fields: Any) -> Decision:
    """Append a fact to a decision, and set the fields that it settles."""
    decision = tx.get(Decision, decision_id)
    told = {name: msgspec.to_builtins(value) for name, value in fields.items()}
    amendment = Amendment(at=tx.now, actor=tx.actor, what=what, fields=told)
    changed = msgspec.structs.replace(decision, amendments=(*decision.amendments, amendment), **fields)
    tx.put(changed)
    return changed
