"""`prx export`: everything that is stored, as lines of JSON."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

import click

from prx.cli.application import App
from prx.cli.call import AgentLeaf, Call
from prx.cli.output import harmless, pairs
from prx.domain.codec import encode
from prx.domain.decisions import Decision
from prx.domain.errors import InvalidInput
from prx.domain.events import Incident
from prx.domain.experiments import Experiment
from prx.domain.findings import Finding
from prx.domain.proposals import Proposal
from prx.domain.versions import Version
from prx.ledger.port import View

_KINDS: dict[str, type[Any]] = {
    "decisions": Decision,
    "experiments": Experiment,
    "findings": Finding,
    "incidents": Incident,
    "proposals": Proposal,
    "versions": Version,
}
SUBJECTS = ("sessions", "scores", *_KINDS)


@click.command(cls=AgentLeaf)
@click.argument("subject", type=click.Choice(SUBJECTS))
@click.option("--out", metavar="FILE", help="Write here instead of standard output.")
@click.option("--force", is_flag=True, help="Replace a file that is there.")
@click.pass_context
def export(context: click.Context, subject: str, out: str | None, force: bool) -> None:
    """Write records of one kind as lines of JSON, oldest first."""
    call = Call.of(context)
    with call.app() as app, app.ledger.view() as view:
        rows = _rows(app, view, call.agent, subject)
        written = _to_file(rows, Path(out).expanduser(), force) if out else _to_screen(rows)
    if out:
        summary = (("Wrote", f"{written} {subject}"), ("File", out))
        call.answer({"subject": subject, "rows": written, "file": out}, lambda: pairs(summary, call.width))


def _rows(app: App, view: View, agent: str, subject: str) -> Iterator[Any]:
    if subject == "sessions":
        return app.records.traces(agent=agent)
    if subject == "scores":
        return app.records.scores(agent=agent)
    return iter(view.find(_KINDS[subject], agent=agent))


def _to_screen(rows: Iterator[Any]) -> int:
    return _write(rows, lambda line: click.echo(harmless(line), nl=False))


def _to_file(rows: Iterator[Any], path: Path, force: bool) -> int:
    if path.exists() and not force:
        raise InvalidInput(f"{path} is there already; name another file, or replace it with --force")
    file: TextIO
    with path.open("w", encoding="utf-8") as file:
        return _write(rows, file.write)


def _write(rows: Iterator[Any], put: Callable[[str], object]) -> int:
    written = 0
    for row in rows:
        put(encode(row).decode() + "\n")
        written += 1
    return written
