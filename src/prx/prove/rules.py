"""The numbers by which proofs decide; wiring fills them from the settings."""

from dataclasses import dataclass, field

from prx.domain.editlimits import EditLimits
from prx.domain.parameters import NUMERIC


@dataclass(frozen=True, slots=True)
class Bound:
    """Range and largest single step of one numeric strategy parameter, in its own unit.

    `relative`: the step is a factor (2.0: at most double or half) instead of a difference.
    `person_raises`: only a person may set a higher value.
    """

    low: float
    high: float
    step: float
    relative: bool = False
    whole: bool = False
    person_raises: bool = False


STRATEGY_BOUNDS = {
    path: Bound(rule.low, rule.high, rule.step, rule.relative, rule.whole, rule.person_raises)
    for path, rule in NUMERIC.items()
}


@dataclass(frozen=True, slots=True)
class GateRules:
    """Limits of the deterministic gate; a text over `max_chars` characters is not even read.

    `drift_steps`: how many single steps a number may stand away from the last approved strategy;
    `drift_growth`: how much a prompt may have grown since the last approved text, as a share.
    """

    min_data_points: int = 100
    edit: EditLimits = field(default_factory=lambda: EditLimits(growth=0.20, max_size=4000))
    max_chars: int = 100_000
    drift_growth: float = 0.60
    drift_steps: int = 3
    max_changes_per_day: int = 4
    memorised_words: int = 6
    protected_prompts: frozenset[str] = frozenset()
    bounds: dict[str, Bound] = field(default_factory=lambda: dict(STRATEGY_BOUNDS))


@dataclass(frozen=True, slots=True)
class RunRules:
    """How one recorded input is run again. `max_tokens` of one answer; `max_rounds` of tool calls."""

    max_rounds: int = 8
    max_tokens: int = 2048
    temperature: float | None = None
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class ReplayRules:
    """Regression replay of recent successes; `margin` in score points, shares in 0..1."""

    min_cases: int = 50
    max_cases: int = 200
    margin: float = 0.05
    confidence: float = 0.95
    interim_confidence: float = 0.99
    max_diverged: float = 0.30
    max_errors: float = 0.20
    run: RunRules = RunRules()


@dataclass(frozen=True, slots=True)
class ShadowRules:
    """Shadow run on recorded inputs.

    `max_latency_growth`, `max_cost_growth`: shares of the stable version's mean that the candidate may
    add.
    """

    min_hours: float = 24.0
    min_pairs: int = 100
    max_pairs: int = 400
    margin: float = 0.05
    confidence: float = 0.95
    interim_confidence: float = 0.99
    max_diverged: float = 0.20
    max_errors: float = 0.20
    max_latency_growth: float = 0.50
    max_cost_growth: float = 0.50
    run: RunRules = RunRules()


@dataclass(frozen=True, slots=True)
class JudgeRules:
    """How judgements decide.

    `min_score`: floor under the lower `score_confidence` bound of the mean rubric score. `margin`:
    non-inferiority, in score points and in win rate. Looks before the last one ask for
    `interim_confidence`. `max_disagreement`: share of pairs whose winner changes with the order.
    """

    min_score: float = 0.6
    margin: float = 0.05
    min_tasks: int = 50
    max_tasks: int = 200
    score_confidence: float = 0.90
    confidence: float = 0.95
    interim_confidence: float = 0.99
    batch: int = 10
    max_errors: float = 0.10
    max_disagreement: float = 0.40
    max_tokens: int = 1000


@dataclass(frozen=True, slots=True)
class OperatorCheck:
    """An operator's own check: a program, run without a shell.

    Exit code 0 pass, 1 fail, 2 not enough data, anything else an error.
    """

    name: str
    command: tuple[str, ...]
    timeout_s: float = 60.0
    required: bool = True
