"""Opens a gateway over a state folder: configuration, spool, ledger, prompts."""

import asyncio
import dataclasses
import gc
from collections.abc import Callable, Mapping
from pathlib import Path

import uvloop

from prx.domain.ids import system_ids
from prx.domain.times import utc_now
from prx.gateway.connections import allow_many_files
from prx.gateway.metrics import Metrics
from prx.gateway.policy import Policy
from prx.gateway.prompts.book import PromptBook
from prx.gateway.prompts.learner import LearnRules
from prx.gateway.prompts.store import PromptFiles
from prx.gateway.recorder import Recorder
from prx.gateway.rules import GatewayRules, check
from prx.gateway.server import Gateway, listen
from prx.settings import load
from prx.wiring.notices import listen as listen_for_changes
from prx.wiring.paths import config_file, prepare_home, spool_folder
from prx.wiring.spooling import spool_rules
from prx.wiring.stores import ledger_url, open_ledger

_GARBAGE = 10_000


def open_gateway(
    rules: GatewayRules, *, config: Path | None, env: Mapping[str, str], learn: LearnRules | None = None
) -> Gateway:
    """A gateway that records into the state folder, not serving yet.

    Raises: SettingsError for rules or a configuration that cannot be used, StoreError for a state folder
    that cannot be written.
    """
    check(rules)
    home = prepare_home(rules.home)
    settings = load(config_file(config, env, home), env)
    rules = dataclasses.replace(rules, policy=rules.policy or Policy(settings.gateway))
    ids, files = system_ids(), PromptFiles(home)
    recorder = Recorder(
        rules,
        spool=spool_folder(home),
        ledger=lambda: open_ledger(settings, home, ids),
        accepted=files.follow if ledger_url(settings) else None,
        ids=ids,
        spool_rules=spool_rules(settings.record),
    )
    recorder.stop_listening = listen_for_changes(settings, recorder.poller.wake)
    metrics = Metrics()
    return Gateway(rules, recorder, metrics, PromptBook(files, metrics, now=utc_now, rules=learn))


def serve(
    rules: GatewayRules, *, config: Path | None, env: Mapping[str, str], announce: Callable[[str], None]
) -> None:
    """Serve until a signal says stop; `announce` gets the base URL. Raises: as `open_gateway`."""
    check(rules)
    allow_many_files()
    listener = listen(rules)

    async def run() -> None:
        gateway = open_gateway(rules, config=config, env=env)
        started = asyncio.Event()
        running = asyncio.create_task(gateway.run(listener, started))
        waiting = asyncio.create_task(started.wait())
        await asyncio.wait((running, waiting), return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if not running.done():
            announce(f"http://{rules.host}:{gateway.port}/v1")
        await running

    # What was loaded until now stays; the collector need not look at it again and again.
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GARBAGE)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())
