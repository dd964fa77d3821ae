"""`prx prompts`: templates of system prompts, from learning to acceptance, and back into files."""

from pathlib import Path
from typing import Any

import click

from prx.cli.call import AgentLeaf, Call
from prx.cli.output import Column, clean, table
from prx.domain.accepted import AcceptedPrompt, accepted_id
from prx.ledger.serving import serving
from prx.wiring.stores import ledger_url

FOLDER = "prompts"


@click.group()
def prompts() -> None:
    """System prompts that the gateway manages."""


@prompts.command("list", cls=AgentLeaf)
@click.option("--all", "whole", is_flag=True, help="Show whole templates.")
@click.pass_context
def list_(context: click.Context, whole: bool) -> None:
    """List learned and accepted templates."""
    call = Call.of(context)
    rows = _rows(call)

    def text() -> str:
        if not rows:
            return (
                "No prompt was learned yet; it takes 20 users or sessions that send one, "
                "with 16 letters and digits or more in common."
            )
        shown = table(
            (Column("Name"), Column("State"), Column("Slots", right=True), Column("Text", wraps=True)),
            ((r["name"], r["state"], str(len(r["slots"])), _short(r["text"], whole)) for r in rows),
            call.width,
        )
        waiting = any(r["state"] == "learned" for r in rows)
        return shown + ("\n\nNothing is replaced before: prx prompts accept NAME" if waiting else "")

    call.answer(rows, text)


@prompts.command("accept", cls=AgentLeaf)
@click.argument("name")
@click.option("--as", "new_name", metavar="NAME", help="Name to keep it under.")
@click.pass_context
def accept(context: click.Context, name: str, new_name: str | None) -> None:
    """Let the gateway serve versions of a learned prompt.

    From then on requests whose system prompt fits the template get the champion's text, or the
    treatment's in an experiment; every other request passes as it is. Where gateways share a PostgreSQL it
    is accepted for all of them.
    """
    call = Call.of(context)
    done = _files(call).accept(call.agent, name, new_name=new_name, now=call.now, by=call.actor)
    _share(call, done)
    call.answer(done, lambda: f"{done.name} is accepted, with {len(done.slots)} slots.")


@prompts.command("pull", cls=AgentLeaf)
@click.option("--to", metavar="DIR", default=FOLDER, show_default=True, help="Folder of the files.")
@click.pass_context
def pull(context: click.Context, to: str) -> None:
    """Write what is served now to files, one per prompt, for git."""
    from prx.gateway.prompts.store import drifted, file_of

    call = Call.of(context)
    folder, champions = Path(to), _champions(call)
    changed = drifted(folder, champions)
    for name in changed:
        folder.mkdir(parents=True, exist_ok=True)
        file_of(folder, name).write_text(champions[name], "utf-8")
    call.answer({"written": changed}, lambda: _named("Written", changed, "Nothing differs."))


@prompts.command("check", cls=AgentLeaf)
@click.option("--to", metavar="DIR", default=FOLDER, show_default=True, help="Folder of the files.")
@click.pass_context
def check(context: click.Context, to: str) -> None:
    """Compare the files with what is served now.

    Exit code 1 when they differ.
    """
    from prx.gateway.prompts.store import drifted

    call = Call.of(context)
    differ = drifted(Path(to), _champions(call))
    call.answer({"differ": differ}, lambda: _named("Differ", differ, "The files hold what is served."))
    if differ:
        context.exit(1)


def _files(call: Call) -> Any:
    from prx.gateway.prompts.store import PromptFiles
    from prx.wiring.paths import home_folder

    home = home_folder(call.home, call.outside.env)
    files = PromptFiles(home)
    if _gateways_share(call, home):
        with call.app(new_agent=True, ship=False) as app, app.ledger.view() as view:
            files.follow(view.find(AcceptedPrompt))
    return files


def _gateways_share(call: Call, home: Path) -> bool:
    """Whether other gateways can be on this ledger."""
    from prx.settings import load
    from prx.wiring.paths import config_file

    env = call.outside.env
    return bool(ledger_url(load(config_file(call.config, env, home), env)))


def _share(call: Call, done: Any) -> None:
    """Accept it for every gateway on this ledger, where there can be others."""
    from prx.wiring.paths import home_folder

    if not _gateways_share(call, home_folder(call.home, call.outside.env)):
        return
    shared = AcceptedPrompt(
        accepted_id=accepted_id(done.agent, done.name),
        agent=done.agent,
        name=done.name,
        text=done.text,
        slots=done.slots,
        at=done.at,
        by=done.by,
    )
    with (
        call.app(new_agent=True, ship=False) as app,
        app.ledger.transaction(now=call.now, actor=call.actor) as tx,
    ):
        if tx.maybe(AcceptedPrompt, shared.accepted_id) != shared:
            tx.put(shared)
            tx.audit("prompt.accepted", shared.accepted_id, {"slots": len(done.slots)})


def _rows(call: Call) -> list[dict[str, Any]]:
    files = _files(call)
    accepted = [one for one in files.accepted() if one.agent == call.agent]
    texts = {one.text for one in accepted}
    rows = [_row(one.name, "accepted", one.text, one.slots) for one in accepted]
    for one in files.learned():
        if one.agent == call.agent and one.text not in texts:
            state = f"changed text of {one.follows}" if one.follows else "learned"
            rows.append(_row(one.name, state, one.text, one.slots))
    return rows


def _row(name: str, state: str, text: str, slots: tuple[str, ...]) -> dict[str, Any]:
    return {"name": name, "state": state, "slots": list(slots), "text": text}


def _champions(call: Call) -> dict[str, str]:
    """Served texts by name: the champion's, or the accepted one as long as there is no version of it."""
    texts = {one.name: one.text for one in _files(call).accepted() if one.agent == call.agent}
    with call.view() as view:
        return texts | serving(view, call.agent).prompts


def _short(text: str, whole: bool) -> str:
    line = clean(text if whole else " ".join(text.split()))
    return line if whole or len(line) <= 160 else line[:157] + "..."


def _named(word: str, names: list[str], none: str) -> str:
    return f"{word}: {', '.join(names)}" if names else none
