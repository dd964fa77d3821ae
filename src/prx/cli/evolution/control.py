"""What a person tells the engine: approve, reject, confirm, propose, roll back, pause, resume, kill."""

import re
import sys
from pathlib import Path

import click

from prx.cli.application import App
from prx.cli.call import AgentLeaf, Call
from prx.cli.output import clean, pairs
from prx.cli.parameters import LAYER
from prx.cli.text.decided import proposal_text
from prx.cli.text.words import count
from prx.domain.errors import InvalidInput
from prx.domain.events import Control
from prx.domain.layers import Layer
from prx.domain.operations import Operation
from prx.domain.proposals import Proposal
from prx.views.identify import identify
from prx.views.proposals import proposal_view

_MAX_PROMPT = 1_000_000
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f]")


@click.command(cls=AgentLeaf)
@click.argument("target", required=False, metavar="[VERSION]")
@click.option("--layer", "--level", "-l", type=LAYER, help="Restore this layer only, as a new version.")
@click.option("--snapshot", metavar="ID", help="Restore the version with this snapshot id.")
@click.option("--operation", metavar="ID", help="An id of yours: given again, nothing is done again.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.pass_context
def rollback(
    context: click.Context,
    *,
    target: str | None,
    layer: Layer | None,
    snapshot: str | None,
    operation: str | None,
    yes: bool,
) -> None:
    """Serve an earlier version again.

    Without a version: undo the last applied change. On a terminal it says what it would do and asks first.
    """
    call = Call.of(context)
    if (target is not None and not target.strip()) or (snapshot is not None and not snapshot.strip()):
        raise click.UsageError("the version is empty; name one, or leave it out to undo the last change")
    with call.app() as app:
        with app.ledger.view() as view:
            known = view.maybe(Operation, operation) if operation else None
        what = "nothing: this operation was carried out before"
        if known is None:
            what = app.engine.rollback_preview(call.agent, target=target, layer=layer, snapshot=snapshot)
        if known is None and not yes and not call.json and sys.stdin.isatty():
            click.confirm(clean(f"{call.agent}: {what}. Do it?"), abort=True, err=True)
        done = app.engine.rollback(
            call.agent,
            target=target,
            layer=layer,
            snapshot=snapshot,
            operation=operation,
            actor=call.actor,
            now=call.now,
        )
    rows = (
        ("Done", what),
        ("Serves now", f"{done.restored} (was {done.left})"),
        ("Layers", ", ".join(one.label for one in done.layers)),
        ("Cancelled", count(len(done.cancelled_experiments), "running experiment")),
        ("Undo", f"prx evolution rollback {done.left}"),
    )
    call.answer(done, lambda: pairs(rows, call.width))


@click.command(cls=AgentLeaf)
@click.argument("proposal_id", metavar="ID")
@click.pass_context
def approve(context: click.Context, proposal_id: str) -> None:
    """Agree to a proposal that waits for a person.

    It goes on to its experiment or, when that is already won, to its promotion.
    """
    call = Call.of(context)
    with call.app() as app:
        with app.ledger.view() as view:
            known = identify(view, Proposal, proposal_id).proposal_id
        done = app.engine.approve(known, actor=call.actor, now=call.now)
    _answer_proposal(call, done)


@click.command(cls=AgentLeaf)
@click.argument("proposal_id", metavar="ID")
@click.option("--why", default="", metavar="TEXT", help="Reason; the proposer learns from it.")
@click.pass_context
def reject(context: click.Context, proposal_id: str, why: str) -> None:
    """Refuse a proposal; it never comes back unmodified."""
    call = Call.of(context)
    with call.app() as app:
        with app.ledger.view() as view:
            known = identify(view, Proposal, proposal_id).proposal_id
        done = app.engine.reject(known, actor=call.actor, why=why or "rejected by a person", now=call.now)
    _answer_proposal(call, done)


@click.command(cls=AgentLeaf)
@click.argument("proposal_id", metavar="ID")
@click.pass_context
def confirm(context: click.Context, proposal_id: str) -> None:
    """Keep an applied change for good and end its watch."""
    call = Call.of(context)
    with call.app() as app:
        with app.ledger.view() as view:
            known = identify(view, Proposal, proposal_id).proposal_id
        done = app.engine.confirm(known, actor=call.actor, now=call.now)
    _answer_proposal(call, done)


@click.command(cls=AgentLeaf)
@click.argument("prompt")
@click.option("--file", "file", required=True, metavar="FILE", help="The new text; - reads standard input.")
@click.pass_context
def propose(context: click.Context, prompt: str, file: str) -> None:
    """Propose your own text for a prompt.

    It takes the same path as the engine's proposals, also while the engine is off.
    """
    call = Call.of(context)
    text = _read(file)
    with call.app() as app:
        app.ship()
        made = app.engine.propose_prompt(call.agent, prompt, text, actor=call.actor, now=call.now)
        with app.ledger.view() as view:
            shown = proposal_view(view, made)
    call.answer(shown, lambda: proposal_text(shown, call.width))


@click.command(cls=AgentLeaf)
@click.option("--why", default="", metavar="TEXT", help="Reason, shown by status.")
@click.pass_context
def pause(context: click.Context, why: str) -> None:
    """Stop proposing and promoting until `resume`.

    Serving, recording, breakers and watches go on.
    """
    call = Call.of(context)
    with call.app() as app:
        app.engine.pause(call.agent, actor=call.actor, why=why or "paused by a person", now=call.now)
        _answer_control(call, app)


@click.command(cls=AgentLeaf)
@click.option("--why", default="", metavar="TEXT", help="Reason, kept in the audit log.")
@click.pass_context
def resume(context: click.Context, why: str) -> None:
    """Go on after a pause or a kill."""
    call = Call.of(context)
    with call.app() as app:
        app.engine.resume(call.agent, actor=call.actor, why=why or "resumed by a person", now=call.now)
        _answer_control(call, app)


@click.command(cls=AgentLeaf)
@click.option("--why", default="", metavar="TEXT", help="Reason, shown by status.")
@click.pass_context
def kill(context: click.Context, why: str) -> None:
    """Kill switch: serve the current version to everyone, now.

    Experiments are cancelled and the engine stops until `resume`.
    """
    call = Call.of(context)
    with call.app() as app:
        app.engine.kill(call.agent, actor=call.actor, why=why or "kill switch", now=call.now)
        _answer_control(call, app)


def _answer_proposal(call: Call, one: Proposal) -> None:
    rows = (
        ("Proposal", one.proposal_id),
        ("State", one.state.replace("_", " ")),
        ("Why", one.why),
        ("Version", one.version or ""),
        ("See", f"prx evolution proposals --id {one.proposal_id}"),
    )
    call.answer(one, lambda: pairs(rows, call.width))


def _answer_control(call: Call, app: App) -> None:
    with app.ledger.view() as view:
        control = view.maybe(Control, call.agent) or Control(agent=call.agent)
    state = "killed" if control.killed else "paused" if control.paused else "not paused"
    rows = (("Agent", control.agent), ("Engine", state), ("Why", control.why), ("By", control.actor))
    call.answer(control, lambda: pairs(rows, call.width))


def _read(file: str) -> str:
    try:
        raw = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{file} is not UTF-8 (byte {error.start}); save it as UTF-8") from error
    except OSError as error:
        raise InvalidInput(f"{file} cannot be read ({error.strerror}); give a readable file") from error
    if not text.strip():
        raise InvalidInput(f"{file} holds no text; a prompt cannot be empty")
    if found := _UNPRINTABLE.search(text):
        line = text.count("\n", 0, found.start()) + 1
        raise InvalidInput(
            f"{file} holds the control character U+{ord(found[0]):04X} in line {line}; "
            "a prompt is plain text, take it out"
        )
    if len(text) > _MAX_PROMPT:
        raise InvalidInput(f"{file} holds {len(text)} characters; a prompt may have {_MAX_PROMPT}")
    return text


CONTROL_COMMANDS = (rollback, approve, reject, confirm, propose, pause, resume, kill)
