"""Findings and incidents as text."""

from collections.abc import Sequence

from prx.cli.output import blocks, clean, wrapped
from prx.cli.text.words import (
    an_id,
    moment,
    percent,
)
from prx.domain.events import Incident
from prx.domain.findings import Finding


def findings_text(rows: Sequence[Finding], width: int | None, *, details: bool = False) -> str:
    """Findings, the worst first, each with what to do."""
    if not rows:
        return "No open finding. The analysis needs recorded sessions; it runs daily."
    shown = []
    for one in rows:
        rate = one.rate
        numbers = (
            f"{rate.count} of {rate.total} ({percent(rate.count / rate.total if rate.total else None)}, "
            f"{percent(rate.low)} to {percent(rate.high)}); elsewhere {rate.rest_count} of {rate.rest_total}"
            if rate
            else ""
        )
        scope = ", ".join(
            f"{name} {value}"
            for name, value in (("intent", one.intent), ("model", one.model), ("prompt", one.prompt))
            if value
        )
        head = (
            f"[{one.severity}] {one.kind.replace('_', ' ')}  {one.layer.label}  "
            f"{an_id(one.finding_id, width)}  seen {one.times_seen}x, last {moment(one.last_seen)}"
        )
        lines = (one.summary, numbers if details else "", scope, f"Do: {one.recommendation}")
        shown.append("\n".join((clean(head), *(wrapped(line, width, "    ") for line in lines if line))))
    return "\n\n".join(shown)


def finding_text(one: Finding, width: int | None) -> str:
    """One finding with its evidence."""
    evidence = "\n".join(f"    {clean(session)}" for session in one.evidence)
    return blocks(
        findings_text((one,), width, details=True), f"Evidence (sessions)\n{evidence}" if evidence else ""
    )


def incidents_text(rows: Sequence[Incident], width: int | None) -> str:
    """Incidents, newest first, with numbers and the next step."""
    if not rows:
        return "No incident."
    shown = []
    for one in rows:
        state = f"acknowledged {moment(one.acknowledged_at)}" if one.acknowledged_at else "open"
        head = (
            f"{moment(one.at)}  {one.detector}  {one.layer.label}  {an_id(one.incident_id, width)}  {state}"
        )
        served = f"version {one.version} was left for {one.restored}" if one.restored else ""
        numbers = ", ".join(f"{name} {value:g}" for name, value in one.numbers.items())
        # read already: what it asked for is done
        step = f"Next: {one.next_step}" if one.next_step and not one.acknowledged_at else ""
        lines = (one.summary, served, numbers, step)
        shown.append("\n".join((clean(head), *(wrapped(line, width, "    ") for line in lines if line))))
    return "\n\n".join(shown)
