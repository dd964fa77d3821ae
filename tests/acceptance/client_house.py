"""`prx serve` as a process in front of a scripted model, and what stands in its store afterwards."""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from gateway_house import SECRET, Provider, interactions, provider, served
from model_provider import Model

from prx.domain.records import Interaction, Trace
from prx.wiring.app import open_app

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(__file__).parent / "clients"


@dataclass
class Front:
    """One agent's view of a gateway process, the provider behind it and the model that answers."""

    home: Path
    url: str
    agent: str
    upstream: Provider
    model: Model

    def stored(self) -> list[Trace]:
        """Every conversation of this agent in the store, oldest first."""
        return stored(self.home, self.agent)


class House:
    """A `prx serve` that the tests of a module share; each test is an agent of its own."""

    def __init__(self, home: Path, url: str, upstream: Provider) -> None:
        self._home, self._url, self._upstream = home, url, upstream
        self._agents = count(1)

    def front(self) -> Front:
        """A fresh agent, with a model that has said nothing yet."""
        model, agent = Model(), f"agent-{next(self._agents)}"
        self._upstream.script = model
        self._upstream.seen.clear()
        self._upstream.gone = 0
        url = f"{self._url.removesuffix('/v1')}/a/{agent}/v1"
        return Front(self._home, url, agent, self._upstream, model)


@contextmanager
def house(home: Path, *more: str) -> Iterator[House]:
    """Stops the gateway at the end as an operator does; nothing it recorded may be lost then."""
    with provider(Model()) as upstream:
        with served(home, upstream.url, *(more or ("--no-evolution",))) as (process, url):
            yield House(home, url, upstream)
            before = len(interactions(home))
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
            assert len(interactions(home)) == before


def stored(home: Path, agent: str | None = None, **env: str) -> list[Trace]:
    """Conversations of the store, oldest first, after shipping twice (which must change nothing)."""
    app = open_app(home=home, env={"HOME": str(home), **env})
    try:
        app.ship()
        counts = app.records.counts()
        app.ship()
        assert app.records.counts() == counts
        return list(app.records.traces(agent=agent))
    finally:
        app.close()


def calls_of(traces: list[Trace]) -> list[Interaction]:
    """Every model call of the store, in order of time; one record per id."""
    found = [one for trace in traces for one in trace.interactions]
    assert len({one.record_id for one in found}) == len(found)
    return sorted(found, key=lambda one: one.at)


def clients_python() -> str:
    """The interpreter of the frameworks (`pip install '.[clients]'` in a venv of its own)."""
    for place in (os.environ.get("PRX_CLIENTS_PYTHON", ""), str(ROOT / ".venv-clients/bin/python")):
        if place and Path(place).exists():
            return place
    pytest.skip("the agent frameworks are not installed; `make clients` makes .venv-clients")


def run_program(command: list[str], url: str, *arguments: str, cwd: Path = ROOT) -> Any:
    """What a client program printed as JSON. It gets the base URL the way its users set it."""
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(cwd),
        "OPENAI_API_KEY": SECRET,
        "OPENAI_BASE_URL": url,
        # None of them may talk to anyone but us while a test runs.
        "OPENAI_AGENTS_DISABLE_TRACING": "1",
        "LANGSMITH_TRACING": "false",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "PYTHONUTF8": "1",
    }
    done = subprocess.run(
        [*command, *arguments], capture_output=True, env=env, cwd=cwd, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr.decode()[-4000:]
    return json.loads(done.stdout)


def node() -> str:
    found = shutil.which("node")
    if found is None or shutil.which("npm") is None:
        pytest.skip("Node is not installed")
    return found
