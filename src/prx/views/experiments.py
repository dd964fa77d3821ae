"""Experiments: the list, and everything that one of them measured and corrected."""

from dataclasses import dataclass
from typing import Any

from prx.domain.experiments import Experiment, ExperimentStatus, Look, Plan
from prx.domain.layers import Layer
from prx.ledger.port import View


def experiments(
    view: View,
    *,
    agent: str | None = None,
    status: ExperimentStatus | None = None,
    layer: Layer | None = None,
) -> tuple[Experiment, ...]:
    """Experiments, newest first."""
    return view.find(Experiment, agent=agent, state=status, layer=layer, newest_first=True)


@dataclass(frozen=True, slots=True)
class Correction:
    """Which correction moved which number: `name` says the step, `before` and `after` the values."""

    name: str
    before: float | None
    after: float | None
    why: str


@dataclass(frozen=True, slots=True)
class DimensionRow:
    """One dimension (or cost) at the last look; a value that is not known is None, `note` says why.

    low, high, p_naive: of this look alone; p_value: adjusted for the looks; p_bonferroni, p_holm: for the
    other dimensions too; bound: what |z| is held against at alpha over the number of dimensions.
    """

    name: str
    weight: float | None
    control: float | None = None
    treatment: float | None = None
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    p_naive: float | None = None
    p_value: float | None = None
    p_bonferroni: float | None = None
    p_holm: float | None = None
    z: float | None = None
    bound: float | None = None
    coverage: tuple[float, float] | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """One validity check or guardrail: pass, fail, not_enough_data or error, and why."""

    name: str
    answer: str
    why: str


@dataclass(frozen=True, slots=True)
class Details:
    """Everything of one experiment, ready to show."""

    experiment: Experiment
    looks: tuple[Look, ...]
    last: Look | None
    dimensions: tuple[DimensionRow, ...]
    validity: tuple[Check, ...]
    guardrails: tuple[Check, ...]
    other_tests: tuple[tuple[str, str], ...]
    corrections: tuple[Correction, ...]
    effects: dict[str, Any]
    waits_for: str


VALIDITY = ("sample ratio", "exposure", "contamination", "lost sessions")


def details(experiment: Experiment) -> Details:
    """Read one experiment's stored looks; nothing is computed again."""
    looks = tuple(look for look in experiment.looks if look.is_look)
    last = looks[-1] if looks else None
    newest = experiment.looks[-1] if experiment.looks else None
    return Details(
        experiment=experiment,
        looks=experiment.looks,
        last=last,
        dimensions=_dimensions(experiment.plan, last),
        validity=_validity(newest),
        guardrails=_guardrails(last),
        other_tests=_other_tests(last),
        corrections=corrections(experiment.plan, looks),
        effects=dict(last.extra.get("effects") or {}) if last else {},
        waits_for=_waits_for(experiment, newest),
    )


def corrections(plan: Plan | None, looks: tuple[Look, ...]) -> tuple[Correction, ...]:
    """What stands between the plain test and the conclusion of the last look, in order of application."""
    if not looks:
        return ()
    look = looks[-1]
    found = [
        Correction(
            "sequential looks (p)",
            look.p_naive,
            look.p_value,
            f"{len(looks)} looks so far share alpha by {plan.spending if plan else 'the plan'}",
        ),
        Correction(
            "early stopping (estimate)",
            look.difference,
            look.median_unbiased,
            "estimates at a stopped trial exaggerate; this one is median-unbiased",
        ),
    ]
    missing = look.extra.get("missing_bound") or {}
    if "worst_case" in missing:
        lower = missing.get("lower")
        limit = "" if lower is None else f"; promotion needs its lower limit above 0: {lower:+.4f}"
        found.append(
            Correction(
                "missing sessions (estimate)",
                look.difference,
                missing["worst_case"],
                f"what sessions without a value could hide at worst{limit}",
            )
        )
    worst = _smallest(look.extra.get("dimensions") or {}, set(plan.weights) if plan else set())
    if worst:
        name, row = worst
        found.append(
            Correction(
                f"several dimensions ({name}, p)",
                row["p_naive"],
                row["p_bonferroni"],
                f"looks so far, then Bonferroni over all dimensions; Holm {row['p_holm']:.3g}",
            )
        )
    if plan is not None and plan.fdr_alpha is not None:
        found.append(
            Correction(
                "several experiments (alpha)",
                (1 - plan.confidence_level) / 2,
                plan.fdr_alpha,
                "level at which it may be promoted without a person",
            )
        )
    return tuple(found)


def _smallest(dimensions: dict[str, Any], weighted: set[str]) -> tuple[str, dict[str, Any]] | None:
    every = [(name, row) for name, row in dimensions.items() if "p_naive" in row and "p_bonferroni" in row]
    known = [(name, row) for name, row in every if name in weighted] or every
    return min(known, key=lambda item: item[1]["p_naive"]) if known else None


def _dimensions(plan: Plan | None, look: Look | None) -> tuple[DimensionRow, ...]:
    if look is None:
        return ()
    weights = plan.weights if plan else {}
    rows = look.extra.get("dimensions") or {}
    return tuple(_dimension(name, weights.get(name), row) for name, row in rows.items())


def _dimension(name: str, weight: float | None, row: dict[str, Any]) -> DimensionRow:
    if "not_enough_data" in row:
        return DimensionRow(name, weight, note=str(row["not_enough_data"]))
    return DimensionRow(
        name=name,
        weight=weight,
        control=row.get("control"),
        treatment=row.get("treatment"),
        difference=row.get("difference"),
        low=row.get("low"),
        high=row.get("high"),
        p_naive=row.get("p_naive"),
        p_value=row.get("p_value"),
        p_bonferroni=row.get("p_bonferroni"),
        p_holm=row.get("p_holm"),
        z=row.get("z"),
        bound=row.get("bound"),
        coverage=(row["control_coverage"], row["treatment_coverage"]) if "control_coverage" in row else None,
    )


def _validity(look: Look | None) -> tuple[Check, ...]:
    answers = (look.extra.get("validity") or []) if look else []
    names = (
        VALIDITY if len(answers) == len(VALIDITY) else tuple(f"check {i + 1}" for i in range(len(answers)))
    )
    return tuple(Check(name, one["answer"], one["why"]) for name, one in zip(names, answers, strict=True))


def _guardrails(look: Look | None) -> tuple[Check, ...]:
    if look is None:
        return ()
    gates = (look.extra.get("guardrails") or {}).items()
    harms = enumerate(look.extra.get("harm") or [], 1)
    return (
        *(Check(f"no loss of {name}", one["answer"], one["why"]) for name, one in gates),
        *(Check(f"harm {number}", one["answer"], one["why"]) for number, one in harms),
    )


def _other_tests(look: Look | None) -> tuple[tuple[str, str], ...]:
    if look is None:
        return ()
    extra = look.extra
    primary = extra.get("primary")
    rows = [("Tested metric", f"{primary['name']}, {_better(primary)} is better")] if primary else []
    rows += [
        (title, f"p {extra[key]:.3g}" if extra[key] is not None else "not enough data")
        for key, title in (("mann_whitney_p", "Mann-Whitney U"), ("brunner_munzel_p", "Brunner-Munzel"))
        if key in extra
    ]
    rank = extra.get("rank_test")
    if rank:
        rows.append(("Needed for skewed scores", f"{rank['answer'].replace('_', ' ')}: {rank['why']}"))
    if look.median_unbiased is not None and "p_stagewise" in extra:
        rows.append(
            (
                "Median-unbiased",
                f"{look.median_unbiased:+.3f} [{extra['stagewise_low']:.3f}, {extra['stagewise_high']:.3f}], "
                f"p {extra['p_stagewise']:.3g} (stage-wise ordering)",
            )
        )
    units = extra.get("effective_units")
    if units:
        rows.append(("Effective units", f"{units[0]:.1f} control, {units[1]:.1f} treatment"))
    if "futile" in extra:
        rows.append(
            ("Futility", "a win has become unlikely" if extra["futile"] else "a win is still possible")
        )
    return tuple(rows)


def _better(metric: dict[str, Any]) -> str:
    """Defaults are not stored."""
    return str(metric.get("better", "higher"))


def _waits_for(experiment: Experiment, newest: Look | None) -> str:
    if experiment.status is not ExperimentStatus.RUNNING:
        return ""
    if newest is not None and not newest.is_look and newest.note:
        return newest.note
    return "its first look" if newest is None else "more information"
