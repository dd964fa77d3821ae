"""How the engine stands, what it tried, its configuration, and one run of it."""

import click

from prx.cli.call import AgentLeaf, Call
from prx.cli.parameters import COUNT, LAYER
from prx.cli.text.digest import digest_text
from prx.cli.text.engine import history_text, report_text, status_text
from prx.domain.errors import InvalidInput
from prx.domain.events import Control
from prx.domain.layers import Layer
from prx.domain.times import parse_time
from prx.engine.report import Report
from prx.settings import plain
from prx.settings.loading import DEFAULT_FILE
from prx.settings.reference import toml_text
from prx.settings.writing import set_values
from prx.views.digest import digest as digest_of
from prx.views.fitness import rules_from
from prx.views.history import history as history_of
from prx.views.status import status as status_of


@click.command(cls=AgentLeaf)
@click.pass_context
def status(context: click.Context) -> None:
    """Show how the engine stands, and what waits for you."""
    call = Call.of(context)
    with call.app() as app, app.ledger.view() as view:
        found = status_of(view, app.settings, call.agent)
    call.answer(found, lambda: status_text(found, call.now, call.width))


@click.command(cls=AgentLeaf)
@click.option("--limit", "-n", type=COUNT, default=20, show_default=True, help="Rows at most.")
@click.option("--layer", "--level", "-l", type=LAYER, help="One layer only: L1, L2, L3 or its name.")
@click.pass_context
def history(context: click.Context, limit: int, layer: Layer | None) -> None:
    """List every attempt to change the agent, newest first."""
    call = Call.of(context)
    with call.view() as view:
        rows = history_of(view, call.agent, call.now, layer=layer, limit=limit)
    call.answer(rows, lambda: history_text(rows, call.width))


@click.command(cls=AgentLeaf)
@click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="KEY=VALUE",
    help="Write a key to the file (l1.enabled=true); may be given several times.",
)
@click.pass_context
def config(context: click.Context, changes: tuple[str, ...]) -> None:
    """Show the configuration, or change keys of the file.

    A bad key or value is refused before anything is written; comments in the file stay.
    """
    call = Call.of(context)
    outside = call.outside
    if changes:
        path = call.config or call.config_file() or outside.folder / DEFAULT_FILE
        wanted = dict(_key_and_value(change) for change in changes)
        set_values(path, wanted, outside.env)
        call.say(f"{path}: " + ", ".join(f"{key} = {value}" for key, value in wanted.items()))
        if not call.json:
            return
    settings = call.settings()
    call.answer(plain(settings), lambda: _config_text(plain(settings), str(settings.file or "defaults")))


def _key_and_value(change: str) -> tuple[str, str]:
    key, equals, value = change.partition("=")
    if not equals or not key.strip():
        raise click.BadParameter(f"{change!r} is no KEY=VALUE, such as l1.enabled=true", param_hint="--set")
    return key.strip(), value.strip()


def _config_text(values: dict[str, object], source: str) -> str:
    lines = [f"# from {source}", *_toml(values, "self_evolution")]
    return "\n".join(lines)


def _toml(values: dict[str, object], name: str) -> list[str]:
    flat = {k: v for k, v in values.items() if not _is_tables(v)}
    lines = [f"[{name}]", *(f"{key} = {toml_text(value)}" for key, value in flat.items())] if flat else []
    for key, value in values.items():
        if isinstance(value, dict):
            lines += ["", *_toml(value, f"{name}.{key}")] if value else []
        elif _is_tables(value) and isinstance(value, list):
            for entry in value:
                lines += ["", f"[[{name}.{key}]]", *(f"{k} = {toml_text(v)}" for k, v in entry.items())]
    return lines if flat or not lines or lines[0] else lines[1:]


def _is_tables(value: object) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and any(isinstance(v, dict) for v in value))


@click.command(cls=AgentLeaf)
@click.option(
    "--layer",
    "--level",
    "-l",
    type=LAYER,
    default="l1",
    show_default=True,
    help="Layer that may propose.",
)
@click.option("--dry-run", is_flag=True, help="Say what would be done; write nothing.")
@click.pass_context
def trigger(context: click.Context, layer: Layer, dry_run: bool) -> None:
    """Run one evolution cycle of a layer now.

    It takes the same path as a scheduled cycle: nothing skips the gate.
    """
    call = Call.of(context)
    with call.app(ship=not dry_run) as app:
        report = app.engine.trigger(call.agent, layer, call.now, dry_run=dry_run)
    _answer_report(context, call, report)


@click.command(cls=AgentLeaf)
@click.pass_context
def advance(context: click.Context) -> None:
    """Execute whatever is due now, for all agents.

    Analysis, proposals, proofs, looks at experiments, watches. A timer may call this as often as it likes.
    """
    call = Call.of(context)
    with call.app() as app:
        report = app.advance()
    _answer_report(context, call, report)


def _answer_report(context: click.Context, call: Call, report: Report) -> None:
    steps = tuple(report.steps)
    call.answer({"steps": steps}, lambda: report_text(steps, call.width))
    if any(step.answer == "error" for step in steps):
        context.exit(1)


@click.command(cls=AgentLeaf)
@click.option("--date", "day", metavar="YYYY-MM-DD", help="Day in UTC (default: today).")
@click.pass_context
def digest(context: click.Context, day: str | None) -> None:
    """Show one day of the agent on one page."""
    call = Call.of(context)
    wanted = parse_time(day) if day else call.now
    if wanted > call.now:
        raise InvalidInput(f"{wanted.date()} is not here yet; give a past day or leave --date out")
    with call.app() as app:
        app.ship()
        app.engine.score(call.now)
        with app.ledger.view() as view:
            control = view.maybe(Control, call.agent)
            rules = rules_from(app.settings, control.token_targets if control else None)
            found = digest_of(view, app.records, rules, call.agent, wanted.date())
    call.answer(found, lambda: digest_text(found, call.width))


LOOK_COMMANDS = (status, history, config, trigger, advance, digest)
