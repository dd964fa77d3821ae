"""Versions: list, one with its parts, and what lies between two."""

import click

from prx.cli.call import AgentGroup, AgentLeaf, Call
from prx.cli.text.versioned import version_diff_text, version_text, versions_text
from prx.views.versions import diff as diff_of
from prx.views.versions import parts, version_named
from prx.views.versions import versions as versions_of


@click.group(cls=AgentGroup, invoke_without_command=True)
@click.pass_context
def versions(context: click.Context) -> None:
    """List every version of the agent that was ever served."""
    if context.invoked_subcommand is None:
        _list(Call.of(context))


@versions.command(name="list", cls=AgentLeaf)
@click.pass_context
def list_(context: click.Context) -> None:
    """List versions, oldest first."""
    _list(Call.of(context))


@versions.command(cls=AgentLeaf)
@click.argument("version", metavar="VERSION")
@click.pass_context
def show(context: click.Context, version: str) -> None:
    """Show a version (v1.2 or a snapshot id) with its parts."""
    call = Call.of(context)
    with call.view() as view:
        found = version_named(view, call.agent, version)
        held = parts(view, found)
        pointer = view.pointer(call.agent)
    current = pointer is not None and pointer.label == found.label
    call.answer(
        {"version": found, "parts": held}, lambda: version_text(found, held, call.width, current=current)
    )


@versions.command(cls=AgentLeaf)
@click.argument("left", metavar="FROM")
@click.argument("right", metavar="TO")
@click.pass_context
def diff(context: click.Context, left: str, right: str) -> None:
    """Show what differs between two versions."""
    call = Call.of(context)
    with call.view() as view:
        before, after = version_named(view, call.agent, left), version_named(view, call.agent, right)
        found = diff_of(view, before, after)
    call.answer(found, lambda: version_diff_text(found))


def _list(call: Call) -> None:
    with call.view() as view:
        rows = versions_of(view, call.agent)
    call.answer(rows, lambda: versions_text(rows, call.width))
