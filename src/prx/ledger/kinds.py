"""How each kind of record is filed: its key, scope, state and time."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from prx.domain.accepted import AcceptedPrompt
from prx.domain.baselines import Baseline
from prx.domain.codec import encode
from prx.domain.decisions import Decision
from prx.domain.errors import InvalidInput
from prx.domain.events import Breaker, Control, Due, Incident
from prx.domain.experiments import Experiment
from prx.domain.findings import Finding
from prx.domain.operations import Operation
from prx.domain.proposals import Proposal
from prx.domain.routing import ModelTable
from prx.domain.spending import Spending
from prx.domain.times import to_micros
from prx.domain.versions import Version
from prx.ledger.store import Document


@dataclass(frozen=True, slots=True)
class Filing:
    """Where the fields of one kind stand; `at` names the field that `since` and `until` bound."""

    name: str
    key: str
    listing: str
    layer: str | None = None
    state: str | None = None
    at: Callable[[Any], datetime | None] = lambda _: None


_FILINGS: dict[type[Any], Filing] = {
    Finding: Filing(
        "finding", "finding_id", "prx evolution findings", "layer", "kind", lambda finding: finding.first_seen
    ),
    Proposal: Filing(
        "proposal",
        "proposal_id",
        "prx evolution proposals",
        "layer",
        "state",
        lambda proposal: proposal.created_at,
    ),
    Experiment: Filing(
        "experiment",
        "experiment_id",
        "prx evolution experiments",
        "layer",
        "status",
        lambda one: one.created_at,
    ),
    Decision: Filing(
        "decision", "decision_id", "prx evolution decisions", "layer", "verdict", lambda one: one.timestamp
    ),
    Version: Filing(
        "version", "snapshot_id", "prx evolution versions list", "layer", "status", lambda one: one.created_at
    ),
    Incident: Filing(
        "incident",
        "incident_id",
        "prx evolution incidents",
        "layer",
        "detector",
        lambda incident: incident.at,
    ),
    Due: Filing("due", "due_id", "prx evolution status", None, "job", lambda due: due.at),
    Breaker: Filing("breaker", "breaker_id", "prx evolution status", "layer", "state"),
    Control: Filing("control", "agent", "prx evolution status", None, None, lambda control: control.since),
    Spending: Filing("spending", "spending_id", "prx evolution cost", None, "month"),
    ModelTable: Filing("model_table", "agent", "prx evolution status", None, None, lambda table: table.at),
    Operation: Filing("operation", "operation_id", "prx evolution history", None, None, lambda one: one.at),
    Baseline: Filing("baseline", "baseline_id", "prx prompts", None, None, lambda one: one.registered_at),
    AcceptedPrompt: Filing(
        "accepted_prompt", "accepted_id", "prx prompts list", None, None, lambda one: one.at
    ),
}
KINDS: tuple[type[Any], ...] = tuple(_FILINGS)


def filing(kind: type[Any]) -> Filing:
    """How `kind` is filed. Raises: InvalidInput when the ledger keeps no such kind."""
    found = _FILINGS.get(kind)
    if found is None:
        names = ", ".join(known.__name__ for known in KINDS)
        raise InvalidInput(f"the ledger keeps no {kind.__name__}; it keeps {names}")
    return found


def key_of(record: Any) -> str:
    """The record's own id."""
    return str(getattr(record, filing(type(record)).key))


def document(record: Any, *, now: datetime) -> Document:
    """Stored form of a record; a kind without a time of its own is filed under `now`.

    Raises: InvalidInput for a record that could not be read back (a field of another type than declared).
    """
    how = filing(type(record))
    body = encode(record)
    try:
        msgspec.json.decode(body, type=type(record))
    except msgspec.DecodeError as error:
        raise InvalidInput(
            f"{how.name} {key_of(record)!r} has a field of the wrong type and was not stored: {error}"
        ) from error
    return Document(
        kind=how.name,
        key=key_of(record),
        agent=record.agent,
        layer=_text(record, how.layer),
        state=_text(record, how.state),
        at=to_micros(how.at(record) or now),
        body=body,
    )


def _text(record: Any, field: str | None) -> str | None:
    value = getattr(record, field) if field else None
    return None if value is None else str(value)
