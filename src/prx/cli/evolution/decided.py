"""Decisions and their statistics, proposals, findings."""

from datetime import timedelta
from typing import TypeVar

import click

from prx.cli.call import AgentLeaf, Call
from prx.cli.parameters import COUNT, DURATION, LAYER, words_of
from prx.cli.text.decided import (
    decision_text,
    decisions_text,
    proposal_text,
    proposals_text,
    stats_text,
)
from prx.cli.text.found import finding_text, findings_text
from prx.domain.decisions import Decision, DecisionOutcome, Verdict
from prx.domain.findings import Finding, FindingKind
from prx.domain.layers import Layer
from prx.domain.proposals import Proposal, ProposalState
from prx.views.decisions import Filter
from prx.views.decisions import decisions as decisions_of
from prx.views.decisions import stats as stats_of
from prx.views.findings import findings as findings_of
from prx.views.identify import identify
from prx.views.proposals import proposal_view
from prx.views.proposals import proposals as proposals_of

T = TypeVar("T")


@click.command(cls=AgentLeaf)
@click.option("--tail", type=COUNT, help="The newest N only.")
@click.option("--layer", "--level", "-l", type=LAYER, help="One layer only.")
@click.option("--last", type=DURATION, metavar="SPAN", help="Of this span only, such as 30d.")
@click.option("--verdict", type=words_of(Verdict), help="With this verdict only.")
@click.option("--outcome", type=words_of(DecisionOutcome), help="With this outcome only.")
@click.option("--id", "decision_id", metavar="ID", help="One decision in full.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    help="json: as --json.",
)
@click.pass_context
def decisions(  # noqa: PLR0917 - one parameter per option
    context: click.Context,
    tail: int | None,
    layer: Layer | None,
    last: timedelta | None,
    verdict: str | None,
    outcome: str | None,
    decision_id: str | None,
    form: str,
) -> None:
    """List what was decided and why, oldest first."""
    if form == "json":
        context.meta["prx.json"] = True
    call = Call.of(context)
    with call.view() as view:
        if decision_id:
            one = identify(view, Decision, decision_id)
            call.answer(one, lambda: decision_text(one, call.width))
            return
        wanted = Filter(
            agent=call.agent,
            layer=layer,
            since=call.now - last if last else None,
            verdict=Verdict(verdict) if verdict else None,
            outcome=DecisionOutcome(outcome) if outcome else None,
            tail=tail,
        )
        rows = decisions_of(view, wanted)
    call.answer(rows, lambda: decisions_text(rows, call.width))


@click.command(cls=AgentLeaf)
@click.option("--last", type=DURATION, metavar="SPAN", help="Of this span only, such as 90d.")
@click.pass_context
def stats(context: click.Context, last: timedelta | None) -> None:
    """Show how often proposals of each layer are approved."""
    call = Call.of(context)
    with call.view() as view:
        rows = stats_of(view, agent=call.agent, since=call.now - last if last else None)
    call.answer(rows, lambda: stats_text(rows, call.width))


@click.command(cls=AgentLeaf)
@click.option("--id", "proposal_id", metavar="ID", help="One proposal in full, with its diff and checks.")
@click.option("--state", type=words_of(ProposalState), help="In this state only.")
@click.option("--layer", "--level", "-l", type=LAYER, help="One layer only.")
@click.option("--limit", "-n", type=COUNT, default=20, show_default=True, help="Rows at most.")
@click.pass_context
def proposals(
    context: click.Context, proposal_id: str | None, state: str | None, layer: Layer | None, limit: int
) -> None:
    """List proposed changes, newest first.

    With --id one of them: its diff, every check it went through, and where it stands.
    """
    call = Call.of(context)
    with call.view() as view:
        if proposal_id:
            shown = proposal_view(view, identify(view, Proposal, proposal_id))
            call.answer(shown, lambda: proposal_text(shown, call.width))
            return
        states = None if state is None else (ProposalState(state),)
        rows = proposals_of(view, agent=call.agent, states=states, layer=layer, limit=limit)
    call.answer(rows, lambda: proposals_text(rows, call.width))


@click.command(cls=AgentLeaf)
@click.option("--id", "finding_id", metavar="ID", help="One finding with its evidence.")
@click.option("--layer", "--level", "-l", type=LAYER, help="One layer only.")
@click.option("--kind", type=words_of(FindingKind), help="Of this kind only.")
@click.option("--all", "resolved", is_flag=True, help="Resolved ones too.")
@click.pass_context
def findings(
    context: click.Context, finding_id: str | None, layer: Layer | None, kind: str | None, resolved: bool
) -> None:
    """List what the analysis found wrong, the worst first."""
    call = Call.of(context)
    with call.view() as view:
        if finding_id:
            one = identify(view, Finding, finding_id)
            call.answer(one, lambda: finding_text(one, call.width))
            return
        wanted = FindingKind(kind) if kind else None
        rows = findings_of(view, agent=call.agent, layer=layer, kind=wanted, resolved=resolved)
    call.answer(rows, lambda: findings_text(rows, call.width))


DECIDED_COMMANDS = (decisions, stats, proposals, findings)
