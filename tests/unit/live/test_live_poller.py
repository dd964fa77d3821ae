import subprocess
import sys
import threading
from collections import Counter

import pytest

from prx.domain.errors import StoreError
from prx.domain.replaced import StoreReplaced
from prx.domain.serving import Serving
from prx.live.poller import ServingPoller


class Source:
    """Where what is served is read from; a test can break it, and wait for the next read."""

    def __init__(self) -> None:
        self.version = "v1.0"
        self.broken = False
        self.reads: Counter[str] = Counter()
        self._changed = threading.Condition()

    def __call__(self, agent: str) -> Serving:
        with self._changed:
            self.reads[agent] += 1
            self._changed.notify_all()
        if self.broken:
            raise ConnectionError("store is down")
        return Serving(agent=agent, version=self.version)

    def wait_for_reads(self, agent: str, more: int) -> None:
        with self._changed:
            wanted = self.reads[agent] + more
            assert self._changed.wait_for(lambda: self.reads[agent] >= wanted, timeout=20)


@pytest.fixture
def source() -> Source:
    return Source()


def test_the_first_question_gets_what_is_served_and_later_changes_arrive(source: Source) -> None:
    poller = ServingPoller(source, 0.001, first_wait_s=20)
    assert poller("bank").version == "v1.0"
    source.version = "v1.1"
    source.wait_for_reads("bank", 2)
    assert poller("bank").version == "v1.1"
    assert poller("other").version == "v1.1"
    poller.close()


def test_a_store_that_goes_down_leaves_the_last_known(source: Source) -> None:
    poller = ServingPoller(source, 0.001, first_wait_s=20)
    poller("bank")
    source.broken = True
    source.wait_for_reads("bank", 3)
    assert poller("bank").version == "v1.0"
    assert poller.failures >= 1
    assert poller.failing
    source.broken, source.version = False, "v2.0"
    source.wait_for_reads("bank", 2)
    assert poller("bank").version == "v2.0"
    poller.close()
    assert not poller.failing


def test_a_store_that_was_never_there_gives_the_apps_own_defaults(source: Source) -> None:
    source.broken = True
    poller = ServingPoller(source, 0.001, first_wait_s=20)
    assert poller("bank") == Serving(agent="bank")
    poller.close()


def test_a_store_that_hangs_costs_the_first_question_no_more_than_its_wait(source: Source) -> None:
    release = threading.Event()

    def hangs(agent: str) -> Serving:
        release.wait(30)
        return source(agent)

    poller = ServingPoller(hangs, 0.001, first_wait_s=0.01)
    assert poller("bank") == Serving(agent="bank")
    release.set()
    source.wait_for_reads("bank", 2)
    assert poller("bank").version == "v1.0"
    poller.close()


def test_questions_are_answered_from_memory(source: Source) -> None:
    poller = ServingPoller(source, 3600, first_wait_s=20)
    for _ in range(100):
        poller("bank")
    assert source.reads["bank"] == 1
    poller.close()
    assert poller("bank").version == "v1.0"
    assert poller("never asked before") == Serving(agent="never asked before")


def test_refresh_reads_at_once(source: Source) -> None:
    poller = ServingPoller(source, 3600, first_wait_s=20)
    poller("bank")
    source.version = "v1.1"
    poller.refresh()
    assert poller("bank").version == "v1.1"
    poller.close()


FORK = """
import os, threading
from prx.domain.serving import Serving
from prx.live.poller import ServingPoller
def fetch(agent):
    return Serving(agent=agent, version=f"read in {os.getpid()}")
poller = ServingPoller(fetch, 3600, first_wait_s=20)
assert poller("known").version == f"read in {os.getpid()}"
parent = os.getpid()
kid = os.fork()
if kid == 0:
    known, fresh = poller("known").version, poller("fresh").version
    os._exit(0 if fresh == f"read in {os.getpid()}" and known.startswith("read in") else 1)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(kid, 0)[1]))
"""


def test_a_forked_child_reads_for_itself() -> None:
    assert subprocess.run([sys.executable, "-c", FORK], check=False, timeout=60).returncode == 0


def test_an_outage_is_told_once_and_again_when_it_ends_in_another_store(
    caplog: pytest.LogCaptureFixture,
) -> None:
    errors = [StoreError("it is down"), StoreError("it is down"), StoreReplaced("it went back"), None]

    def fetch(agent: str) -> Serving:
        if errors and (error := errors.pop(0)) is not None:
            raise error
        return Serving(agent=agent)

    poller = ServingPoller(fetch, 60.0)
    poller._asked["bank"] = threading.Event()
    with caplog.at_level("WARNING", logger="prx.live"):
        for _ in range(5):
            poller.refresh()
    said = [record.getMessage() for record in caplog.records]
    assert ["down" in one for one in said] == [True, False, False]
    assert "went back" in said[1]
    assert said[2] == "prx: what to serve can be read again"
