"""What evolution costs."""

import click

from prx.cli.call import AgentLeaf, Call
from prx.cli.text.cost import cost_text
from prx.views.cost import cost as cost_of


@click.command(cls=AgentLeaf)
@click.option("--forecast", is_flag=True, help="Also where the month is heading, and the months before.")
@click.pass_context
def cost(context: click.Context, forecast: bool) -> None:
    """Show what the engine's own model calls cost this month.

    Per model role, with the limit of [self_evolution.budget]. Serving is never limited by it.
    """
    call = Call.of(context)
    with call.app() as app:
        serving = app.serving_usd(call.agent)
        with app.ledger.view() as view:
            found = cost_of(view, app.settings, call.agent, call.now, serving)
    call.answer(found, lambda: cost_text(found, call.width, forecast=forecast))
