"""Decisions, proposals, findings, incidents, versions."""

from collections.abc import Sequence

from prx.cli.output import Column, blocks, clean, diff_text, pairs, table, wrapped
from prx.cli.text.words import (
    NOTHING,
    an_id,
    first_line,
    moment,
    number,
    percent,
    signed,
    span,
    wide,
)
from prx.domain.decisions import Decision
from prx.domain.events import Incident
from prx.domain.findings import Finding
from prx.domain.proposals import ProofStep, Proposal
from prx.domain.versions import MemoryState, PromptSet, Version
from prx.views.decisions import LayerStats
from prx.views.proposals import ProposalView
from prx.views.versions import LayerDiff, PartView, VersionRow, flat_settings


def decisions_text(rows: Sequence[Decision], width: int | None) -> str:
    """A list of decisions, oldest first."""
    if not rows:
        return "No decision matches. `prx evolution history` shows all attempts."
    columns = (
        Column("Time (UTC)"),
        Column("Decision"),
        Column("Layer"),
        Column("Verdict"),
        Column("Outcome"),
        *((Column("Change", wraps=True),) if wide(width) else ()),
        Column("Reason", wraps=True),
    )
    return table(
        columns,
        (
            (
                moment(one.timestamp)[None if wide(width) else 5 :],
                an_id(one.decision_id, width),
                one.layer.label if wide(width) else one.layer.level,
                one.verdict or "undecided",
                one.outcome or NOTHING,
                *((first_line(_description(one)),) if wide(width) else ()),
                first_line(one.verdict_reason or (_description(one))),
            )
            for one in rows
        ),
        width,
    )


def decision_text(one: Decision, width: int | None) -> str:
    """One decision in full."""
    head = pairs(
        (
            ("Decision", one.decision_id),
            ("Cycle", one.cycle_id),
            ("Agent", one.agent),
            ("Layer", one.layer.label),
            ("Time", f"{moment(one.timestamp)} UTC"),
            ("Proposal", one.proposal_id or "none (a rollback)"),
            ("Change", first_line(_description(one))),
            ("Parameters", ", ".join(f"{k} = {v}" for k, v in _parameters(one).items())),
            ("Rationale", one.rationale),
            ("Data points", str(one.data_points)),
            ("Evidence", one.evidence or ""),
            ("Verdict", one.verdict or "undecided"),
            ("Reason", one.verdict_reason),
            ("Judge score", number(one.judge_score, 2) if one.judge_score is not None else ""),
            ("Fitness", f"{number(one.fitness_before)} before, {number(one.fitness_after)} after"),
            ("Executed", "yes" if one.executed else "no"),
            ("Outcome", one.outcome or "open"),
            ("Restored", one.rollback_id or ""),
        ),
        width,
    )
    amendments = table(
        (Column("Time (UTC)"), Column("By"), Column("What followed", wraps=True)),
        ((moment(a.at), a.actor, first_line(a.what)) for a in one.amendments),
        width,
    )
    undo = f"To restore it:\n  prx evolution rollback --snapshot {one.rollback_id}" if one.rollback_id else ""
    return blocks(head, amendments if one.amendments else "", undo)


def stats_text(rows: Sequence[LayerStats], width: int | None) -> str:
    """How often each layer is approved."""
    columns = (
        Column("Layer"),
        Column("Proposed", right=True),
        Column("Approved", right=True),
        Column("Rejected", right=True),
        Column("Deferred", right=True),
        Column("Approval Rate", right=True),
    )
    return table(
        columns,
        (
            (r.layer.label, str(r.proposed), str(r.approved), str(r.rejected), str(r.deferred), r.shown_rate)
            for r in rows
        ),
        width,
    )


def proposals_text(rows: Sequence[Proposal], width: int | None) -> str:
    """A list of proposals, newest first."""
    if not rows:
        return "No proposal matches. `prx evolution findings` shows what could lead to one."
    columns = (
        Column("Created (UTC)"),
        Column("Proposal"),
        Column("Layer"),
        Column("State"),
        Column("Risk", right=True),
        *((Column("By"),) if wide(width) else ()),
        Column("Change", wraps=True),
    )
    return table(
        columns,
        (
            (
                moment(one.created_at)[None if wide(width) else 5 :],
                an_id(one.proposal_id, width),
                one.layer.label if wide(width) else one.layer.level,
                one.state.replace("_", " "),
                number(one.risk, 2),
                *((one.author,) if wide(width) else ()),
                first_line(one.description),
            )
            for one in rows
        ),
        width,
    )


def proposal_text(shown: ProposalView, width: int | None) -> str:
    """One proposal in full, with its diff and every check."""
    one = shown.proposal
    expected = one.expected
    effect = (
        f"{signed(expected.estimate)} {span(expected.low, expected.high)} fitness points ({expected.source})"
        if expected
        else "not estimated"
    )
    head = pairs(
        (
            ("Proposal", one.proposal_id),
            ("Agent", one.agent),
            ("Layer", one.layer.label),
            ("State", f"{one.state.replace('_', ' ')} since {moment(one.state_since)} UTC"),
            ("Why", one.why),
            ("Look again", f"{moment(one.deferred_until)} UTC" if one.deferred_until else ""),
            ("Change", first_line(one.description)),
            ("Rationale", one.rationale),
            ("Trigger", one.trigger),
            ("Author", one.author),
            ("Expected", effect),
            ("Risk", number(one.risk, 2)),
            ("Cost so far", f"{number(one.cost_usd, 4)} USD"),
            ("Expires", f"{moment(one.expires_at)} UTC"),
            ("Decision", one.decision_id),
            ("Experiment", one.experiment_id or ""),
            ("Version", one.version or ""),
            ("Approved", f"by {one.approval.actor}, {moment(one.approval.at)} UTC" if one.approval else ""),
        ),
        width,
    )
    return blocks(head, diff_text(shown.diff), proofs_text(one.proofs, width))


def proofs_text(proofs: Sequence[ProofStep], width: int | None) -> str:
    """The checks that a proposal went through."""
    if not proofs:
        return ""
    return table(
        (Column("Check"), Column("Answer"), Column("Why", wraps=True)),
        ((p.name.replace("_", " "), p.answer.replace("_", " "), first_line(p.why)) for p in proofs),
        width,
    )


def findings_text(rows: Sequence[Finding], width: int | None) -> str:
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
        lines = (one.summary, numbers, scope, f"Do: {one.recommendation}")
        shown.append("\n".join((clean(head), *(wrapped(line, width, "    ") for line in lines if line))))
    return "\n\n".join(shown)


def finding_text(one: Finding, width: int | None) -> str:
    """One finding with its evidence."""
    evidence = "\n".join(f"    {clean(session)}" for session in one.evidence)
    return blocks(findings_text((one,), width), f"Evidence (sessions)\n{evidence}" if evidence else "")


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
        lines = (one.summary, served, numbers, f"Next: {one.next_step}" if one.next_step else "")
        shown.append("\n".join((clean(head), *(wrapped(line, width, "    ") for line in lines if line))))
    return "\n\n".join(shown)


def versions_text(rows: Sequence[VersionRow], width: int | None) -> str:
    """All versions, oldest first."""
    if not rows:
        return "No version yet: the agent gets v1.0 when its first prompt is recorded or proposed."
    columns = (
        Column("Version"),
        Column("Created (UTC)"),
        Column("Status"),
        Column("From"),
        Column("Layer"),
        *((Column("Snapshot"),) if wide(width) else ()),
        Column("Note", wraps=True),
    )
    return table(
        columns,
        (
            (
                row.version.label,
                moment(row.version.created_at),
                "current" if row.current else row.version.status.replace("_", " "),
                row.version.parents[0] if row.version.parents else NOTHING,
                row.version.layer.level if row.version.layer else NOTHING,
                *((row.version.snapshot_id,) if wide(width) else ()),
                first_line(row.version.note),
            )
            for row in rows
        ),
        width,
    )


def version_text(version: Version, parts: Sequence[PartView], width: int | None) -> str:
    """One version with its parts."""
    head = pairs(
        (
            ("Version", version.label),
            ("Snapshot", version.snapshot_id),
            ("Agent", version.agent),
            ("Created", f"{moment(version.created_at)} UTC by {version.source.value}"),
            ("Status", version.status.replace("_", " ")),
            ("From", ", ".join(version.parents)),
            ("Proposal", version.proposal_id or ""),
            ("Note", version.note),
        ),
        width,
    )
    return blocks(head, *(_part_text(part, width) for part in parts))


def _part_text(part: PartView, width: int | None) -> str:
    title = f"{part.layer.label}  {part.part_hash[: None if wide(width) else 19]}"
    content = part.content
    if content is None:
        return f"{title}\n    erased; only the hash is kept"
    if isinstance(content, PromptSet):
        texts = (
            f"    prompt {clean(name)}\n" + "\n".join(f"      {clean(line)}" for line in text.splitlines())
            for name, text in content.texts.items()
        )
        return "\n".join((title, *texts)) if content.texts else f"{title}\n    no prompt"
    if isinstance(content, MemoryState):
        operations = "\n".join(f"    {clean(one)}" for one in content.operations)
        return f"{title}\n{operations or '    no operation'}"
    shown = (f"    {name} = {value}" for name, value in flat_settings(content).items())
    return "\n".join((title, *map(clean, shown)))


def version_diff_text(layers: Sequence[LayerDiff]) -> str:
    """What differs between two versions."""
    if not layers:
        return "The two versions hold the same parts."
    return blocks(*(f"{one.layer.label}\n{diff_text(one.lines)}" for one in layers))


def _description(one: Decision) -> str:
    return str(one.proposal.get("description", ""))


def _parameters(one: Decision) -> dict[str, object]:
    found = one.proposal.get("parameters")
    return found if isinstance(found, dict) else {}
