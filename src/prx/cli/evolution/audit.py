"""The audit log: is it whole, and a copy to keep elsewhere."""

from pathlib import Path

import click

from prx.cli.call import Call, Leaf
from prx.cli.output import pairs
from prx.cli.text.words import count
from prx.domain.codec import encode
from prx.domain.errors import InvalidInput
from prx.ledger.audit import Head
from prx.ledger.heads import Noted, read_heads
from prx.views.audit import rows
from prx.views.audit import verify as verify_chain


@click.group()
def audit() -> None:
    """Check or copy the log of everything that changed."""


@audit.command(cls=Leaf)
@click.option(
    "--head",
    "noted",
    metavar="SEQ:HASH",
    help="Newest link as printed by an earlier verify; without it a cut end cannot be seen.",
)
@click.pass_context
def verify(context: click.Context, noted: str | None) -> None:
    """Recompute every link; exit code 1 when the log was changed.

    Where `audit.head_file` is set, the signed heads of that file are compared too: then even a log that was
    rewritten whole is noticed.
    """
    call = Call.of(context)
    head = _head(noted) if noted else None
    with call.app() as app, app.ledger.view() as view:
        given = app.settings.audit
        signed = read_heads(app.home / Path(given.head_file).expanduser()) if given.head_file else None
        found = verify_chain(view, noted=head, signed=signed, key=given.head_key.encode())
    shown = (
        ("Audit log", "whole" if found.whole else f"NOT WHOLE ({found.code})"),
        ("Checked" if found.whole else "Why", found.why),
        ("Head", found.head),
        ("Signed", _signed(signed, given.head_file)),
        (
            "Keep",
            "write the head down elsewhere and give it to the next verify with --head"
            if found.whole and signed is None
            else "",
        ),
    )
    call.answer(found, lambda: pairs(shown, call.width))
    if not found.whole:
        context.exit(1)


@audit.command(cls=Leaf)
@click.pass_context
def export(context: click.Context) -> None:
    """Print all links as JSON, one a line, oldest first."""
    call = Call.of(context)
    with call.app() as app, app.ledger.view() as view:
        for row in rows(view):
            click.echo(encode(row).decode())


def _signed(signed: Noted | None, file: str) -> str:
    if signed is None:
        return ""
    if signed.newest is None:
        return f"no head in {file} yet"
    torn = f", {count(signed.torn, 'line')} cut off by a crash" if signed.torn else ""
    newest = f"newest of row {signed.newest.seq} at {signed.newest.at:%Y-%m-%d %H:%M}"
    return f"{count(len(signed.heads), 'head')} in {file}, {newest}{torn}"


def _head(text: str) -> Head:
    number, colon, digest = text.partition(":")
    if not colon or not number.isdigit() or len(digest) != 64:
        raise InvalidInput(f"{text!r} is no head; give SEQ:HASH as `prx evolution audit verify` prints it")
    return Head(int(number), digest)
