"""Sessions of one experiment as columns: what a look computes from, and what validity is checked on."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from prx.domain.experiments import CONTROL, TREATMENT
from prx.domain.scores import DIMENSIONS, Arm, SessionScore
from prx.engine.preperiod import eligible
from prx.stats.unitsums import ArmTable
from prx.stats.validity import Exposures

COST = "cost"


@dataclass(slots=True)
class ArmRows:
    """Closed sessions assigned to one arm, in order of arrival."""

    units: list[str] = field(default_factory=list)
    strata: list[int] = field(default_factory=list)
    scores: dict[str, list[float]] = field(default_factory=lambda: {d: [] for d in (*DIMENSIONS, COST)})
    known: dict[str, list[bool]] = field(default_factory=lambda: {d: [] for d in (*DIMENSIONS, COST)})
    sessions: int = 0
    served_other: int = 0
    without_call: int = 0
    exposed: set[str] = field(default_factory=set)
    with_outcome: set[str] = field(default_factory=set)
    means: dict[str, float] = field(default_factory=dict)
    metrics: tuple[str, ...] = ()

    @classmethod
    def with_metrics(cls, names: tuple[str, ...]) -> "ArmRows":
        """An empty arm that also keeps these own metrics."""
        arm = cls(metrics=names)
        arm.scores |= {name: [] for name in names}
        arm.known |= {name: [] for name in names}
        return arm

    def add(self, score: SessionScore, arm: Arm, unit: str, stratum: int) -> None:
        """Enter one session."""
        self.sessions += 1
        self.units.append(unit)
        self.strata.append(stratum)
        self.without_call += score.calls == 0
        if arm.served is not None:
            self.exposed.add(unit)
            self.served_other += arm.served != arm.assigned
            if score.calls:
                self.with_outcome.add(unit)
        for dimension in DIMENSIONS:
            self._enter(dimension, score.dimensions.get(dimension))
        self._enter(COST, score.cost_usd)
        for name in self.metrics:
            self._enter(name, score.metrics.get(name))

    def table(self, dimensions: Iterable[str], bounds: tuple[float, float] | None = (0.0, 1.0)) -> ArmTable:
        """Sums per unit of the named dimensions."""
        names = tuple(dimensions)
        return ArmTable.from_rows(
            self.units,
            {d: self.scores[d] for d in names},
            scored={d: self.known[d] for d in names},
            stratum=self.strata,
            bounds=bounds,
        )

    def mean(self, dimension: str) -> float | None:
        """Mean over the sessions that have it."""
        found = [s for s, k in zip(self.scores[dimension], self.known[dimension], strict=True) if k]
        return sum(found) / len(found) if found else None

    def coverage(self, dimension: str) -> float:
        """Share of the arm's sessions that have it."""
        return sum(self.known[dimension]) / self.sessions if self.sessions else 0.0

    def exposures(self) -> Exposures:
        """The three records of this arm, in units."""
        return Exposures(len(set(self.units)), len(self.exposed), len(self.with_outcome))

    def _enter(self, dimension: str, value: float | None) -> None:
        self.scores[dimension].append(0.0 if value is None else value)
        self.known[dimension].append(value is not None)


@dataclass(frozen=True, slots=True)
class TrialRows:
    """Both arms, and what does not fit into either."""

    control: ArmRows
    treatment: ArmRows
    in_both_arms: int
    exposed_unassigned: int

    def units(self) -> tuple[int, int]:
        """Distinct units per arm."""
        return len(set(self.control.units)), len(set(self.treatment.units))


def collect(
    scores: Iterable[SessionScore],
    experiment_id: str,
    strata_from: tuple[datetime, ...],
    metrics: tuple[str, ...] = (),
) -> TrialRows:
    """Sort closed, eligible sessions into arms by assignment (intention to treat).

    Args: `strata_from`: times from which another layer's base was different; a session's stratum is the
        number of them that lie before it. `metrics`: names of the own metrics of the plan.
    """
    arms = {variant: ArmRows.with_metrics(metrics) for variant in (CONTROL, TREATMENT)}
    seen: dict[str, Counter[str]] = {CONTROL: Counter(), TREATMENT: Counter()}
    unassigned = 0
    for score in scores:
        if not eligible(score) or score.unit is None:
            continue
        part = score.arm(experiment_id)
        if part is None or part.assigned not in arms:
            unassigned += part is not None and part.served == TREATMENT
            continue
        stratum = sum(start <= score.started_at for start in strata_from)
        arms[part.assigned].add(score, part, score.unit, stratum)
        seen[part.assigned][score.unit] += 1
    both = len(seen[CONTROL].keys() & seen[TREATMENT].keys())
    return TrialRows(arms[CONTROL], arms[TREATMENT], both, unassigned)
