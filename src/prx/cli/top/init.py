"""`prx init`: a configuration file to start from."""

import click

from prx.cli.call import Call, Leaf
from prx.domain.errors import InvalidInput
from prx.settings.loading import DEFAULT_FILE
from prx.settings.reference import sections
from prx.settings.writing import write_text

_SHOWN = ("", "l1", "l2", "l3", "experiments", "fitness", "models.agent", "models.judge", "models.proposer")


def starting_text() -> str:
    """A file in which every shown key stands commented out with its default, so that it changes nothing."""
    lines = [
        "# Configuration of PRX Evolution. A key that stays commented out keeps the default shown.",
        "# All keys: docs/reference/configuration.md. A value may be env:NAME or file:PATH.",
    ]
    for page in sections():
        name = page.header.strip("[]").removeprefix("self_evolution").lstrip(".")
        if name not in _SHOWN or page.header.startswith("[["):
            continue
        lines += ["", f"# {page.doc.splitlines()[0]}", page.header]
        rows = [row for row in page.rows if not row.idle]
        width = max(len(f"{row.name} = {row.default}") for row in rows)
        lines += [f"# {f'{row.name} = {row.default}'.ljust(width)}  # {row.doc}" for row in rows]
    return "\n".join(lines) + "\n"


@click.command(cls=Leaf)
@click.option("--force", is_flag=True, help="Replace a file that is there.")
@click.pass_context
def init(context: click.Context, force: bool) -> None:
    """Write a prx.toml to start from.

    The usual keys stand in it, each commented out at its default, so that it changes nothing yet.
    """
    call = Call.of(context)
    path = call.config or call.outside.folder / DEFAULT_FILE
    if path.exists() and not force:
        raise InvalidInput(f"{path} is there already; edit it, or replace it with --force")
    write_text(path, starting_text())
    call.answer(
        {"written": str(path)},
        lambda: f"wrote {path}\nNext: prx import FILE, or record from Python with prx.open()",
    )
