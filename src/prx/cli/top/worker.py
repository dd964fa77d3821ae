"""`prx worker`: ships records into the store and does what is due, again and again."""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import FrameType

import click

from prx.cli.application import App
from prx.cli.call import Call, Leaf
from prx.cli.output import clean
from prx.domain.errors import EvolutionError
from prx.engine.report import Report
from prx.settings import load

GRACE_SECONDS = 4.0


class StoppedAtWork(BaseException):
    """The time to finish the work at hand is over; what is half-done is undone by its transaction."""


@click.command(cls=Leaf)
@click.option(
    "--every", type=click.FloatRange(0.1), default=2.0, show_default=True, help="Seconds between runs."
)
@click.option("--once", is_flag=True, help="Run once and end.")
@click.option("--parent", type=int, help="End when this process is no longer our parent.", hidden=True)
@click.pass_context
def worker(context: click.Context, every: float, once: bool, parent: int | None) -> None:
    """Ship records and advance the engine until told to stop.

    `prx serve` starts one; start it yourself where only the SDK records. Every run ships and scores what was
    recorded and does what guards the agents; other due work is looked for every
    `pipeline.gate_check_interval_secs`, and at once after someone decided something. A run that fails is
    told once and tried again: serving and recording do not depend on it. It prints nothing on standard
    output, but the steps of its run with `--once --json`.
    """
    call = Call.of(context)
    loop = Loop(call, lambda line: click.echo(clean(line), err=True))
    with told_to_stop(GRACE_SECONDS) as stop, contextlib.suppress(StoppedAtWork), contextlib.closing(loop):
        while not stop.is_set() and (parent is None or os.getppid() == parent):
            try:
                report = loop.run()
                if once and call.json:
                    call.answer({"steps": tuple(report.steps)}, str)
            except (EvolutionError, OSError) as error:
                if once:
                    raise
                loop.close()
                loop.tell("run", str(error))
            if once:
                return
            stop.wait(every)


@dataclass(slots=True)
class Loop:
    """The runs of one worker. Its stores stay open; a changed configuration file opens them anew."""

    call: Call
    say: Callable[[str], object]
    opened: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    app: App | None = None
    file_state: tuple[int, int] | None = None
    next_full: datetime | None = None
    seen: int | None = None
    told: dict[str, str] = field(default_factory=dict)

    def run(self) -> Report:
        """One run. Raises: EvolutionError, OSError where nothing could be opened."""
        app = self._opened()
        now = self.call.now
        full = self.next_full is None or now >= self.next_full or app.ledger.data_version() != self.seen
        report = app.advance(safety_only=not full)
        if full:
            self.next_full = now + timedelta(seconds=app.settings.pipeline.gate_check_interval_secs)
        self.seen = app.ledger.data_version()
        errors = {f"{step.what} {step.subject}": step.why for step in report.steps if step.answer == "error"}
        for place, why in errors.items():
            self.tell(place, why)
        self.told = {place: why for place, why in self.told.items() if place in errors}
        if report.replaced:
            self.close()
        return report

    def tell(self, place: str, why: str) -> None:
        """Say an error once, until it is over, whatever it breaks."""
        if why not in self.told.values():
            self.say(f"prx worker: {why}; trying again")
        self.told[place] = why

    def close(self) -> None:
        """Release the stores."""
        self.app = None
        self.opened.close()

    def _opened(self) -> App:
        if self.app is not None and self._configuration_changed(self.app):
            self.close()
        if self.app is None:
            self.app = self.opened.enter_context(self.call.app(new_agent=True, ship=False))
            self.file_state = _state(self.app)
            self.next_full = None
        return self.app

    def _configuration_changed(self, app: App) -> bool:
        """Whether there is a new and good one; a bad one is told, and the last good one stays."""
        now = _state(app)
        if now == self.file_state:
            return False
        self.file_state = now
        try:
            load(app.settings.file, self.call.outside.env, self.call.outside.folder)
        except EvolutionError as error:
            self.say(f"prx worker: {error}; the last good configuration stays in force")
            return False
        return True


def _state(app: App) -> tuple[int, int] | None:
    try:
        found = app.settings.file.stat() if app.settings.file else None
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_size) if found else None


@contextlib.contextmanager
def told_to_stop(grace: float) -> Iterator[threading.Event]:
    """An event that SIGTERM and SIGINT set; work that is not done `grace` seconds later is broken off.

    Raises, in the main thread: StoppedAtWork.
    """
    stop = threading.Event()

    def asked(_number: int, _frame: FrameType | None) -> None:
        if not stop.is_set():
            stop.set()
            signal.setitimer(signal.ITIMER_REAL, grace)

    def late(_number: int, _frame: FrameType | None) -> None:
        raise StoppedAtWork

    handlers = {signal.SIGTERM: asked, signal.SIGINT: asked, signal.SIGALRM: late}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield stop
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)
