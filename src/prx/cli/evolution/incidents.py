"""Incidents: what tripped, and a person's acknowledgement."""

import click

from prx.cli.call import AgentGroup, AgentLeaf, Call
from prx.cli.text.found import incidents_text
from prx.domain.events import Incident
from prx.views.findings import incidents as incidents_of
from prx.views.identify import identify


@click.group(cls=AgentGroup, invoke_without_command=True)
@click.pass_context
def incidents(context: click.Context) -> None:
    """List trips of breakers and watches, with the next step."""
    if context.invoked_subcommand is None:
        _list(Call.of(context), False)


@incidents.command(name="list", cls=AgentLeaf)
@click.option("--open", "open_only", is_flag=True, help="Only those not acknowledged.")
@click.pass_context
def list_(context: click.Context, open_only: bool) -> None:
    """List incidents, newest first."""
    _list(Call.of(context), open_only)


@incidents.command(cls=AgentLeaf)
@click.argument("incident_id", metavar="ID")
@click.pass_context
def ack(context: click.Context, incident_id: str) -> None:
    """Acknowledge an incident, so that changes may go on."""
    call = Call.of(context)
    with call.app() as app:
        with app.ledger.view() as view:
            known = identify(view, Incident, incident_id)
        if known.acknowledged_at is None:
            known = app.engine.acknowledge(known.agent, known.incident_id, actor=call.actor, now=call.now)
    call.answer(known, lambda: incidents_text((known,), call.width))


def _list(call: Call, open_only: bool) -> None:
    with call.view() as view:
        rows = incidents_of(view, agent=call.agent, open_only=open_only)
    call.answer(rows, lambda: incidents_text(rows, call.width))
