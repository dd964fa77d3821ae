"""`prx memory`: what an agent remembers, and the two ways to put it in order."""

import click

from prx.cli.call import AgentLeaf, Call
from prx.cli.output import pairs
from prx.cli.text.engine import report_text
from prx.domain.memory import MemoryStats
from prx.propose.tending import Task


@click.group()
def memory() -> None:
    """What an agent remembers."""


@memory.command(cls=AgentLeaf)
@click.pass_context
def stats(context: click.Context) -> None:
    """Count entries, their use, and what was put away."""
    call = Call.of(context)
    with call.app() as app:
        found = app.engine.memory_stats(call.agent, call.now)
    call.answer(found, lambda: pairs(_rows(found), call.width))


@memory.command(cls=AgentLeaf)
@click.option("--dry-run", is_flag=True, help="Say what would be done; write nothing.")
@click.pass_context
def compact(context: click.Context, dry_run: bool) -> None:
    """Summarise the largest topic that says much the same.

    One summary takes the place of its entries once gate and query replay let it pass; no fact is lost, and
    `prx evolution rollback --layer memory` brings the entries back.
    """
    _tend(context, Task.COMPACT, dry_run)


@memory.command(cls=AgentLeaf)
@click.option("--dry-run", is_flag=True, help="Say what would be done; write nothing.")
@click.pass_context
def prune(context: click.Context, dry_run: bool) -> None:
    """Put entries away that two signs speak against.

    At most 2 % of the entries at once, after gate and query replay; `prx evolution rollback --layer memory`
    brings them back.
    """
    _tend(context, Task.PRUNE, dry_run)


def _tend(context: click.Context, task: Task, dry_run: bool) -> None:
    call = Call.of(context)
    with call.app(ship=not dry_run) as app:
        report = app.engine.tend_memory(call.agent, (task,), call.now, dry_run=dry_run)
    steps = tuple(report.steps)
    call.answer({"steps": steps}, lambda: report_text(steps, call.width) if steps else _IDLE)
    if any(step.answer == "error" for step in steps):
        context.exit(1)


_IDLE = "Nothing is remembered yet; there is nothing to do."


def _rows(found: MemoryStats) -> tuple[tuple[str, str], ...]:
    use = f"recalled {found.retrieved} times; confirmed {found.confirmed}, contradicted {found.contradicted}"
    return (
        ("Agent", found.agent),
        ("Active", f"{found.active} entries, {found.characters} characters"),
        ("Of these", f"{found.summaries} summaries, {found.shared} shared, {found.pinned} pinned"),
        ("Put away", f"{found.archived} archived, {found.superseded} out of date"),
        ("Use", use),
        ("Replayable", f"{found.queries} logged queries"),
    )
