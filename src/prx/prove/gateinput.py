"""What the gate is given, and one check's result."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from prx.domain.answers import Answer
from prx.domain.events import Incident
from prx.domain.experiments import Experiment
from prx.domain.proposals import Proposal
from prx.domain.versions import Part


@dataclass(frozen=True, slots=True)
class GateInput:
    """Everything that the gate looks at; nothing is fetched.

    `part`: the layer's current part. `approved`: the part that a person approved last (or the first one):
    what many small steps are measured from. `sealed_texts`: answers of golden cases and holdouts, which a
    prompt may not contain. `data_points`: interactions recorded. `recent`: when changes of this agent
    passed the gate lately. `failed_before`: says which failed change this one copies, None when none.
    `health`: None when nothing is configured.
    """

    proposal: Proposal
    part: Part
    now: datetime
    data_points: int
    approved: Part | None = None
    known_tools: frozenset[str] = frozenset()
    known_models: frozenset[str] = frozenset()
    known_intents: frozenset[str] = frozenset()
    sealed_texts: tuple[str, ...] = ()
    proposals: Sequence[Proposal] = ()
    experiments: Sequence[Experiment] = ()
    incidents: Sequence[Incident] = ()
    recent: Sequence[datetime] = ()
    cooldown_until: datetime | None = None
    failed_before: Callable[[Proposal], str | None] = lambda _: None
    health: Callable[[], Answer] | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """A named answer with the numbers that it used."""

    name: str
    answer: Answer
    numbers: dict[str, Any] = field(default_factory=dict)


def by_person(proposal: Proposal) -> bool:
    """True when a person wrote the proposal (`person:NAME`)."""
    return proposal.author.startswith("person")
