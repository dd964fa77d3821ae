"""What the proposer is given and what it hands back."""

from dataclasses import dataclass, field

from prx.domain.answers import Broken, Failed, NotEnoughData
from prx.domain.changes import Change
from prx.domain.editlimits import EditLimits
from prx.domain.layers import Layer
from prx.domain.proposals import ExpectedEffect
from prx.domain.told import ANSWER_NAMES
from prx.domain.versions import MemoryState, PromptSet, Strategy


@dataclass(frozen=True, slots=True)
class ProposeRules:
    """Caps of one round of proposing.

    limits: size of a prompt edit, shared with the gate. span: words in a row that must not be copied from
    records unless `min_users` users wrote them. items_per_user: evidence taken from one user.
    max_per_layer: drafts per layer and round. recovered: assumed share of an excess failure rate that a
    good edit removes. signal_weight: fitness weight of what a wrong answer moves (relevance, completion,
    satisfaction). tools: names that prompt edits may mention and must not lose.
    """

    limits: EditLimits = field(default_factory=EditLimits)
    span: int = 6
    min_users: int = 3
    items_per_user: int = 2
    max_terms: int = 6
    max_per_layer: int = 5
    examples: bool = True
    recovered: float = 0.5
    signal_weight: float = 0.65
    attempts: int = 12
    tools: frozenset[str] = frozenset()
    answer_names: tuple[str, ...] = ANSWER_NAMES


@dataclass(frozen=True, slots=True)
class PastChange:
    """A change that failed before: fingerprint, and the change and the reason where they are known."""

    fingerprint: str
    change: Change | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Current:
    """The parts that are served now; a change is written against them."""

    prompts: PromptSet = field(default_factory=PromptSet)
    strategy: Strategy = field(default_factory=Strategy)
    memory: MemoryState = field(default_factory=MemoryState)


@dataclass(frozen=True, slots=True)
class Draft:
    """A bounded typed change, not yet a proposal. `risk` in 0..1; `trigger` is a finding id; `cost_usd` is
    what writing it cost, None when no price is known."""

    layer: Layer
    change: Change
    description: str
    rationale: str
    trigger: str
    evidence: tuple[str, ...]
    expected: ExpectedEffect
    risk: float
    fingerprint: str
    author: str
    cost_usd: float | None = 0.0


@dataclass(frozen=True, slots=True)
class NoDraft:
    """Why a finding led to no change: not enough data, a failed check, or a broken proposer."""

    trigger: str
    answer: Failed | NotEnoughData | Broken


@dataclass(frozen=True, slots=True)
class Considered:
    """Every finding's outcome: a draft or a reason, and what the proposer model cost (None: no price)."""

    drafts: tuple[Draft, ...] = ()
    refused: tuple[NoDraft, ...] = ()
    cost_usd: float | None = 0.0
    calls: int = 0
