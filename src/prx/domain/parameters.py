"""The typed parameters of the strategy: what may evolve, within which range and steps, raised by whom."""

from dataclasses import dataclass
from enum import StrEnum


class Family(StrEnum):
    """Parameters that are proposed and proven alike."""

    ROUTER = "router"
    AUTOMIX = "automix_threshold"
    EXPLORE = "explore"
    DEFAULT_MODEL = "default_models"
    CONCURRENCY = "concurrency"
    TIMEOUT = "timeouts"
    TOOL = "disabled_tools"


@dataclass(frozen=True, slots=True)
class Numeric:
    """A number from `low` to `high` in its own unit.

    `step`: the largest single step that the gate lets through, a factor when `relative`. `engine_step`: the
    largest that the engine proposes, as a share of the present value when `engine_relative`, else in the
    parameter's unit. `person_raises`: the engine may only lower it.
    """

    low: float
    high: float
    step: float
    relative: bool = False
    whole: bool = False
    engine_step: float = 0.15
    engine_relative: bool = True
    person_raises: bool = False


# cost and latency never stop counting: a weight of 0 would let the dearest model win for nothing
NUMERIC = {
    "router.alpha": Numeric(0.0, 1.0, 0.1),
    "router.beta": Numeric(0.0, 1.0, 0.1),
    "router.gamma": Numeric(0.0, 1.0, 0.1),
    "router.delta": Numeric(0.01, 1.0, 0.1),
    "router.epsilon": Numeric(0.01, 1.0, 0.1),
    "automix_threshold": Numeric(0.3, 0.95, 0.1, engine_step=0.05, engine_relative=False),
    "explore": Numeric(0.0, 0.2, 0.2, engine_step=0.05, engine_relative=False, person_raises=True),
    "concurrency": Numeric(1, 64, 2.0, relative=True, whole=True),
    "timeouts": Numeric(1.0, 600.0, 2.0, relative=True),
}
NAMED = ("default_models", "disabled_tools")
TABLES = ("default_models", "concurrency", "timeouts", "disabled_tools")


def family_of(path: str) -> Family | None:
    """The family of a path such as `timeouts.search`; None when no such parameter evolves."""
    head, _, key = path.partition(".")
    if head in TABLES:
        return Family(head) if key else None
    return Family(head) if path in NUMERIC else None


def numeric(path: str) -> Numeric | None:
    """Range and steps of a numeric parameter; None for one that is not a number."""
    head, _, key = path.partition(".")
    return NUMERIC.get(path) or (NUMERIC.get(head) if key and head in TABLES else None)


def stepped(path: str, present: float, *, up: bool) -> float | None:
    """`present` moved by one step of the engine, within the range; None at its end.

    A whole number moves by at least 1, and a router weight by at least 0.01, so that 0 is no trap.
    """
    rule = numeric(path)
    if rule is None:
        return None
    size = abs(present) * rule.engine_step if rule.engine_relative else rule.engine_step
    size = max(size, 1.0 if rule.whole else 0.01)
    size = size if rule.relative else min(size, rule.step)
    new = min(rule.high, max(rule.low, present + size if up else present - size))
    new = float(round(new)) if rule.whole else round(new, 6)
    return new if (new > present) == up and new != present else None
