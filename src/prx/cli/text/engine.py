"""Status, history and the report of a run."""

import re
from collections.abc import Sequence
from datetime import datetime

from prx.cli.output import Column, blocks, clean, pairs, table, wrapped
from prx.cli.text.words import (
    NOTHING,
    an_id,
    count,
    first_line,
    lasting,
    moment,
    number,
    relative,
    schedule_words,
    shortened,
    wide,
)
from prx.engine.report import Step
from prx.views.history import Attempt
from prx.views.status import Status

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def status_text(found: Status, now: datetime, width: int | None) -> str:
    """What `prx evolution status` prints."""
    served = f"{found.version} since {moment(found.version_since)} UTC" if found.version else "no version yet"
    head = pairs(
        (
            ("Agent", found.agent),
            ("Engine", f"{found.engine} ({found.why})" if found.why else found.engine),
            ("Version", served),
            ("Total cycles", str(found.total_cycles)),
            ("Rollbacks", str(found.rollbacks)),
            ("Experiments", f"{found.experiments_running} running"),
            ("Findings", f"{found.findings} open"),
            ("Incidents", f"{found.open_incidents} open"),
            ("Awaiting you", count(len(found.awaiting_approval), "proposal")),
        ),
        width,
    )
    columns = (
        Column("Layer"),
        Column("Mode", wraps=True),
        Column("Schedule"),
        Column("Last"),
        Column("Next"),
        Column("Open", right=True),
    )
    layers = table(
        columns,
        (
            (
                one.layer.label,
                one.mode if one.breaker == "closed" else f"{one.mode}, breaker {one.breaker}",
                schedule_words(one.schedule),
                relative(one.last_run, now),
                _next(one.next_run, now),
                str(one.in_work),
            )
            for one in found.layers
        ),
        width,
    )
    hints = "\n".join(wrapped(f"- {hint}", width, hanging="  ") for hint in found.hints)
    waits = "\n".join(wrapped(f"- {why}", width, hanging="  ") for why in found.no_experiment_because)
    return blocks(head, layers, f"Waiting\n{waits}" if waits else "", f"Next\n{hints}" if hints else "")


def _next(at: datetime | None, now: datetime) -> str:
    return "due now" if at is not None and at <= now else relative(at, now)


def history_text(rows: Sequence[Attempt], width: int | None) -> str:
    """What `prx evolution history` prints."""
    if not rows:
        return "No change was attempted yet. `prx evolution findings` shows what the analysis saw."
    if wide(width):
        columns = (
            Column("Time (UTC)"),
            Column("Candidate"),
            Column("Layer"),
            Column("Trigger", wraps=True),
            Column("Change", wraps=True),
            Column("Shadow", wraps=True),
            Column("Judge", right=True),
            Column("Outcome"),
            Column("Active", right=True),
        )
        return table(columns, (_wide_row(one, width) for one in rows), width)
    narrow = (
        Column("Time (UTC)"),
        Column("Candidate"),
        Column("Layer"),
        Column("Outcome"),
        Column("Judge", right=True),
        Column("Active", right=True),
    )
    lines = table(narrow, (_narrow_row(one, width) for one in rows), width).splitlines()
    shown = [lines[0]]
    for line, one in zip(lines[1:], rows, strict=True):
        shown.append(line)
        shown.append(wrapped(shortened(one.description, width, 220), width, "    "))
        told = "; ".join(part for part in (_trigger(one), _shadow(one)) if part)
        if told:
            shown.append(wrapped(told, width, "    "))
    return "\n".join(shown)


def _wide_row(one: Attempt, width: int | None) -> tuple[str, ...]:
    return (
        moment(one.time),
        an_id(one.candidate_id, width),
        one.layer.label,
        shortened(one.trigger, width),
        shortened(one.description, width),
        _shadow(one) or NOTHING,
        number(one.judge_score, 2),
        one.outcome.replace("_", " "),
        lasting(one.active_seconds),
    )


def _narrow_row(one: Attempt, width: int | None) -> tuple[str, ...]:
    return (
        moment(one.time),
        an_id(one.candidate_id, width),
        one.layer.label,
        one.outcome.replace("_", " "),
        number(one.judge_score, 2),
        lasting(one.active_seconds),
    )


def _trigger(one: Attempt) -> str:
    return f"trigger: {first_line(one.trigger)}" if one.trigger else ""


def _shadow(one: Attempt) -> str:
    return ", ".join(f"{name} {delta.mean:+.3g}" for name, delta in one.shadow.items())


def report_text(steps: Sequence[Step], width: int | None) -> str:
    """What a run did, step by step."""
    if not steps:
        return "Nothing was due."
    if not wide(width):
        return "\n".join(_step_lines(step, width) for step in steps)
    columns = (Column("Step"), Column("Subject"), Column("Answer"), Column("Why", wraps=True))
    return table(
        columns,
        (
            (
                s.what,
                an_id(s.subject, width) if "-" in s.subject else s.subject,
                s.answer,
                shortened(s.why, width, 300),
            )
            for s in steps
        ),
        width,
    )


def _step_lines(step: Step, width: int | None) -> str:
    head = f"{step.what} {_subject(step, width)}: {step.answer.replace('_', ' ')}"
    return f"{clean(head)}\n{wrapped(shortened(step.why, width, 220), width, '    ')}"


def _subject(step: Step, width: int | None) -> str:
    return an_id(step.subject, width) if _UUID.fullmatch(step.subject) else first_line(step.subject)
