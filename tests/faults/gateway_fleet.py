"""Several `prx serve` processes, each with its worker and its own state folder, on one PostgreSQL."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import urllib3
from gateway_house import eventually

from prx.wiring.app import open_app

POOL = urllib3.PoolManager(retries=False, timeout=30.0)
SLOW_SECONDS = 90.0


@dataclass
class Member:
    """One gateway and its worker. `url` changes with each start."""

    home: Path
    config: Path
    upstream: str
    process: "subprocess.Popen[bytes] | None" = None
    url: str = ""

    @property
    def log(self) -> str:
        """What gateway and worker said on standard error since the first start."""
        return (self.home / "stderr").read_text()

    @property
    def health(self) -> dict[str, Any]:
        """The answer of /health."""
        found: dict[str, Any] = POOL.request("GET", f"{self.url}/health").json()
        return found

    @property
    def ready(self) -> bool:
        """The answer of /readyz."""
        return bool(POOL.request("GET", f"{self.url}/readyz").status == 200)

    def start(self) -> None:
        """Start, and wait until it serves."""
        self.home.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "prx.cli", "serve", "--upstream", self.upstream, "--port", "0"]
        command += ["--home", str(self.home), "--config", str(self.config), "--drain", "5"]
        with (self.home / "stderr").open("ab") as log:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, env={**os.environ, "PRX_CONFIG": ""}
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline().decode()
        assert line.startswith("prx serve: "), f"it did not start: {self.log}"
        self.url = line.split()[2].removesuffix("/v1")

    def stop(self, how: signal.Signals) -> None:
        """End it by a signal, and wait for that."""
        if self.process is None:
            return
        self.process.send_signal(how)
        self.process.wait(60)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.process = None

    def restart(self, how: signal.Signals) -> None:
        """End it by a signal and start it again."""
        self.stop(how)
        self.start()

    def worker(self) -> int:
        """Process id of the worker."""
        assert self.process is not None
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return int(eventually(lambda: children.read_text().split(), 30)[0])

    def prx(self, *arguments: str) -> Any:
        """The answer of a `prx` command on this machine, and its exit code."""
        command = [sys.executable, "-m", "prx.cli", *arguments, "--json"]
        command += ["--home", str(self.home), "--config", str(self.config)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        return json.loads(done.stdout or "null"), done.returncode


@dataclass
class Fleet:
    """`acknowledged`: references of requests that were answered with 200."""

    members: list[Member]
    config: Path
    operator_home: Path
    acknowledged: set[str] = field(default_factory=set)
    numbers: Iterator[int] = field(default_factory=count)

    def ask(self, member: Member, system: str, *, user: str = "u") -> str:
        """Send one request of a session of its own; its reference. Raises: urllib3's errors."""
        return self._ask(member, system, user)[0]

    def experiment_of(self, member: Member, system: str) -> str:
        """The experiment that the answer to a request names."""
        return self._ask(member, system, "u")[1]

    def _ask(self, member: Member, system: str, user: str) -> tuple[str, str]:
        ref = f"r-{next(self.numbers)}"
        body = {
            "model": "m",
            "messages": [{"role": "system", "content": system}, {"role": "user", "content": ref}],
            "user": user,
        }
        headers = {"X-PRX-Session": f"s-{ref}", "X-PRX-Ref": ref}
        url = f"{member.url}/v1/chat/completions"
        answer = POOL.request("POST", url, body=json.dumps(body), headers=headers)
        assert answer.status == 200, answer.data
        self.acknowledged.add(ref)
        return ref, answer.headers.get("x-prx-experiment", "")

    @contextmanager
    def load(self, system: str) -> Iterator[None]:
        """A client of each member that asks again and again, until it is answered no more."""
        over = threading.Event()

        def client(member: Member) -> None:
            while not over.is_set():
                # What ends without an answer is nobody's acknowledged request.
                with suppress(urllib3.exceptions.HTTPError):
                    self.ask(member, system)
                over.wait(0.04)

        threads = [threading.Thread(target=client, args=(member,)) for member in self.members]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            over.set()
            for thread in threads:
                thread.join()

    def recorded(self) -> Counter[str]:
        """How often each reference is in the store."""
        with closing(open_app(home=self.operator_home, config=self.config, env={})) as app:
            found = [one.ref for trace in app.records.traces() for one in trace.interactions]
        return Counter(ref for ref in found if ref)

    def all_arrived(self) -> None:
        """Every acknowledged request is in the store, and each that is there once."""
        eventually(self._shipped, SLOW_SECONDS)
        eventually(lambda: self.acknowledged <= self.recorded().keys(), SLOW_SECONDS)
        assert set(self.recorded().values()) == {1}

    def well(self) -> None:
        """Every member says that nothing is wrong."""
        eventually(lambda: all(one.health["problems"] == [] for one in self.members), SLOW_SECONDS)

    def _shipped(self) -> bool:
        return not any(one.health["spool"]["waiting_bytes"] for one in self.members)


@contextmanager
def fleet_of(folder: Path, config_of: Callable[[int], Path], size: int, upstream: str) -> Iterator[Fleet]:
    """Started members; killed at the end."""
    members = [Member(folder / f"machine-{n}", config_of(n), upstream) for n in range(size)]
    try:
        at_once(*(member.start for member in members))
        yield Fleet(members, config_of(size), folder / "operator")
    finally:
        at_once(*(partial(member.stop, signal.SIGTERM) for member in members))


def at_once(*tasks: Callable[[], None]) -> None:
    """Do all side by side, and wait for the last. Raises: what a task raised."""
    with ThreadPoolExecutor(len(tasks)) as pool:
        for done in [pool.submit(task) for task in tasks]:
            done.result()
