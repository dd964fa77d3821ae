"""Decisions and proposals as text."""

from collections.abc import Sequence

from prx.cli.output import Column, blocks, diff_text, listing, pairs, table, to_line
from prx.cli.text.words import (
    NOTHING,
    an_id,
    first_line,
    moment,
    number,
    shortened,
    signed,
    span,
    wide,
)
from prx.domain.decisions import Decision
from prx.domain.proposals import ProofStep, Proposal
from prx.views.decisions import LayerStats
from prx.views.history import deltas
from prx.views.proposals import ProposalView


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
    return listing(
        columns,
        (
            (
                moment(one.timestamp)[None if wide(width) else 5 :],
                an_id(one.decision_id, width),
                one.layer.label if wide(width) else one.layer.level,
                one.verdict or "undecided",
                one.outcome or NOTHING,
                *((shortened(_description(one), width),) if wide(width) else ()),
                shortened(one.verdict_reason or _description(one), width),
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
            ("Parameters", ", ".join(f"{k} = {to_line(v)}" for k, v in _parameters(one).items())),
            ("Rationale", one.rationale),
            ("Data points", str(one.data_points)),
            ("Evidence", one.evidence or ""),
            ("Shadow", _shadow(one)),
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
    return listing(
        columns,
        (
            (
                moment(one.created_at)[None if wide(width) else 5 :],
                an_id(one.proposal_id, width),
                one.layer.label if wide(width) else one.layer.level,
                one.state.replace("_", " "),
                number(one.risk, 2),
                *((one.author,) if wide(width) else ()),
                shortened(one.description, width),
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


def _description(one: Decision) -> str:
    return str(one.proposal.get("description", ""))


def _shadow(one: Decision) -> str:
    return "; ".join(
        f"{name} {delta.mean:+.3g} [{delta.low:+.3g}, {delta.high:+.3g}]"
        if delta.low is not None and delta.high is not None
        else f"{name} {delta.mean:+.3g}"
        for name, delta in deltas(one.shadow).items()
    )


def _parameters(one: Decision) -> dict[str, object]:
    found = one.proposal.get("parameters")
    return found if isinstance(found, dict) else {}
