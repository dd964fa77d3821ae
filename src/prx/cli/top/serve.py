"""`prx serve`: the gateway, with one worker process beside it."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import click

from prx.cli.call import Call, Leaf
from prx.domain.errors import SettingsError


@click.command(cls=Leaf)
@click.option("--upstream", required=True, metavar="URL", help="Provider, such as https://api.openai.com/v1.")
@click.option("--port", type=click.IntRange(0, 65535), default=3120, show_default=True, help="Port.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--no-evolution", is_flag=True, help="Start no worker: record and serve only.")
@click.option(
    "--key-mode",
    type=click.Choice(("passthrough", "gateway")),
    default="passthrough",
    show_default=True,
    help="Whose key the provider gets: the client's own, or the one of --upstream-key.",
)
@click.option(
    "--upstream-key", metavar="env:NAME|file:PATH", help="The provider's key, for --key-mode gateway."
)
@click.option("--tokens", metavar="FILE", help="Who may call: lines of NAME SCOPES SHA256.")
@click.option(
    "--drain", type=click.FloatRange(0), default=30.0, show_default=True, help="Seconds to stop in."
)
@click.option(
    "--log-format",
    type=click.Choice(("text", "json")),
    default="text",
    show_default=True,
    help="Shape of the log.",
)
@click.option(
    "--log-level",
    type=click.Choice(("debug", "info", "warning", "error")),
    default="warning",
    show_default=True,
    help="From which level on events are logged, on standard error; info has a line per request.",
)
@click.pass_context
def serve(
    context: click.Context,
    *,
    upstream: str,
    port: int,
    host: str,
    no_evolution: bool,
    key_mode: str,
    upstream_key: str | None,
    tokens: str | None,
    drain: float,
    log_format: str,
    log_level: str,
) -> None:
    """Run the gateway in front of a provider.

    It is OpenAI-compatible and records every request. Point the client's base URL at it; nothing of a
    request changes until a prompt is accepted.
    """
    from prx.gateway.logs import log_to_stderr
    from prx.gateway.opening import serve as run
    from prx.gateway.rules import GatewayRules, KeyMode
    from prx.gateway.tokenfile import TokenFile
    from prx.gateway.tokens import Tokens
    from prx.wiring.paths import home_folder, prepare_home

    call = Call.of(context)
    env = call.outside.env
    log_to_stderr(shape=log_format, level=log_level)
    rules = GatewayRules(
        upstream=upstream,
        home=prepare_home(home_folder(call.home, env)),
        host=host,
        port=port,
        key_mode=KeyMode(key_mode),
        upstream_key=_secret(upstream_key, env) if upstream_key else None,
        tokens=TokenFile(Path(tokens)) if tokens else Tokens(),
        drain_seconds=drain,
    )
    worker: list[subprocess.Popen[bytes]] = []

    def announce(url: str) -> None:
        if not no_evolution:
            worker.append(_worker(rules.home, call.config, env))
        call.say(f"prx serve: {url} -> {upstream}\nstate in {rules.home}; stop with Ctrl-C")
        sys.stdout.flush()

    try:
        run(rules, config=call.config, env=env, announce=announce)
    finally:
        for process in worker:
            process.terminate()
            process.wait()


def _worker(home: Path, config: Path | None, env: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    """The process that ships records and advances the engine; it ends with us."""
    command = [sys.executable, "-m", "prx.cli", "worker", "--home", str(home)]
    command += ["--config", str(config)] if config else []
    command += ["--parent", str(os.getpid())]
    # A Ctrl-C is for us; we tell the worker when the last record is written.
    return subprocess.Popen(command, env=dict(env), start_new_session=True, stdin=subprocess.DEVNULL)


def _secret(given: str, env: Mapping[str, str]) -> str:
    kind, _, place = given.partition(":")
    value = ""
    if kind == "env":
        value = env.get(place, "")
    elif kind == "file":
        value = _text(Path(place)).strip()
    else:
        raise SettingsError(
            "--upstream-key takes env:NAME or file:PATH, so that no key stands in a command line"
        )
    if not value:
        raise SettingsError(f"--upstream-key {given} holds nothing; set it first")
    return value


def _text(path: Path) -> str:
    try:
        return path.expanduser().read_text("utf-8")
    except UnicodeDecodeError:
        raise SettingsError(f"{path} is no text in UTF-8; give the file that holds it as text") from None
