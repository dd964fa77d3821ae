"""One process at a time works on an agent."""

import random
from datetime import timedelta

import pytest
from arranged import AGENT, START, Arranged

from prx.domain.events import Due
from prx.engine.lease import LEASE, Busy, leased
from prx.settings import Settings


@pytest.fixture
def arranged() -> Arranged:
    return Arranged.new(Settings())


def test_a_second_process_is_told_who_works_and_until_when(arranged: Arranged) -> None:
    with leased(arranged.context, AGENT, START), pytest.raises(Busy, match="try again"):
        with leased(arranged.context, AGENT, START + timedelta(minutes=1)):
            pass


def test_the_lease_of_a_dead_process_runs_out(arranged: Arranged) -> None:
    first = leased(arranged.context, AGENT, START)
    first.__enter__()
    with leased(arranged.context, AGENT, START + LEASE + timedelta(seconds=1)) as second:
        with second.transaction(START + LEASE) as tx:
            tx.audit("test", "t", {})


def test_who_lost_the_lease_writes_nothing(arranged: Arranged) -> None:
    late = leased(arranged.context, AGENT, START)
    lease = late.__enter__()
    with leased(arranged.context, AGENT, START + LEASE + timedelta(seconds=1)):
        with pytest.raises(Busy, match="took over"), lease.transaction(START) as tx:
            tx.audit("test", "t", {})
    with arranged.context.ledger.view() as view:
        assert all(row.kind != "test" for row in view.audit_rows())


def test_two_engines_run_a_due_job_once(arranged: Arranged) -> None:
    now = START + timedelta(hours=1)
    arranged.engine.advance(now)
    arranged.engine.advance(now)
    with arranged.context.ledger.view() as view:
        runs = {due.job: due.runs for due in view.find(Due, agent=AGENT)}
    assert runs["analysis"] == 1
    assert runs["breaker"] == 1


@pytest.mark.parametrize("seed", range(3))
def test_work_missed_in_downtime_runs_once_and_the_clock_goes_on(arranged: Arranged, seed: int) -> None:
    days = random.Random(seed).randint(2, 9)
    arranged.engine.advance(START)
    arranged.engine.advance(START + timedelta(days=days, minutes=3))
    with arranged.context.ledger.view() as view:
        due = view.get(Due, f"{AGENT}/breaker")
    assert due.runs == 2
    assert due.at > START + timedelta(days=days, minutes=3)
