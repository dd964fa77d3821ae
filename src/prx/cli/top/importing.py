"""`prx import`: recorded traffic out of files."""

import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from prx.cli.application import App
from prx.cli.call import AgentLeaf, Call
from prx.cli.output import Column, blocks, clean, pairs, table
from prx.cli.text.words import count
from prx.domain.errors import InvalidInput
from prx.domain.records import Record
from prx.ingest.importer import ImportResult, Progress, import_file
from prx.ingest.sniff import DIALECTS
from prx.spool.content import Content, stored_form


@click.command(name="import", cls=AgentLeaf)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--dialect",
    type=click.Choice([one.name for one in DIALECTS]),
    help="Kind of file (default: recognised).",
)
@click.pass_context
def import_(context: click.Context, files: tuple[str, ...], dialect: str | None) -> None:
    """Import agent logs, traces, feedback or other records.

    The same file twice changes nothing. Malformed lines are counted and named, never fatal. Records without
    a time take the time of the import.
    """
    call = Call.of(context)
    results, refused = [], 0
    with call.app(new_agent=True) as app:
        for file in files:
            try:
                results.append(_import(call, app, file, dialect))
            except InvalidInput as error:
                if len(files) == 1:
                    raise
                click.echo(f"prx: {clean(str(error))}", err=True)
                refused += 1
        app.engine.score(call.now)
    call.answer(
        results, lambda: blocks(*(result_text(one, call.width) for one in results), _next(call.agent))
    )
    if refused:
        context.exit(1)


def _import(call: Call, app: App, file: str, dialect: str | None) -> ImportResult:
    content = Content(app.settings.record.content)

    def append(batch: Sequence[Record]) -> int:
        kept = (stored_form(record, content) for record in batch)
        return app.records.append([record for record in kept if record is not None])

    with _progress(file) as tick:
        return import_file(
            Path(file).expanduser(),
            now=call.now,
            append=append,
            agent=call.agent,
            dialect=dialect,
            progress=tick,
        )


def result_text(one: ImportResult, width: int | None) -> str:
    """What became of one file."""
    untimed = f" ({one.untimed} took the import's time)" if one.untimed else ""
    tools = ", ".join(f"{number} {status}" for status, number in sorted(one.tool_calls.items()))
    rows = (
        ("File", one.path),
        ("Dialect", one.dialect),
        ("Records", f"{one.records} in {count(one.items, 'item')}, {one.new} of them new"),
        ("Sessions", str(one.sessions)),
        ("Calls", f"{one.interactions}{untimed}"),
        ("Feedback", str(one.feedback)),
        ("Tool calls", tools),
        ("Malformed", str(one.malformed) if one.malformed else ""),
    )
    problems = table(
        (Column("Line", right=True), Column("Problem", wraps=True)),
        ((str(problem.line), clean(problem.why)) for problem in one.problems),
        width,
    )
    return blocks(pairs(rows, width), problems if one.problems else "")


def _next(agent: str) -> str:
    chosen = "" if agent == "default" else f" --agent {shlex.quote(agent)}"
    return clean(f"Next: prx evolution fitness --breakdown{chosen}")


@contextmanager
def _progress(file: str) -> Iterator[Callable[[Progress], None] | None]:
    """A counter on standard error, on a terminal only."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress as Bar
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(f"{Path(file).name}")
        yield lambda told: bar.update(task, description=f"{Path(file).name}: {told.records} records")
