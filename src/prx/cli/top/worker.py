"""`prx worker`: ships records into the store and does what is due, again and again."""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator

import click

from prx.cli.call import Call, Leaf
from prx.domain.errors import EvolutionError


@click.command(cls=Leaf)
@click.option(
    "--every", type=click.FloatRange(0.1), default=2.0, show_default=True, help="Seconds between runs."
)
@click.option("--once", is_flag=True, help="Run once and end.")
@click.option("--parent", type=int, help="End when this process is no longer our parent.", hidden=True)
@click.pass_context
def worker(context: click.Context, every: float, once: bool, parent: int | None) -> None:
    """Ship spooled records and advance the engine until told to stop.

    `prx serve` starts one; start it yourself where only the SDK records. A run that fails is told once
    and tried again: serving and recording do not depend on it.
    """
    call = Call.of(context)
    with _told_to_stop() as stop:
        failed = ""
        while not stop.is_set() and (parent is None or os.getppid() == parent):
            try:
                _run(call)
                failed = ""
            except (EvolutionError, OSError) as error:
                if once:
                    raise
                if str(error) != failed:
                    failed = str(error)
                    click.echo(f"prx worker: {failed}; trying again", err=True)
            if once:
                return
            stop.wait(every)


def _run(call: Call) -> None:
    with call.app(new_agent=True) as app:
        app.ship()
        app.engine.advance(call.now)


@contextlib.contextmanager
def _told_to_stop() -> Iterator[threading.Event]:
    stop = threading.Event()
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    for number in before:
        signal.signal(number, lambda *_: stop.set())
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
