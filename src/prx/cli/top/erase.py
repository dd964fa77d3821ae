"""`prx erase`: what was recorded of a user, wherever it went."""

import sys
from typing import TYPE_CHECKING

import click

from prx.cli.call import Call, Leaf
from prx.cli.output import clean, pairs
from prx.cli.text.words import count
from prx.domain.erasure import Subject

if TYPE_CHECKING:
    from prx.wiring.erase import ErasureReport

_OUTSIDE = (
    "backups (`prx backup`), exports (`prx export`) and pg_dump files made before still hold it: delete "
    "them. After restoring an older state run this again"
)


@click.command(cls=Leaf)
@click.option("--user", metavar="U", help="The user, as the app names it.")
@click.option("--tenant", metavar="T", help="All of a tenant; with --user, that user there.")
@click.option("--session", metavar="S", help="One session.")
@click.option("--dry-run", is_flag=True, help="Say what would go; remove nothing.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.pass_context
def erase(
    context: click.Context,
    *,
    user: str | None,
    tenant: str | None,
    session: str | None,
    dry_run: bool,
    yes: bool,
) -> None:
    """Remove what was recorded of a user; keep the proof.

    Reaches records, scores, feedback, the spool, memories with what was derived from them, prompts,
    examples, proposals, decisions, findings and learned prompts of every agent. A version that holds the
    text is sealed: its content is gone, its hash stays, it can never be served again; a clean version takes
    the place of one that serves. The audit log still verifies and gets a row that proves the erasure without
    naming anybody. Run it again after a crash: it goes on. What the user does from now on is recorded.
    """
    from prx.gateway.prompts.store import PromptFiles

    call = Call.of(context)
    for name, value in (("user", user), ("tenant", tenant), ("session", session)):
        if value is not None and not value.strip():
            raise click.UsageError(f"--{name} is empty; nothing was removed")
    subject = Subject.of(user=user, tenant=tenant, session=session)
    with call.app() as app:
        files = PromptFiles(app.home)
        if not dry_run and not yes and not call.json and sys.stdin.isatty():
            click.confirm(f"Remove everything of this {subject.kind} for good?", abort=True, err=True)
        done = app.erase(
            subject,
            actor=call.actor,
            dry_run=dry_run,
            forget_prompts=lambda holds, rehearse: files.forget(holds, rehearse=rehearse),
        )
    call.answer(done, lambda: _text(done, call.width))


def _text(done: "ErasureReport", width: int | None) -> str:
    before = f"{done.before:%Y-%m-%d %H:%M:%S} UTC" if done.before else ""
    if not done.found:
        what = f"nothing of this {done.subject} is stored"
        return pairs((("Erased", f"{what}; it was erased on {before}" if before else what),), width)
    ledger = done.ledger
    rows = (
        ("Would erase" if done.dry_run else "Erased", _counted(done)),
        ("Sealed", ", ".join(ledger.sealed)),
        ("Serves now" if not done.dry_run else "Would serve", ", ".join(ledger.successors)),
        ("Cancelled", _cancelled(done)),
        (
            "Ledger",
            f"{count(ledger.records, 'record')}, {count(ledger.events, 'event')} and "
            f"{count(ledger.audit_texts, 'audit text')} lost the text",
        ),
        ("Erased before", before),
        ("Proof", f"audit row {done.proof}" if done.proof else ""),
        ("Not reached", "; ".join(done.left)),
        ("Elsewhere", _OUTSIDE),
    )
    return pairs([(name, clean(text)) for name, text in rows], width)


def _counted(done: "ErasureReport") -> str:
    counted = (
        (done.sessions, "session"),
        (done.records, "record"),
        (done.scores, "score"),
        (done.memories, "memory entry"),
        (done.prompts, "prompt text"),
        (done.spooled, "spooled record"),
    )
    return ", ".join(count(number, noun) for number, noun in counted if number)


def _cancelled(done: "ErasureReport") -> str:
    proposals, experiments = len(done.ledger.proposals), len(done.ledger.experiments)
    if not proposals + experiments:
        return ""
    return f"{count(proposals, 'proposal')}, {count(experiments, 'experiment')}"
