"""The audit log: is it whole, and a copy to keep elsewhere."""

import click

from prx.cli.call import Call, Leaf
from prx.cli.output import pairs
from prx.domain.codec import encode
from prx.domain.errors import InvalidInput
from prx.ledger.audit import Head
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
    """Recompute every link; exit code 1 when the log was changed."""
    call = Call.of(context)
    head = _head(noted) if noted else None
    with call.app() as app, app.ledger.view() as view:
        found = verify_chain(view, noted=head)
    shown = (
        ("Audit log", "whole" if found.whole else f"NOT WHOLE ({found.code})"),
        ("Checked" if found.whole else "Why", found.why),
        ("Head", found.head),
        (
            "Keep",
            "write the head down elsewhere and give it to the next verify with --head" if found.whole else "",
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


def _head(text: str) -> Head:
    number, colon, digest = text.partition(":")
    if not colon or not number.isdigit() or len(digest) != 64:
        raise InvalidInput(f"{text!r} is no head; give SEQ:HASH as `prx evolution audit verify` prints it")
    return Head(int(number), digest)
