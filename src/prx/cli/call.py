"""One command as it was called: its common options, what it opens, and where it answers."""

import getpass
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from prx.cli.application import App, Opener
from prx.cli.output import clean, screen_width, to_json
from prx.domain.errors import InvalidInput
from prx.domain.records import DEFAULT_AGENT
from prx.ledger.port import View
from prx.settings import Settings, load
from prx.spool.ship import Shipped
from prx.wiring.paths import config_file, home_folder

LANGUAGES = ("en", "es", "ja", "ko", "ru", "zh")
_META = "prx."


@dataclass(frozen=True, slots=True)
class Outside:
    """What the process gives to a command."""

    opener: Opener
    env: Mapping[str, str]
    now: Callable[[], datetime]
    folder: Path


@dataclass(frozen=True, slots=True)
class Call:
    """The common options of one command, and the verbs that every command uses."""

    outside: Outside
    agent: str
    json: bool
    lang: str
    home: Path | None
    config: Path | None

    @classmethod
    def of(cls, context: click.Context) -> "Call":
        """The call that `context` stands for."""
        outside = context.find_root().obj
        told = context.meta
        home = told.get(f"{_META}home")
        config = told.get(f"{_META}config")
        return cls(
            outside=outside,
            agent=told.get(f"{_META}agent") or DEFAULT_AGENT,
            json=bool(told.get(f"{_META}json")),
            lang=_language(told.get(f"{_META}lang") or outside.env.get("PRX_LANG", "")),
            home=Path(home).expanduser() if home else None,
            config=Path(config).expanduser() if config else None,
        )

    @property
    def now(self) -> datetime:
        """Time of the call."""
        return self.outside.now()

    @property
    def width(self) -> int | None:
        """Columns to fit into; None where lines are not broken."""
        return screen_width(self.outside.env)

    @property
    def actor(self) -> str:
        """Who acts, for the audit log."""
        name = self.outside.env.get("PRX_ACTOR") or self.outside.env.get("USER")
        try:
            return f"person:{name or getpass.getuser()}"
        except (OSError, KeyError):
            return "person:unknown"

    @contextmanager
    def app(self, *, new_agent: bool = False, ship: bool = True) -> Iterator[App]:
        """The installation, closed at the end; `ship` False leaves the spool as it is.

        Raises: InvalidInput for an agent that nobody recorded, unless `new_agent`.
        """
        app = self.outside.opener(
            home=self.home,
            config=self.config,
            env=self.outside.env,
            agent=self.agent,
            now=self.outside.now,
        )
        try:
            # what an app recorded a moment ago belongs to every answer
            shipped = app.ship() if ship else None
            if shipped and shipped.new:
                app.engine.score(self.now)
            if shipped and shipped.damaged:
                _tell_damage(app.home, shipped)
            if not new_agent and self.agent != DEFAULT_AGENT:
                self._check_agent(app)
            yield app
        finally:
            app.close()

    @contextmanager
    def view(self) -> Iterator[View]:
        """A consistent read of the ledger."""
        with self.app() as app, app.ledger.view() as view:
            yield view

    def _check_agent(self, app: App) -> None:
        with app.ledger.view() as view:
            known = view.agents()
        recorded = next(iter(app.records.traces(agent=self.agent, limit=1)), None)
        if self.agent not in known and recorded is None:
            names = ", ".join(known) or "none yet"
            raise InvalidInput(f"no agent is called {self.agent!r}; known agents: {names}")

    def settings(self) -> Settings:
        """The configuration, without opening a store."""
        return load(self.config_file(), self.outside.env, self.outside.folder)

    def config_file(self) -> Path | None:
        """The file that every command of this call reads; None where defaults hold."""
        outside = self.outside
        return config_file(self.config, outside.env, home_folder(self.home, outside.env), outside.folder)

    def answer(self, value: Any, text: Callable[[], str]) -> None:
        """Print the value as JSON where that was asked for, else the text."""
        click.echo(to_json(value) if self.json else text())

    def say(self, text: str) -> None:
        """Print a line for a person; nothing where JSON is wanted."""
        if not self.json:
            click.echo(clean(text))


def _tell_damage(home: Path, shipped: Shipped) -> None:
    first, number = shipped.damaged[0], len(shipped.damaged)
    message = (
        f"prx: {number} stretch{'es' * (number > 1)} of the spool in {home} gave no record, "
        f"all others were stored; the first: {first.segment}, bytes {first.start} to {first.end}: {first.why}"
    )
    click.echo(clean(message), err=True)


def _language(text: str) -> str:
    word = text.strip().lower().replace("-", "_").split(".")[0].split("_")[0]
    return word if word in LANGUAGES else "en"


def _remember(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    if isinstance(value, str) and not value.strip():
        # a script's unset variable must not act on the default agent or folder
        raise click.BadParameter("it is empty; give a value or leave the option out")
    if value:
        context.meta[f"{_META}{parameter.name}"] = value


def place_options() -> list[click.Option]:
    """`--home` and `--config`, on every command and on the groups above."""
    return [
        click.Option(
            ["--home"],
            metavar="DIR",
            help="Folder of the state ($PRX_HOME; default ~/.local/share/prx).",
            expose_value=False,
            callback=_remember,
        ),
        click.Option(
            ["--config"],
            metavar="FILE",
            help="Configuration file ($PRX_CONFIG; default ./prx.toml).",
            expose_value=False,
            callback=_remember,
        ),
    ]


def _json_option() -> click.Option:
    return click.Option(
        ["--json", "-j", "json"],
        is_flag=True,
        help="Answer as one JSON document.",
        expose_value=False,
        callback=_remember,
    )


def _agent_option() -> click.Option:
    return click.Option(
        ["--agent"],
        metavar="NAME",
        help="Agent that is meant (default: default).",
        expose_value=False,
        callback=_remember,
    )


def _lang_option() -> click.Option:
    return click.Option(
        ["--lang"],
        type=click.Choice(LANGUAGES),
        help="Language of the answer where a translation exists ($PRX_LANG).",
        expose_value=False,
        callback=_remember,
    )


class Leaf(click.Command):
    """A command with the common options: --json, --home, --config."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.extend([_json_option(), *place_options()])


class AgentLeaf(click.Command):
    """A command about one agent: the common options and --agent, --lang."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.extend([_json_option(), _agent_option(), _lang_option(), *place_options()])


class AgentGroup(click.Group):
    """A group that also answers by itself, with the options of an AgentLeaf."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.extend([_json_option(), _agent_option(), _lang_option(), *place_options()])
