"""What every part of the engine is given: stores, settings, models, ids."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from prx.domain.events import Control
from prx.domain.ids import Ids
from prx.fitness.rules import FitnessRules
from prx.ledger.port import Ledger, View
from prx.memory.port import MemoryStore
from prx.models.port import ChatModel
from prx.prove.port import Checker
from prx.records.port import RecordStore
from prx.settings import Settings

ENGINE = "engine"


@dataclass(frozen=True, slots=True)
class Models:
    """Model endpoints by role; None where the operator configured none. `served`: by name, the models that
    requests are routed to, so that two of them can be compared."""

    agent: ChatModel | None = None
    judge: ChatModel | None = None
    proposer: ChatModel | None = None
    served: Mapping[str, ChatModel] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Context:
    """Everything that the engine works with; nothing is global.

    `sample_key`: secret of the installation, by which it draws what the analysis keeps in memory.
    """

    ledger: Ledger
    records: RecordStore
    settings: Settings
    fitness: FitnessRules
    ids: Ids
    models: Models = Models()
    checkers: Mapping[str, Checker] = field(default_factory=dict)
    seed: int = 0
    sample_key: str = "prx.analyze"
    owner: str = "engine"
    progress: Callable[[str], None] | None = None
    memory: MemoryStore | None = None


def control_of(view: View, agent: str) -> Control:
    """The agent's control record, or a fresh one."""
    return view.maybe(Control, agent) or Control(agent=agent)
