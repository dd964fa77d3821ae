"""Experiments: list, one in full, its plot, and what a person may do to it."""

from pathlib import Path

import click

from prx.cli.call import AgentGroup, AgentLeaf, Call
from prx.cli.output import blocks
from prx.cli.parameters import LAYER, words_of
from prx.cli.text.chart import chart_svg, chart_text
from prx.cli.text.trial import details_text, experiment_text, experiments_text
from prx.cli.text.trial_plan import forecast_text
from prx.domain.errors import InvalidInput
from prx.domain.experiments import Experiment, ExperimentStatus
from prx.domain.layers import Layer
from prx.settings.writing import write_text
from prx.views.experiments import details as details_of
from prx.views.experiments import experiments as experiments_of
from prx.views.identify import identify

_TERMINAL = "-"
_STATUS = click.option("--status", type=words_of(ExperimentStatus), help="In this status only.")
_LAYER = click.option("--layer", "--level", "-l", type=LAYER, help="One layer only.")
_DETAILS = click.option("--details", is_flag=True, help="Plan, looks, dimensions, validity and corrections.")
_PLOT = click.option(
    "--plot",
    is_flag=False,
    flag_value=_TERMINAL,
    metavar="[FILE.svg]",
    help="Draw the difference at every look: here, or into an SVG file.",
)


@click.group(cls=AgentGroup, invoke_without_command=True)
@_STATUS
@click.option("--id", "experiment_id", metavar="ID", help="One experiment.")
@_DETAILS
@_PLOT
@click.pass_context
def experiments(
    context: click.Context,
    status: str | None,
    experiment_id: str | None,
    details: bool,
    plot: str | None,
) -> None:
    """List live experiments, or show one with --id.

    An experiment compares a proposal with the current version on real traffic.
    """
    if context.invoked_subcommand is not None:
        return
    if experiment_id:
        _show(Call.of(context), experiment_id, details, plot)
    elif details or plot:
        raise click.UsageError("--details and --plot need --id ID; `prx evolution experiments` lists them")
    else:
        _list(Call.of(context), status, None)


@experiments.command(name="list", cls=AgentLeaf)
@_STATUS
@_LAYER
@click.pass_context
def list_(context: click.Context, status: str | None, layer: Layer | None) -> None:
    """List experiments, newest first."""
    _list(Call.of(context), status, layer)


@experiments.command(cls=AgentLeaf)
@click.argument("experiment_id", metavar="ID")
@_DETAILS
@_PLOT
@click.pass_context
def show(context: click.Context, experiment_id: str, details: bool, plot: str | None) -> None:
    """Show one experiment."""
    _show(Call.of(context), experiment_id, details, plot)


@experiments.command(cls=AgentLeaf)
@click.option("--layer", "--level", "-l", type=LAYER, default="prompt", show_default=True, help="Layer.")
@click.pass_context
def plan(context: click.Context, layer: Layer) -> None:
    """Forecast what an experiment could find out; starts none."""
    call = Call.of(context)
    with call.app() as app:
        app.ship()
        forecast = app.engine.plan_experiment(call.agent, layer, call.now)
    call.answer(
        forecast, lambda: forecast_text(forecast, call.width) or "no forecast: no traffic was recorded"
    )


@experiments.command(cls=AgentLeaf)
@click.option("--aa", is_flag=True, help="Both arms equal: tests the measuring itself.")
@click.option("--layer", "--level", "-l", type=LAYER, default="prompt", show_default=True, help="Layer.")
@click.pass_context
def create(context: click.Context, aa: bool, layer: Layer) -> None:
    """Start an A/A test.

    An experiment on a change begins by itself once the change is proven and approved.
    """
    call = Call.of(context)
    if not aa:
        raise InvalidInput(
            "only A/A tests are created by hand (--aa); for your own text use `prx evolution propose`, "
            "its experiment starts once it passed gate, shadow and judge"
        )
    with call.app() as app:
        app.ship()
        made = app.engine.create_aa(call.agent, layer, actor=call.actor, now=call.now)
    call.answer(made, lambda: details_text(details_of(made), call.width))


@experiments.command(cls=AgentLeaf)
@click.argument("experiment_id", metavar="ID")
@click.pass_context
def cancel(context: click.Context, experiment_id: str) -> None:
    """End a running experiment; everyone gets the control again."""
    call = Call.of(context)
    with call.app() as app:
        with app.ledger.view() as view:
            known = identify(view, Experiment, experiment_id).experiment_id
        ended = app.engine.cancel_experiment(known, actor=call.actor, now=call.now)
    call.answer(ended, lambda: experiment_text(ended, call.width))


@experiments.command(cls=AgentLeaf)
@click.argument("experiment_id", metavar="ID")
@click.pass_context
def converge(context: click.Context, experiment_id: str) -> None:
    """End an experiment with what its results conclude now."""
    call = Call.of(context)
    with call.app() as app:
        with app.ledger.view() as view:
            known = identify(view, Experiment, experiment_id).experiment_id
        app.ship()
        ended = app.engine.converge_experiment(known, actor=call.actor, now=call.now)
    call.answer(ended, lambda: details_text(details_of(ended), call.width))


def _list(call: Call, status: str | None, layer: Layer | None) -> None:
    wanted = ExperimentStatus(status) if status else None
    with call.view() as view:
        rows = experiments_of(view, agent=call.agent, status=wanted, layer=layer)
    call.answer(rows, lambda: experiments_text(rows, call.width))


def _show(call: Call, experiment_id: str, details: bool, plot: str | None) -> None:
    if plot not in (None, _TERMINAL) and not str(plot).endswith(".svg"):
        raise click.BadParameter(f"{plot} must end in .svg", param_hint="--plot")
    with call.view() as view:
        one = identify(view, Experiment, experiment_id)
    if plot not in (None, _TERMINAL):
        write_text(Path(str(plot)), chart_svg(one))
        call.say(f"wrote {plot}")
    found = details_of(one)
    chart = chart_text(one, call.width) if plot == _TERMINAL else ""
    call.answer(
        found if details else one,
        lambda: blocks(
            details_text(found, call.width) if details else experiment_text(one, call.width), chart
        ),
    )
