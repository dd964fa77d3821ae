"""Fitness now, over time, and by dimension."""

from datetime import timedelta

import click

from prx.cli.call import AgentLeaf, Call
from prx.cli.output import folded
from prx.cli.parameters import DURATION
from prx.domain.events import Control
from prx.fitness.show import fitness_json, fitness_text, history_json, history_text
from prx.views.fitness import fitness_now, fitness_over, rules_from


@click.command(cls=AgentLeaf)
@click.option("--history", "over_time", is_flag=True, help="One row per evaluation window.")
@click.option(
    "--last",
    type=DURATION,
    default="30d",
    show_default=True,
    metavar="SPAN",
    help="Span of --history.",
)
@click.option("--breakdown", is_flag=True, help="Sessions, coverage and what is missing, by dimension.")
@click.pass_context
def fitness(context: click.Context, over_time: bool, last: timedelta, breakdown: bool) -> None:
    """Show the agent's fitness, and where it is heading."""
    call = Call.of(context)
    now = call.now
    with call.app() as app:
        app.ship()
        app.engine.score(now)
        with app.ledger.view() as view:
            control = view.maybe(Control, call.agent)
        rules = rules_from(app.settings, control.token_targets if control else None)
        if over_time:
            points = fitness_over(app.records, call.agent, rules, now, last)
            call.answer(history_json(points), lambda: folded(history_text(points), call.width))
            return
        current, trend = fitness_now(app.records, call.agent, rules, now)
    call.answer(
        {"agent": call.agent, **fitness_json(current, trend, breakdown=breakdown)},
        lambda: folded(fitness_text(current, trend, lang=call.lang, breakdown=breakdown), call.width),
    )
