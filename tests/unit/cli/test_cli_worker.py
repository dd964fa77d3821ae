"""`prx worker`: how often it does what, what it tells, and that it stops."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cli_terminal import Terminal

from prx.cli.call import Call, Outside
from prx.cli.top.worker import Loop, StoppedAtWork, told_to_stop
from prx.domain.errors import StoreError
from prx.engine.report import Report

T0 = datetime(2026, 3, 2, tzinfo=UTC)


class Clock:
    def __init__(self) -> None:
        self.now = T0

    def __call__(self) -> datetime:
        return self.now


def loop_of(terminal: Terminal, clock: Callable[[], datetime], said: list[str]) -> Loop:
    terminal.env["PRX_CONFIG"] = str(terminal.folder / "prx.toml")
    outside = Outside(terminal.open, terminal.env, clock, terminal.folder)
    call = Call(outside, "default", json=False, lang="en", home=None, config=None)
    return Loop(call, said.append)


@pytest.fixture
def configured(terminal: Terminal) -> Terminal:
    text = "[self_evolution.pipeline]\ngate_check_interval_secs = 60\n"
    (terminal.folder / "prx.toml").write_text(text)
    return terminal


def full_runs(terminal: Terminal) -> list[bool]:
    return [not given.get("safety_only") for verb, given in terminal.engine.asked if verb == "advance"]


def test_due_work_is_looked_for_at_the_interval_and_safety_in_between(configured: Terminal) -> None:
    clock = Clock()
    loop = loop_of(configured, clock, [])
    for _ in range(5):
        loop.run()
        clock.now += timedelta(seconds=30)
    assert full_runs(configured) == [True, False, True, False, True]
    loop.close()
    assert [app.closed for app in configured.apps] == [1]


def test_what_a_person_decided_is_taken_up_at_once(configured: Terminal) -> None:
    loop = loop_of(configured, Clock(), [])
    loop.run()
    with configured.world.ledger.transaction(now=T0, actor="person:ann") as tx:
        tx.audit("test", "t", {})
    loop.run()
    loop.run()
    assert full_runs(configured) == [True, True, False]


def test_a_changed_configuration_is_read_and_a_bad_one_told_once(configured: Terminal) -> None:
    clock, said = Clock(), list[str]()
    loop = loop_of(configured, clock, said)
    loop.run()
    file = configured.folder / "prx.toml"
    file.write_text("[self_evolution.pipeline]\ngate_check_interval_secs = -1\n")
    loop.run()
    loop.run()
    assert len(configured.apps) == 1
    (line,) = said
    assert "gate_check_interval_secs" in line
    assert "last good" in line
    file.write_text("[self_evolution.pipeline]\ngate_check_interval_secs = 7200\n")
    loop.run()
    assert [app.settings.pipeline.gate_check_interval_secs for app in configured.apps] == [60, 7200]


def test_an_error_is_said_once_until_it_is_over(configured: Terminal) -> None:
    said: list[str] = []
    loop = loop_of(configured, Clock(), said)
    reports: list[bool] = [True, True, False, True]

    def advance(now: datetime, **_: Any) -> Report:
        report = Report()
        if reports.pop(0):
            report.broke("analysis", "default", "the store cannot be read")
        return report

    configured.engine.advance = advance  # type: ignore[method-assign]
    for _ in range(4):
        loop.run()
    assert said == ["prx worker: the store cannot be read; trying again"] * 2


def test_once_answers_with_its_steps_where_json_is_wanted_and_is_silent_else(configured: Terminal) -> None:
    assert configured("worker", "--once").out == ""
    steps = json.loads(configured("worker", "--once", "--json").out)["steps"]
    assert [step["what"] for step in steps] == ["propose"]


def test_once_runs_once_and_says_what_went_wrong(configured: Terminal) -> None:
    assert configured("worker", "--once").code == 0
    assert full_runs(configured) == [True]
    configured.engine.refuse = StoreError("the store is broken; restore it")
    answer = configured("worker", "--once")
    assert (answer.code, "restore it" in answer.err) == (3, True)


def test_a_signal_ends_the_loop_and_the_handlers_come_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with told_to_stop(60.0) as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.wait(30)
    assert signal.getsignal(signal.SIGTERM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_work_that_does_not_end_in_time_is_broken_off() -> None:
    def work() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        threading.Event().wait(30)

    with pytest.raises(StoppedAtWork), told_to_stop(0.05):
        work()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_process_ends_by_itself_within_5_seconds_of_a_signal(tmp_path: Path, number: int) -> None:
    env = {**os.environ, "PRX_HOME": str(tmp_path / "home")}
    env.pop("PRX_CONFIG", None)
    process = subprocess.Popen(
        [sys.executable, "-m", "prx.cli", "worker", "--every", "3600"], env=env, cwd=tmp_path
    )
    try:
        deadline = time.monotonic() + 60
        while not (tmp_path / "home" / "records.sqlite").exists() and time.monotonic() < deadline:
            threading.Event().wait(0.05)
        threading.Event().wait(0.5)
        process.send_signal(number)
        assert process.wait(timeout=5) == 0
    finally:
        process.kill()
