"""How long a client may keep the gateway waiting, by a clock that the test holds."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest

from prx.gateway.connections import Limits, Patience


@dataclass(eq=False)
class Cycle:
    response_complete: bool = False
    response_started: bool = False
    more_body: bool = False


@dataclass(eq=False)
class Client:
    """A connection: `cycle` is its request, `left` the bytes of the answer that it has not taken."""

    cycle: Any = None
    timeout_keep_alive_task: asyncio.TimerHandle | None = None
    left: int = 0
    aborted: bool = False
    transport: Any = field(init=False)

    def __post_init__(self) -> None:
        self.transport = self

    def get_write_buffer_size(self) -> int:
        return self.left

    def abort(self) -> None:
        self.aborted = True


@pytest.fixture
def late() -> "Counter[str]":
    return Counter()


@pytest.fixture
def patience(late: "Counter[str]") -> Patience:
    return Patience(Limits(head=10, body=20, stall=30), lambda what: late.update((what,)))


def test_a_head_a_body_and_an_answer_have_each_their_own_limit(
    patience: Patience, late: "Counter[str]"
) -> None:
    head, body, answer = Client(), Client(Cycle(more_body=True)), Client(Cycle(), left=5)
    ends = {}
    for now in range(60):
        patience.look([head, body, answer], now)
        for name, one in (("head", head), ("body", body), ("answer", answer)):
            if one.aborted:
                ends.setdefault(name, now)
    assert ends == {"head": 11, "body": 21, "answer": 31}
    assert set(late) == set(ends)


def test_nobody_is_let_go_while_the_gateway_or_the_provider_is_what_takes_long(patience: Patience) -> None:
    waiting, streaming = Client(Cycle()), Client(Cycle(response_started=True, more_body=True))
    for now in range(0, 10_000, 5):
        patience.look([waiting, streaming], now)
    assert not waiting.aborted
    assert not streaming.aborted


def test_a_client_that_takes_some_of_its_answer_may_take_as_long_as_it_likes(patience: Patience) -> None:
    slow = Client(Cycle(), left=1_000)
    for now in range(0, 10_000, 25):
        slow.left -= 1
        patience.look([slow], now)
    assert not slow.aborted


def test_an_answer_that_was_given_whole_to_the_system_must_be_taken_too(patience: Patience) -> None:
    gone = Client(Cycle(response_complete=True), left=7)
    for now in (0, 31):
        patience.look([gone], now)
    assert gone.aborted


def test_each_request_of_a_connection_has_its_own_time(patience: Patience) -> None:
    busy = Client()
    for now in range(1_000):
        busy.cycle = Cycle(response_complete=True) if now % 9 == 0 else busy.cycle
        patience.look([busy], now)
    assert not busy.aborted


def test_a_connection_that_waits_for_nothing_is_the_servers_own_to_close(patience: Patience) -> None:
    loop = asyncio.new_event_loop()
    timer = loop.call_later(100, print)
    idle = Client(Cycle(response_complete=True), timeout_keep_alive_task=timer)
    for now in range(0, 1_000, 5):
        patience.look([idle], now)
    timer.cancel()
    loop.close()
    assert not idle.aborted
