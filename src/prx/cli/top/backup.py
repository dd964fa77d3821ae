"""`prx backup` and `prx restore`: the whole state of an installation in one file."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import click

from prx.cli.call import Call, Leaf
from prx.cli.output import clean, pairs
from prx.cli.text.words import count
from prx.domain.ids import system_ids
from prx.settings import load


@click.command(cls=Leaf)
@click.argument("file", metavar="FILE")
@click.option("--force", is_flag=True, help="Replace a file that is there.")
@click.pass_context
def backup(context: click.Context, file: str, force: bool) -> None:
    """Write the whole state to one file; running processes go on.

    Ledger, records, memory, spool, prompts, settings and the installation's secret, each with its hash. The
    copy is checked before the file appears. It holds recorded texts and secrets: keep it like the state
    itself.
    """
    from prx.wiring.backup import back_up
    from prx.wiring.paths import config_file, home_folder

    call = Call.of(context)
    home = home_folder(call.home, call.outside.env)
    settings = load(config_file(call.config, call.outside.env, home), call.outside.env, call.outside.folder)
    target = call.outside.folder / Path(file).expanduser()
    made = back_up(home, settings, target, ids=system_ids(), now=call.now, force=force)
    shown = (
        ("Wrote", made.file),
        ("Holds", f"{made.files} files, {made.size:,} bytes, {made.sessions} sessions"),
        ("Audit log", f"whole, head {made.audit_head}"),
        ("Next", "keep it on another machine; prx restore FILE brings it back"),
    )
    call.answer(made, lambda: pairs([(name, clean(text)) for name, text in shown], call.width))


@click.command(cls=Leaf)
@click.argument("file", metavar="FILE")
@click.option("--force", is_flag=True, help="Set a state folder that is not empty aside; it is not deleted.")
@click.pass_context
def restore(context: click.Context, file: str, force: bool) -> None:
    """Bring back what `prx backup` wrote, all of it or nothing.

    Hashes, schemas and the audit log of the backup are checked first. Stop every `prx` process before. The
    audit log gets a row that says what was restored.
    """
    from prx.wiring.backup import restore as bring_back
    from prx.wiring.paths import home_folder

    call = Call.of(context)
    home = home_folder(call.home, call.outside.env).absolute()
    source = call.outside.folder / Path(file).expanduser()
    done = bring_back(source, home, ids=system_ids(), now=call.now, actor=call.actor, force=force)
    shown = (
        ("Restored", f"{done.home} as of {done.made_at:%Y-%m-%d %H:%M:%S} UTC, {done.files} files"),
        ("Audit log", f"whole, head {done.audit_head}"),
        ("Set aside", done.set_aside or ""),
        ("Erase again", _undone(done.erase_again)),
        ("Next", "prx doctor, then start the processes again"),
    )
    call.answer(done, lambda: pairs([(name, clean(text)) for name, text in shown], call.width))


def _undone(erased: Sequence[datetime]) -> str:
    if not erased:
        return ""
    when = ", ".join(f"{at:%Y-%m-%d %H:%M}" for at in erased)
    return f"{count(len(erased), 'erasure')} since the backup came undone ({when} UTC): repeat `prx erase`"
