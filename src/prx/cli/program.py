"""The `prx` command: parses, calls, prints, and turns refusals into exit codes."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from prx.cli.application import App
from prx.cli.call import Outside, place_options
from prx.cli.evolution import evolution
from prx.cli.output import clean
from prx.cli.top import TOP_COMMANDS
from prx.domain.errors import EvolutionError, ModelUnavailable, StoreError
from prx.domain.times import utc_now

REFUSED, USAGE, ENVIRONMENT, INTERRUPTED, PIPE_CLOSED = 1, 2, 3, 130, 141


class ReaderLeft(Exception):
    """Whoever read standard output closed it; what was left to say has no reader."""


class Root(click.Group):
    """`prx` itself."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.extend(place_options())

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. Raises: ReaderLeft, since click would answer a closed pipe with exit code 1."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError as error:
            raise ReaderLeft from error
        return result


@click.group(
    cls=Root, name="prx", context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(package_name="prx-evolution", prog_name="prx")
def prx() -> None:
    """Improve an LLM agent by evidence: record, analyze, propose, prove, promote, roll back.

    Exit codes: 0 done, 1 refused (the message says why), 2 wrong usage, 3 store, file or model endpoint
    not usable, 130 interrupted.
    """


for _command in (*TOP_COMMANDS, evolution):
    prx.add_command(_command)


def wired(
    *,
    home: Path | None,
    config: Path | None,
    env: Mapping[str, str],
    agent: str = "default",
    now: Callable[[], datetime],
) -> App:
    """The real installation; imported only when a command opens one."""
    from prx.wiring.app import open_app

    return open_app(home=home, config=config, env=env, agent=agent, now=now)


def main(arguments: Sequence[str], outside: Outside) -> int:
    """Run one command line and return its exit code; nothing that a person did wrong gives a traceback."""
    try:
        code = prx.main(list(arguments), prog_name="prx", standalone_mode=False, obj=outside)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted; what was already written stays, nothing half-done does", err=True)
        return INTERRUPTED
    except click.UsageError as error:
        error.show()
        return USAGE
    except click.ClickException as error:
        _tell(error.format_message())
        return ENVIRONMENT
    except (StoreError, ModelUnavailable) as error:
        _tell(str(error))
        return ENVIRONMENT
    except EvolutionError as error:
        _tell(str(error))
        return REFUSED
    except ReaderLeft:
        # the reader left; the interpreter must not complain again when it flushes at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    except OSError as error:
        place = error.filename or "a file"
        _tell(f"{place}: {error.strerror or error}; check the path, its rights and the free space")
        return ENVIRONMENT
    return code if isinstance(code, int) else 0


def _tell(message: str) -> None:
    click.echo(f"prx: {clean(message)}", err=True)


def run_process() -> int:
    """Run this process's own command line and return its exit code."""
    return main(sys.argv[1:], Outside(wired, os.environ, utc_now, Path.cwd()))
