"""Experiments as text: the list, and one with everything that it measured."""

from collections.abc import Mapping, Sequence
from typing import Any

from prx.cli.output import Column, blocks, pairs, table, wrapped
from prx.cli.text.trial_plan import plan_text
from prx.cli.text.words import (
    NOTHING,
    an_id,
    chance,
    compact,
    first_line,
    moment,
    number,
    percent,
    shortened,
    signed,
    span,
    titled,
    wide,
)
from prx.domain.experiments import Experiment, Look
from prx.views.experiments import Details

LOOKS_READ = (
    "p: adjusted for all looks so far; p naive: as if this look were the only one; interval: repeated, holds "
    "at every look; a look decides when z is beyond its bound."
)
DIMENSIONS_READ = (
    "This look: plain 95 % interval, as if nothing else were tested; bound, p: for all looks so far; Bonf., "
    "Holm: for the other dimensions too. Dimensions count only where the whole has won."
)


def experiments_text(rows: Sequence[Experiment], width: int | None) -> str:
    """A list of experiments, newest first."""
    if not rows:
        return "No experiment matches."
    columns = (
        Column("Created (UTC)" if wide(width) else "Date"),
        Column("Experiment"),
        Column("Layer"),
        Column("Status"),
        Column("n C/T", right=True),
        Column("Fitness C/T", right=True),
        Column("p", right=True),
        Column("Winner (conclusion)" if wide(width) else "Winner", wraps=True, least=9),
    )
    return table(
        columns,
        (
            (
                moment(one.created_at)[slice(None) if wide(width) else slice(5, 10)],
                an_id(one.experiment_id, width),
                one.layer.label if wide(width) else one.layer.level,
                one.status,
                f"{one.control_sessions}/{one.treatment_sessions}",
                f"{number(one.control_fitness.value)}/{number(one.treatment_fitness.value)}",
                chance(one.p_value),
                _winner(one) if wide(width) else (one.winner or _ending(one)),
            )
            for one in rows
        ),
        width,
    )


def experiment_text(one: Experiment, width: int | None) -> str:
    """One experiment: the record of the source documents and how it ended."""
    head = pairs(
        (
            ("Experiment", one.experiment_id),
            ("Decision", one.decision_id),
            ("Proposal", one.proposal_id or ""),
            ("Agent", one.agent),
            ("Layer", one.layer.label),
            ("Status", f"{one.status} (extended)" if one.extended else one.status),
            ("Created", f"{moment(one.created_at)} UTC"),
            ("Ended", f"{moment(one.converged_at)} UTC" if one.converged_at else ""),
            (
                "Next look",
                f"{moment(one.next_look_at)} UTC" if one.next_look_at and not one.converged_at else "",
            ),
            ("Winner", _winner(one)),
            ("p-value", chance(one.p_value)),
        ),
        width,
    )
    arms = table(
        (
            Column("Arm"),
            Column("Version"),
            Column("Sessions", right=True),
            Column("Fitness", right=True),
            Column("What", wraps=True),
        ),
        (
            (
                name,
                variant.version or NOTHING,
                str(sessions),
                number(fitness.value),
                shortened(variant.description, width, 300),
            )
            for name, variant, sessions, fitness in (
                ("control", one.control, one.control_sessions, one.control_fitness),
                ("treatment", one.treatment, one.treatment_sessions, one.treatment_fitness),
            )
        ),
        width,
    )
    return blocks(head, arms)


def details_text(found: Details, width: int | None) -> str:
    """One experiment with plan, looks, dimensions, validity and what moved which number."""
    return blocks(
        experiment_text(found.experiment, width),
        wrapped(f"Waits for: {found.waits_for}", width) if found.waits_for else "",
        plan_text(found.experiment.plan, width),
        titled("Looks", looks_text(found.looks, width)),
        titled("Dimensions at the last look", _dimensions(found, width)),
        titled("Effect size", _effects(found.effects, width)),
        titled("Other tests at the last look", _tests(found.other_tests, width)),
        titled("Validity and guardrails", _checks(found, width)),
        titled("Which correction moved which number", _corrections(found, width)),
    )


def looks_text(looks: Sequence[Look], width: int | None) -> str:
    """Every tick; those that were no look say why."""
    if not looks:
        return "none yet"
    columns = (
        Column("#", right=True),
        Column("Time (UTC)"),
        Column("n C / T", right=True),
        Column("Difference", right=True),
        Column("z", right=True),
        Column("Bound", right=True),
        Column("Info", right=True),
        Column("p naive", right=True),
        Column("p", right=True),
    )
    more = (Column("Alpha spent", right=True), Column("Interval"), Column("Conclusion", wraps=True))
    rows = [_look_row(look, width) for look in looks]
    told = wrapped(LOOKS_READ, width)
    if wide(width):
        return f"{table((*columns, *more), (left + right for left, right in rows), width)}\n{told}"
    first = table(columns, (left for left, _ in rows), width)
    second = table((Column("#", right=True), *more), ((left[0], *right) for left, right in rows), width)
    return f"{first}\n\n{second}\n{told}"


def _look_row(look: Look, width: int | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    left = (
        str(look.number),
        moment(look.at)[None if wide(width) else 5 :],
        f"{look.control_sessions} / {look.treatment_sessions}",
        signed(look.difference),
        number(look.z, 2),
        number(look.bound, 2),
        percent(look.fraction),
        chance(look.p_naive),
        chance(look.p_value),
    )
    told = look.conclusion.replace("_", " ") if look.is_look else "no look"
    why = f"{told}: {first_line(look.note)}" if look.note else told
    return left, (number(look.alpha_spent, 4), span(look.low, look.high), why)


def _dimensions(found: Details, width: int | None) -> str:
    if not found.dimensions:
        return ""
    columns = (
        Column("Dimension"),
        Column("Weight", right=True),
        Column("C", right=True),
        Column("T", right=True),
        Column("Diff", right=True),
        Column("This look"),
        Column("z", right=True),
        Column("Bound", right=True),
        *((Column("p naive", right=True), Column("p", right=True)) if wide(width) else ()),
        Column("p Bonf.", right=True),
        *((Column("p Holm", right=True), Column("Data C / T")) if wide(width) else ()),
    )
    rows = []
    for one in found.dimensions:
        coverage = f"{percent(one.coverage[0])} / {percent(one.coverage[1])}" if one.coverage else NOTHING
        rows.append(
            (
                one.name,
                number(one.weight, 2),
                compact(one.control, 2 if not wide(width) else 3),
                compact(one.treatment, 2 if not wide(width) else 3),
                signed(one.difference),
                span(one.low, one.high, 2 if not wide(width) else 3),
                number(one.z, 2),
                number(one.bound, 2),
                *((chance(one.p_naive), chance(one.p_value)) if wide(width) else ()),
                chance(one.p_bonferroni),
                *((chance(one.p_holm), coverage) if wide(width) else ()),
            )
        )
    notes = "\n".join(wrapped(f"{one.name}: {one.note}", width) for one in found.dimensions if one.note)
    told = wrapped(DIMENSIONS_READ, width)
    return "\n".join(part for part in (table(columns, rows, width), notes, told) if part)


def _effects(effects: Mapping[str, Any], width: int | None) -> str:
    names = (
        ("absolute", "Absolute difference"),
        ("relative", "Relative lift"),
        ("hedges_g", "Hedges' g"),
        ("common_language", "P(treated unit is better)"),
    )
    rows = []
    for key, title in names:
        effect = effects.get(key)
        if not isinstance(effect, Mapping):
            continue
        if "not_enough_data" in effect:
            rows.append((title, f"not enough data: {effect['not_enough_data']}"))
            continue
        interval = effect.get("interval") or {}
        low, high = interval.get("low"), interval.get("high")
        if key == "relative":
            shown = f"{percent(effect['estimate'], 1)} [{percent(low, 1)}, {percent(high, 1)}]"
        else:
            shown = f"{number(effect['estimate'])} {span(low, high)}"
        rows.append((title, shown))
    return pairs(rows, width)


def _tests(rows: Sequence[tuple[str, str]], width: int | None) -> str:
    return pairs(rows, width)


def _checks(found: Details, width: int | None) -> str:
    checks = (*found.validity, *found.guardrails)
    if not checks:
        return ""
    return table(
        (Column("Check"), Column("Answer"), Column("Why", wraps=True)),
        ((one.name, one.answer.replace("_", " "), first_line(one.why)) for one in checks),
        width,
    )


def _corrections(found: Details, width: int | None) -> str:
    if not found.corrections:
        return ""
    return table(
        (
            Column("Correction", wraps=True),
            Column("Before", right=True),
            Column("After", right=True),
            Column("Why", wraps=True),
        ),
        ((one.name, _precise(one.before), _precise(one.after), one.why) for one in found.corrections),
        width,
    )


def _precise(value: float | None) -> str:
    return compact(value, 4)


def _winner(one: Experiment) -> str:
    name = one.winner or "none"
    told = one.conclusion.replace("_", " ")
    ending = "; ".join(part for part in (told, one.reason.replace("_", " ")) if part)
    if one.converged_at is None:
        return "not decided yet" + (f" ({ending})" if ending else "")
    return f"{name} ({ending})" if ending else name


def _ending(one: Experiment) -> str:
    return (one.reason or one.conclusion).replace("_", " ") or NOTHING
