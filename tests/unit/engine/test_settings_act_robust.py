"""What breaks in one place stops neither the other steps, nor other agents, nor the safety ticks."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from arranged import AGENT, Arranged, session

from prx.domain.errors import StoreError
from prx.domain.events import Due, Event, EventName
from prx.domain.proposals import Proposal
from prx.domain.records import PromptSeen
from prx.domain.scores import SessionScore
from prx.engine.engine import Engine
from prx.engine.lease import leased
from prx.engine.report import Report
from prx.settings import Fitness, Settings
from prx.views.status import status

OTHER = "zeta"


@dataclass
class Breaking:
    """A record store whose named verbs raise for one agent; everything else goes through."""

    inner: Any
    error: Exception | None = None
    agent: str | None = AGENT
    verbs: tuple[str, ...] = ("traces",)

    def __getattr__(self, name: str) -> Any:
        real = getattr(self.inner, name)
        if name not in self.verbs:
            return real

        def asked(*args: Any, **kwargs: Any) -> Any:
            if self.error is not None and self.agent in (None, kwargs.get("agent")):
                raise self.error
            return real(*args, **kwargs)

        return asked


def two_agents(settings: Settings | None = None) -> tuple[Arranged, Breaking]:
    arranged = Arranged.new(settings or Settings(enabled=True))
    seen = PromptSeen(record_id="p2", at=arranged.now, agent=OTHER, name="support", text="You help.")
    arranged.write([seen])
    arranged.engine.score(arranged.now)
    store = Breaking(arranged.context.records)
    arranged.context = replace(arranged.context, records=store)
    arranged.engine = Engine(arranged.context)
    return arranged, store


def jobs(arranged: Arranged, agent: str) -> dict[str, int]:
    with arranged.context.ledger.view() as view:
        return {due.job: due.runs for due in view.find(Due, agent=agent)}


def events(arranged: Arranged, name: EventName = EventName.ALERT) -> list[Event]:
    with arranged.context.ledger.view() as view:
        return [event for _, event in view.events() if event.name is name]


def test_an_error_of_one_step_stops_neither_the_other_steps_nor_the_other_agent() -> None:
    arranged, store = two_agents()
    store.error = StoreError("records.sqlite cannot be read; check the disk")
    report = arranged.engine.advance(arranged.now)
    broken = [step for step in report.steps if step.answer == "error"]
    assert [(step.what, step.subject) for step in broken] == [("analysis", AGENT)]
    assert "check the disk" in broken[0].why
    assert jobs(arranged, AGENT).keys() >= {"breaker", "watch", "alerts", "evolve"}
    assert "analysis" not in jobs(arranged, AGENT)
    assert jobs(arranged, OTHER)["analysis"] == 1


def test_an_error_is_alerted_once_and_resolved_once() -> None:
    arranged, store = two_agents()
    store.error = StoreError("records.sqlite cannot be read; check the disk")
    for _ in range(3):
        arranged.engine.advance(arranged.now)
        arranged.pass_hours(0.2)
    store.error = None
    for _ in range(2):
        arranged.engine.advance(arranged.now)
        arranged.pass_hours(0.2)
    told = [(event.subject, event.details["status"]) for event in events(arranged)]
    key = f"step:analysis/{AGENT}"
    assert told == [(key, "open"), (key, "resolved")]


def test_a_bug_is_logged_with_its_traceback_and_gives_the_lease_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    arranged, store = two_agents()
    store.error = KeyError("no such thing")
    with caplog.at_level(logging.ERROR, logger="prx.engine"):
        report = arranged.engine.advance(arranged.now)
    (broken,) = [step for step in report.steps if step.answer == "error"]
    assert "unexpected KeyError" in broken.why
    assert any(record.exc_info and record.exc_info[0] is KeyError for record in caplog.records)
    with leased(arranged.context, AGENT, arranged.now):
        pass


def test_breakers_run_although_scoring_broke_and_the_agent_is_told() -> None:
    arranged, store = two_agents()
    store.error, store.agent, store.verbs = StoreError("no scores"), None, ("changed_sessions",)
    report = arranged.engine.advance(arranged.now)
    assert any(step.what == "scoring" and step.answer == "error" for step in report.steps)
    assert jobs(arranged, AGENT)["breaker"] == jobs(arranged, OTHER)["breaker"] == 1
    assert {(e.agent, e.subject) for e in events(arranged)} >= {(AGENT, "scoring"), (OTHER, "scoring")}


def test_a_breaker_that_breaks_does_not_stop_the_watch() -> None:
    arranged, store = two_agents()
    store.error, store.verbs = StoreError("no scores"), ("scores",)
    report = arranged.engine.advance(arranged.now, safety_only=True)
    assert jobs(arranged, AGENT)["watch"] == 1
    assert any(step.what == "alerts" and step.answer == "error" for step in report.steps)


def test_runs_that_keep_breaking_pause_the_engine_and_safety_goes_on() -> None:
    arranged, store = two_agents()
    store.error = StoreError("records.sqlite cannot be read; check the disk")
    for _ in range(3):
        arranged.engine.advance(arranged.now)
        arranged.pass_hours(1.1)
    (paused,) = events(arranged, EventName.PAUSED)
    assert "3 runs in a row broke (analysis of default)" in paused.summary
    before = jobs(arranged, AGENT)
    arranged.engine.advance(arranged.now)
    after = jobs(arranged, AGENT)
    assert after["breaker"] == before["breaker"] + 1
    assert after["evolve"] == before["evolve"]


def test_safety_only_neither_analyses_nor_proposes() -> None:
    arranged, _ = two_agents()
    arranged.engine.advance(arranged.now, safety_only=True)
    assert set(jobs(arranged, AGENT)) == {"lease", "breaker", "watch", "alerts"}


def state(arranged: Arranged) -> tuple[Any, ...]:
    with arranged.context.ledger.view() as view:
        audit = view.audit_rows()
    scores: Iterator[SessionScore] = arranged.context.records.scores()
    return arranged.context.ledger.data_version(), audit, list(scores)


def test_a_dry_run_writes_nothing_and_still_sees_what_is_not_scored_yet() -> None:
    arranged = Arranged.new(Settings(enabled=True))
    for k in range(160):
        at = arranged.now + timedelta(minutes=k)
        slow = k % 8 == 0
        records = session(f"s{k}", at, outcome=0.0 if slow else 1.0, user=f"u{k}")
        arranged.write(records)
    arranged.pass_hours(5)
    from prx.domain.layers import Layer

    before = state(arranged)
    report = arranged.engine.trigger(AGENT, Layer.PROMPT, arranged.now, dry_run=True)
    assert state(arranged) == before
    assert report.steps
    assert all(step.answer != "error" for step in report.steps)
    with arranged.context.ledger.view() as view:
        assert not view.find(Proposal, agent=AGENT)


def test_low_fitness_is_told_once_when_it_falls_and_once_when_it_is_over() -> None:
    arranged = Arranged.new(Settings(fitness=Fitness(min_sessions_for_score=5)))

    def hours(outcome: float, count: int) -> None:
        for _ in range(count):
            for k in range(4):
                key = f"{arranged.now:%d%H}-{k}"
                arranged.write(session(key, arranged.now, outcome=outcome, latency_ms=9000 - 8900 * outcome))
            arranged.pass_hours(1)
            arranged.engine.advance(arranged.now)

    hours(0.0, 6)
    hours(1.0, 40)
    hours(0.0, 30)
    told = [(e.subject, e.details["status"]) for e in events(arranged)]
    assert told == [("fitness", "open"), ("fitness", "resolved"), ("fitness", "open")]
    assert "below the minimum 0.50" in events(arranged)[0].summary


@pytest.mark.parametrize(("per_day", "told"), [(20, 1), (3, 0)])
def test_traffic_that_stays_away_is_told_once_where_it_was_expected(per_day: int, told: int) -> None:
    arranged = Arranged.new(Settings())

    def day(sessions: int) -> None:
        for k in range(sessions):
            arranged.write(session(f"{arranged.now:%m%d}-{k}", arranged.now + timedelta(minutes=k)))
        for _ in range(4):
            arranged.pass_hours(6)
            arranged.engine.advance(arranged.now)

    for _ in range(9):
        day(per_day)
    for _ in range(3):
        day(0)
    opened = events(arranged, EventName.NO_DATA)
    assert [e.details["status"] for e in opened] == ["open"] * told
    for _ in range(2):
        day(per_day)
    assert [e.details["status"] for e in events(arranged, EventName.NO_DATA)] == ["open", "resolved"] * told


def test_a_quiet_weekend_of_every_week_is_no_alarm() -> None:
    arranged = Arranged.new(Settings())
    for k in range(21):
        if k % 7 < 5:
            for n in range(30):
                arranged.write(session(f"{k}-{n}", arranged.now + timedelta(minutes=n)))
        arranged.pass_hours(24)
        arranged.engine.advance(arranged.now)
    assert events(arranged, EventName.NO_DATA) == []


def test_a_session_that_cannot_be_scored_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    arranged = Arranged.new(Settings())
    arranged.write([*session("good", arranged.now), *session("bad", arranged.now)])
    from prx.engine import intake

    real = intake.score_session

    def scored(trace: Any, **given: Any) -> SessionScore:
        if trace.start.session_id == "bad":
            raise ZeroDivisionError("a bug")
        return real(trace, **given)

    monkeypatch.setattr(intake, "score_session", scored)
    report = Report()
    later: datetime = arranged.now + timedelta(days=3)
    arranged.engine.score(later, report)
    assert [s.session_id for s in arranged.context.records.scores()] == ["good"]
    assert [(step.what, step.subject) for step in report.steps] == [("scoring", "bad")]


def test_status_names_what_is_open() -> None:
    arranged, store = two_agents()
    store.error = StoreError("records.sqlite cannot be read; check the disk")
    arranged.engine.advance(arranged.now)
    with arranged.context.ledger.view() as view:
        hints = status(view, arranged.context.settings, AGENT).hints
    assert f"open alert since 2026-03-02T00:00: step:analysis/{AGENT}" in hints
