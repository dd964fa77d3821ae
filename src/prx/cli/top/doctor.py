"""`prx doctor`: is this installation in order, and where is everything."""

import platform
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import TypeVar

import click

from prx.cli.call import Call, Leaf
from prx.cli.output import Column, table
from prx.domain.errors import EvolutionError
from prx.engine.context import control_of
from prx.ledger.port import View
from prx.settings import Settings, settings_hash
from prx.views.audit import verify
from prx.wiring.checkup import Checked, check_files, check_spool
from prx.wiring.paths import home_folder

T = TypeVar("T")


@click.command(cls=Leaf)
@click.pass_context
def doctor(context: click.Context) -> None:
    """Check versions, configuration, models, spool and stores.

    Every database file and every segment of the spool is read whole, which takes its time where they are
    large. Exit code 3 when a check fails.
    """
    call = Call.of(context)
    rows = [Checked("versions", "ok", _versions())]
    settings = _try(rows, "configuration", call.settings, _configuration)
    if settings is not None:
        rows += [Checked("configuration", "warning", note) for note in settings.notes]
        rows.append(_models(settings))
        home = home_folder(call.home, call.outside.env)
        # Before anything is shipped: what is wrong with the spool is to be seen as it is.
        rows.append(check_spool(home, call.now))
        rows += check_files(settings, home)
        _stores(call, rows)
    call.answer(
        rows,
        lambda: table(
            (Column("Check"), Column("Answer"), Column("Seen", wraps=True)),
            ((one.check, one.answer, one.seen) for one in rows),
            call.width,
        ),
    )
    if any(one.answer == "failed" for one in rows):
        context.exit(3)


def _try(rows: list[Checked], check: str, read: Callable[[], T], seen: Callable[[T], str]) -> T | None:
    try:
        found = read()
    except (EvolutionError, OSError) as error:
        rows.append(Checked(check, "failed", str(error)))
        return None
    rows.append(Checked(check, "ok", seen(found)))
    return found


def _versions() -> str:
    def of(package: str) -> str:
        try:
            return version(package)
        except PackageNotFoundError:
            return "not installed"

    packages = ", ".join(
        f"{name} {of(name)}" for name in ("prx-evolution", "apsw", "numpy", "scipy", "msgspec")
    )
    return f"Python {platform.python_version()} on {platform.system()}, {packages}"


def _configuration(settings: Settings) -> str:
    source = settings.file or "no file, defaults"
    return f"{source}, hash {settings_hash(settings)[:19]}"


def _models(settings: Settings) -> Checked:
    roles = {name: getattr(settings.models, name) for name in ("agent", "judge", "proposer", "embedder")}
    ready = [name for name, role in roles.items() if role.configured or role.checker]
    missing = [name for name in roles if name not in ready]
    if not missing:
        return Checked("models", "ok", ", ".join(ready))
    answer = "warning" if settings.enabled else "ok"
    return Checked(
        "models", answer, f"configured: {', '.join(ready) or 'none'}; not configured: {', '.join(missing)}"
    )


def _alerts(view: View) -> list[Checked]:
    """What a person was told of and is not over yet."""
    open_keys = {(agent, key) for agent in view.agents() for key in control_of(view, agent).alerts}
    if not open_keys:
        return []
    newest = {(one.agent, one.subject): one.summary for _, one in view.events()}
    return [Checked("alert", "warning", newest.get((a, key), key)) for a, key in sorted(open_keys)]


def _stores(call: Call, rows: list[Checked]) -> None:
    try:
        with call.app() as app:
            rows.append(Checked("home", "ok", str(app.home)))
            counts = app.records.counts()
            rows.append(Checked("records", "ok", ", ".join(f"{n} {name}" for name, n in counts.items())))
            with app.ledger.view() as view:
                agents = view.agents()
                served = [f"{one} {p.label}" for one in agents if (p := view.pointer(one)) is not None]
                rows.append(Checked("agents", "ok", ", ".join(served) or "none has a version yet"))
                rows += _alerts(view)
                chain = verify(view)
            rows.append(Checked("audit chain", "ok" if chain.whole else "failed", chain.why))
    except (EvolutionError, OSError) as error:
        rows.append(Checked("stores", "failed", str(error)))
