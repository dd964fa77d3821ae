"""`prx demo`: the whole loop on a simulated model, in about a minute."""

import click

from prx.cli.call import Call, Leaf


@click.command(cls=Leaf)
@click.option(
    "--seed",
    type=int,
    default=7,
    show_default=True,
    help="Equal seeds tell equal stories.",
)
@click.option(
    "--world",
    metavar="NAME",
    default="improvable",
    show_default=True,
    help="What is true in the simulation: improvable, null, harmful, hackable, drift, poisoned, low-traffic "
    "or outage.",
)
@click.option("--days", type=click.IntRange(3, 365), default=60, show_default=True, help="Simulated days.")
@click.pass_context
def demo(context: click.Context, seed: int, world: str, days: int) -> None:
    """Watch the whole loop in a simulated world.

    Real customer messages, simulated models behind the same protocol as real ones, a fast clock; no key and
    no network are needed. The state stays, so that every other command can look around in it: where --home
    or $PRX_HOME says, else, or where something is there already, in a new folder that is named at the end.
    """
    from prx.demo.run import run

    call = Call.of(context)
    run(home=call.home, seed=seed, world=world, days=days, as_json=call.json, env=call.outside.env)
