"""`prx demo`: the whole loop on a simulated model, in under a minute."""

import click

from prx.cli.call import Call, Leaf


@click.command(cls=Leaf)
@click.option("--seed", type=int, default=7, show_default=True, help="Equal seeds tell equal stories.")
@click.pass_context
def demo(context: click.Context, seed: int) -> None:
    """Watch the whole loop on a simulated model.

    Real customer messages, a simulated model behind the same protocol as a real one, a fast clock; no key
    and no network are needed. The state stays, so that every other command can look around in it.
    """
    from prx.demo.run import run

    call = Call.of(context)
    run(home=call.home, seed=seed, as_json=call.json, env=call.outside.env)
