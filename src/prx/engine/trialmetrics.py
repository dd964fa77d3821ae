"""Own metrics in experiments: the one that is tested instead of the composite, and those that guard."""

from dataclasses import dataclass, replace

from prx.domain.answers import NotEnoughData
from prx.domain.experiments import Plan
from prx.domain.scores import DIMENSIONS, OwnMetric
from prx.engine.trialdata import ArmRows, TrialRows
from prx.fitness.metrics import RATE
from prx.stats.estimator import Composite, composite
from prx.stats.guardrails import Guardrail
from prx.stats.missing import MissingBound, missing_bound
from prx.stats.unitsums import ArmTable

Tables = tuple[ArmTable, ArmTable]
RATE_BOUNDS = (0.0, 1.0)


@dataclass(frozen=True, slots=True)
class Tested:
    """What the experiment tests, both arms as sums per unit, so that more is better.

    `bounds`: range of one value; for a mean, which knows none, the range that was seen.
    """

    tables: Tables
    bounds: tuple[float, float]
    metric: OwnMetric | None = None

    @property
    def sign(self) -> float:
        """1, or -1 where the metric's own direction was turned."""
        return -1.0 if self.metric and self.metric.better == "lower" else 1.0


def tested(rows: TrialRows, plan: Plan) -> Tested:
    """The dimensions of the composite, or the primary metric."""
    metric = plan.primary
    if metric is None:
        return Tested(dimension_tables(rows), RATE_BOUNDS)
    low, high = RATE_BOUNDS if metric.type == RATE else _seen(rows, metric.name)
    tables = metric_tables(rows, metric)
    if metric.better == "lower":
        low, high, tables = -high, -low, (_turned(tables[0]), _turned(tables[1]))
    return Tested(tables, (low, high), metric)


def dimension_tables(rows: TrialRows) -> Tables:
    """Both arms in every dimension."""
    return rows.control.table(DIMENSIONS), rows.treatment.table(DIMENSIONS)


def metric_tables(rows: TrialRows, metric: OwnMetric) -> Tables:
    """Both arms in one own metric, in its own unit and direction."""
    bounds = RATE_BOUNDS if metric.type == RATE else None
    return rows.control.table((metric.name,), bounds), rows.treatment.table((metric.name,), bounds)


def guardrail_of(metric: OwnMetric) -> Guardrail:
    """Margin and direction as the operator said; harm trips from half of the margin on, as for dimensions."""
    half = metric.margin / 2
    if metric.better == "lower":
        return Guardrail(margin=metric.margin, harm_at=half, tuned_at=metric.margin, better="lower")
    return Guardrail(margin=metric.margin, harm_at=half, tuned_at=metric.margin)


def worst_case(
    found: Composite, what: Tested, plan: Plan, behavioural: tuple[str, ...]
) -> MissingBound | NotEnoughData:
    """What sessions without a value could hide; for a metric they are given the worst value of its range."""
    if what.metric is None:
        return missing_bound(found, *what.tables, rho=plan.rho, behavioural=behavioural)
    low, high = what.bounds
    span = high - low
    scaled = _scaled(what.tables[0], low, span), _scaled(what.tables[1], low, span)
    same = composite(*scaled, weights=plan.weights, rho=plan.rho)
    if isinstance(same, NotEnoughData):
        return same
    bound = missing_bound(same, *scaled, rho=plan.rho)
    if isinstance(bound, NotEnoughData):
        return bound
    return MissingBound(
        bounds={name: value * span for name, value in bound.bounds.items()},
        total=bound.total * span,
        delta=bound.delta * span,
        se=bound.se * span,
        z=bound.z,
    )


def _seen(rows: TrialRows, name: str) -> tuple[float, float]:
    values = [value for arm in (rows.control, rows.treatment) for value in _known(arm, name)]
    return (min(values), max(values)) if values else RATE_BOUNDS


def _known(arm: ArmRows, name: str) -> list[float]:
    return [v for v, known in zip(arm.scores[name], arm.known[name], strict=True) if known]


def _turned(table: ArmTable) -> ArmTable:
    return replace(table, total={name: -total for name, total in table.total.items()})


def _scaled(table: ArmTable, low: float, span: float) -> ArmTable:
    return replace(
        table, total={name: (total - low * table.n[name]) / span for name, total in table.total.items()}
    )
