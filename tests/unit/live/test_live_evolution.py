import asyncio
import contextvars
import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from prx.domain.codec import content_hash, decode, encode
from prx.domain.ids import Ids
from prx.domain.layers import Layer
from prx.domain.records import (
    Assignment,
    Exposure,
    Feedback,
    Interaction,
    Message,
    PromptSeen,
    Record,
    SessionEnd,
    SessionStart,
    Terminal,
    Tokens,
    ToolCall,
    ToolStatus,
    UnitSource,
)
from prx.domain.serving import ServedExperiment, Serving
from prx.domain.versions import Strategy
from prx.live.assign import assign
from prx.live.evolution import Evolution
from prx.live.session import Session

NOW = datetime(2026, 12, 1, 8, tzinfo=UTC)
DEFAULT = "Help {who}."
CHAMPION = "Help {who} well."
TREATED = "Help {who} best."


@dataclass
class App:
    """An app with a clock it turns itself; every record is checked to survive its stored form."""

    serving: dict[str, Serving] = field(default_factory=dict)
    records: list[Record] = field(default_factory=list)
    seconds: float = 0.0
    asked: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.evolution = Evolution(
            self.serve,
            self.take,
            ids=Ids(random.Random(3)),
            now=lambda: NOW + timedelta(seconds=self.seconds),
            clock=lambda: self.seconds,
        )

    def serve(self, agent: str) -> Serving:
        self.asked.append(agent)
        return self.serving.get(agent, Serving(agent=agent))

    def take(self, record: Record) -> None:
        assert decode(encode(record), type(record)) == record
        self.records.append(record)

    def of(self, kind: type) -> list[Any]:
        return [r for r in self.records if isinstance(r, kind)]

    def kinds(self) -> list[type]:
        return [type(r) for r in self.records]


@pytest.fixture
def app() -> App:
    return App()


def experiment(**fields: object) -> ServedExperiment:
    base: dict[str, object] = {
        "experiment_id": "e-1",
        "layer": Layer.PROMPT,
        "ramp": 1.0,
        "traffic_split": 0.5,
        "ramp_salt": "r",
        "variant_salt": "v",
        "prompts": {"support": TREATED},
    }
    return ServedExperiment(**(base | fields))  # type: ignore[arg-type]


def serving(*experiments: ServedExperiment, **fields: object) -> Serving:
    base: dict[str, object] = {
        "version": "v1.2",
        "prompts": {"support": CHAMPION},
        "baselines": {"support": (content_hash(DEFAULT),)},
        "experiments": experiments,
    }
    return Serving(**(base | fields))  # type: ignore[arg-type]


def user_in(arm: str | None, running: ServedExperiment) -> str:
    return next(f"u-{n}" for n in range(1000) if assign(f"u-{n}", running) == arm)


# Sessions


def test_a_session_is_recorded_with_its_scope_and_its_end(app: App) -> None:
    with app.evolution.session("order-7", user="u-1", agent="bank", tenant="t", channel="chat") as session:
        app.seconds = 60
    start, end = app.records
    assert start == SessionStart(
        record_id=start.record_id,
        at=NOW,
        session_id=session.id,
        agent="bank",
        tenant="t",
        user="u-1",
        unit="u-1",
        unit_source=UnitSource.USER,
        channel="chat",
        ref="order-7",
    )
    assert isinstance(end, SessionEnd)
    assert end.at == NOW + timedelta(seconds=60)


def test_without_a_user_the_session_is_the_unit(app: App) -> None:
    with app.evolution.session() as session:
        pass
    assert (app.records[0].unit, app.records[0].unit_source) == (session.id, UnitSource.SESSION)  # type: ignore[union-attr]


def test_a_conversation_over_several_requests_is_one_session_that_ends_when_told(app: App) -> None:
    for _ in range(2):
        with app.evolution.session(session_id="conversation-1") as session:
            session.call(messages="hi").finish()
    assert SessionEnd not in app.kinds()
    session.end()
    session.end()
    assert len({r.record_id for r in app.of(SessionStart)}) == 1
    assert len(app.of(SessionEnd)) == 1
    assert {r.session_id for r in app.of(Interaction)} == {"conversation-1"}


def test_the_app_sees_its_own_exception_and_the_session_ends(app: App) -> None:
    with pytest.raises(KeyError), app.evolution.session():
        raise KeyError("the app's own")
    assert app.kinds() == [SessionStart, SessionEnd]
    assert app.evolution.current() is None


def test_tasks_and_threads_each_have_their_own_session(app: App) -> None:
    seen: dict[str, str | None] = {}

    async def task(user: str) -> None:
        async with app.evolution.session(user=user) as session:
            await asyncio.sleep(0)
            current = app.evolution.current()
            seen[session.id] = current.id if current else None

    async def main() -> None:
        await asyncio.gather(*(task(f"u-{n}") for n in range(5)))

    asyncio.run(main())
    assert len(seen) == 5
    assert all(current == own for own, current in seen.items())

    inside: list[Session | None] = []
    with app.evolution.session() as session:
        bare = threading.Thread(target=lambda: inside.append(app.evolution.current()))
        copied = threading.Thread(
            target=contextvars.copy_context().run, args=(lambda: inside.append(app.evolution.current()),)
        )

        def attached() -> None:
            with session.here():
                inside.append(app.evolution.current())

        for thread in (bare, copied, threading.Thread(target=attached)):
            thread.start()
            thread.join()
    assert inside == [None, session, session]


def test_an_inner_session_hides_the_outer_one_until_it_ends(app: App) -> None:
    with app.evolution.session() as outer:
        with app.evolution.session(agent="helper") as inner:
            assert app.evolution.current() is inner
        assert app.evolution.current() is outer


def test_a_session_of_another_evolution_is_not_ours(app: App) -> None:
    with App().evolution.session():
        assert app.evolution.current() is None


# Prompts


def test_before_the_ledger_knows_the_prompt_the_default_is_served_and_reported_once(app: App) -> None:
    with app.evolution.session() as session:
        texts = [session.prompt("support", default=DEFAULT, who="them") for _ in range(3)]
    assert texts == ["Help them."] * 3
    [seen] = app.of(PromptSeen)
    assert (seen.agent, seen.name, seen.text) == ("default", "support", DEFAULT)


def test_a_registered_default_serves_the_champion(app: App) -> None:
    app.serving["default"] = serving()
    with app.evolution.session() as session:
        assert session.prompt("support", default=DEFAULT, who="them") == "Help them well."
    assert app.of(PromptSeen) == []


def test_a_default_that_the_developer_changed_is_served_at_once_and_reported(app: App) -> None:
    running = experiment()
    app.serving["default"] = serving(running)
    changed = "Help {who} in rhyme."
    with app.evolution.session(user=user_in("treatment", running)) as session:
        assert session.prompt("support", default=changed, who="us") == "Help us in rhyme."
    assert [r.text for r in app.of(PromptSeen)] == [changed]
    assert app.of(Assignment) == []


def test_a_default_that_comes_back_is_served_as_sent_and_told_once_a_quarter_of_an_hour(app: App) -> None:
    shown = msgspec.structs.replace(serving(), earlier={"support": (content_hash("Old {who}."),)})
    app.serving["default"] = shown
    for _ in range(20):
        app.seconds += 120
        with app.evolution.session() as session:
            assert session.prompt("support", default="Old {who}.", who="us") == "Old us."
            with session.call(model="m") as call:
                call.reply(text="yes")
        with app.evolution.session() as session:
            assert session.prompt("support", default=DEFAULT, who="us") == "Help us well."
            with session.call(model="m") as call:
                call.reply(text="yes")
    told = [r.text for r in app.of(PromptSeen)]
    assert {text: told.count(text) for text in told} == {"Old {who}.": 3, DEFAULT: 3}
    assert [r.version for r in app.of(Interaction)] == [None, shown.version] * 20


def test_a_default_that_changes_inside_an_experiment_shows_as_contamination(app: App) -> None:
    running = experiment()
    app.serving["default"] = serving(running)
    with app.evolution.session(user=user_in("treatment", running)) as session:
        session.prompt("support", default=DEFAULT, who="us")
        session.prompt("support", default="Something else", who="us")
    assert [(e.assigned, e.served) for e in app.of(Exposure)] == [
        ("treatment", "treatment"),
        ("treatment", "default"),
    ]


def test_a_default_filled_in_by_the_app_floods_nothing_and_is_named(app: App) -> None:
    with app.evolution.session() as session:
        for n in range(50):
            assert session.prompt("support", default=f"Help user {n}.") == f"Help user {n}."
    assert len(app.of(PromptSeen)) == 20
    assert app.evolution.faults == {"prompt default": 30}


def test_values_may_carry_any_name_but_default(app: App) -> None:
    with app.evolution.session() as session:
        assert session.prompt("p", default="{name} {self}", name="Bo", self="me") == "Bo me"


def test_each_arm_gets_its_text_and_the_records_come_before_the_outcome(app: App) -> None:
    running = experiment()
    app.serving["default"] = serving(running)
    texts = {"control": "Help us well.", "treatment": "Help us best."}
    for arm, text in texts.items():
        app.records.clear()
        user = user_in(arm, running)
        with app.evolution.session(user=user) as session:
            assert session.prompt("support", default=DEFAULT, who="us") == text
            assert session.prompt("support", default=DEFAULT, who="us") == text
            with session.call(model="m", messages=[{"role": "system", "content": text}]) as call:
                call.reply(text="done")
        assert app.kinds() == [SessionStart, Assignment, Exposure, Interaction, SessionEnd]
        assigned, exposed, outcome = app.records[1:4]
        assert isinstance(assigned, Assignment)
        assert isinstance(exposed, Exposure)
        assert isinstance(outcome, Interaction)
        assert (assigned.unit, assigned.variant, assigned.session_id) == (user, arm, session.id)
        assert (exposed.assigned, exposed.served) == (arm, arm)
        served = CHAMPION if arm == "control" else TREATED
        assert outcome.prompts == {"support": content_hash(served)}
        assert outcome.prompt_values == {"support": {"who": "us"}}
        assert outcome.version == "v1.2"


def test_a_user_stays_in_one_arm_over_sessions_and_processes(app: App) -> None:
    running = experiment()
    texts = set()
    for process in (app, App()):
        process.serving["default"] = serving(running)
        for _ in range(3):
            with process.evolution.session(user="u-5") as session:
                texts.add(session.prompt("support", default=DEFAULT, who="us"))
    assert len(texts) == 1


def test_outside_the_ramp_nothing_is_recorded_and_the_champion_serves(app: App) -> None:
    app.serving["default"] = serving(experiment(ramp=0.0))
    with app.evolution.session() as session:
        assert session.prompt("support", default=DEFAULT, who="us") == "Help us well."
    assert app.kinds() == [SessionStart, SessionEnd]


@pytest.mark.parametrize(
    "make",
    [
        lambda e: e.anonymous(),
        lambda e: e.session(user="u-1", env="staging"),
    ],
    ids=["no unit", "not production"],
)
def test_who_is_not_eligible_gets_the_champion(app: App, make: Callable[[Evolution], Session]) -> None:
    app.serving["default"] = serving(experiment(traffic_split=1.0))
    with make(app.evolution) as session:
        assert session.prompt("support", default=DEFAULT, who="us") == "Help us well."
    assert app.of(Assignment) == []


def test_an_experiment_that_starts_under_way_takes_no_session_that_had_a_call(app: App) -> None:
    app.serving["default"] = serving()
    with app.evolution.session(user="u-1") as session:
        session.prompt("support", default=DEFAULT, who="us")
        session.call().finish()
        app.serving["default"] = serving(experiment(traffic_split=1.0))
        assert session.prompt("support", default=DEFAULT, who="us") == "Help us well."
    assert app.of(Assignment) == []


def test_the_kill_switch_moves_a_session_to_the_champion_at_its_next_request(app: App) -> None:
    running = experiment(traffic_split=1.0)
    app.serving["default"] = serving(running)
    with app.evolution.session(user="u-1") as session:
        assert session.prompt("support", default=DEFAULT, who="us") == "Help us best."
        app.serving["default"] = serving(running, killed=True)
        assert session.prompt("support", default=DEFAULT, who="us") == "Help us well."
    assert [(e.assigned, e.served) for e in app.of(Exposure)] == [
        ("treatment", "treatment"),
        ("treatment", "control"),
    ]
    with app.evolution.session(user="u-2") as session:
        session.prompt("support", default=DEFAULT, who="us")
    assert len(app.of(Assignment)) == 1


def test_an_experiment_on_another_prompt_or_layer_touches_nothing(app: App) -> None:
    others = (
        experiment(prompts={"billing": "x"}, traffic_split=1.0),
        experiment(layer=Layer.STRATEGY, prompts=None, strategy=Strategy(), traffic_split=1.0),
    )
    app.serving["default"] = serving(*others)
    with app.evolution.session() as session:
        assert session.prompt("support", default=DEFAULT, who="us") == "Help us well."
    assert app.of(Assignment) == []


def test_routing_follows_the_champions_strategy_and_the_treated_one_in_its_arm(app: App) -> None:
    running = experiment(
        layer=Layer.STRATEGY,
        prompts=None,
        traffic_split=1.0,
        strategy=Strategy(default_models={"code": "big-2"}),
    )
    champion = Strategy(default_models={"code": "big", "default": "small"})
    app.serving["default"] = serving(strategy=champion)
    with app.evolution.session(user="u-1") as session:
        assert session.route("code", default="own") == "big"
        assert session.route("summary", default="own") == "small"
        with session.call(model="small") as call:
            call.reply(text="x")
        session.call(model="other").finish()
    routed, other = app.of(Interaction)
    assert (routed.routing.chosen, routed.routing.propensity, other.routing) == ("small", 1.0, None)
    app.serving["default"] = serving(running, strategy=champion)
    with app.evolution.session(user="u-1") as session:
        assert session.route("code", default="own") == "big-2"
        assert session.route("summary", default="own") == "own"
    assert [a.variant for a in app.of(Assignment)] == ["treatment"]


# Calls


def test_a_call_by_hand_is_recorded_with_what_was_told(app: App) -> None:
    session = app.evolution.session(intent="billing")
    with session.call(model="m", provider="acme", messages="What do I owe?", ref="turn-1") as call:
        app.seconds += 0.2
        call.first_token()
        app.seconds += 0.3
        call.reply(
            text="Nothing.",
            tokens={"input": 10, "output": 2},
            tool_calls=[{"name": "balance", "status": "ok", "latency_ms": 5}],
            cost_usd=0.25,
        )
        app.seconds += 100
    [record] = app.of(Interaction)
    assert record == Interaction(
        record_id=call.id,
        at=NOW,
        session_id=session.id,
        model="m",
        provider="acme",
        intent="billing",
        messages=(Message(role="user", content="What do I owe?"),),
        response="Nothing.",
        tool_calls=(ToolCall(name="balance", status=ToolStatus.OK, latency_ms=5.0),),
        ttft_ms=pytest.approx(200.0),  # type: ignore[arg-type]
        latency_ms=pytest.approx(500.0),  # type: ignore[arg-type]
        tokens=Tokens(input=10, output=2),
        cost_usd=0.25,
        ref="turn-1",
    )


class RateLimitError(Exception):
    status_code = 429


@pytest.mark.parametrize(
    ("error", "terminal", "external"),
    [
        (ValueError("bad"), Terminal.UPSTREAM_ERROR, False),
        (RateLimitError("slow"), Terminal.UPSTREAM_ERROR, True),
        (TimeoutError("late"), Terminal.UPSTREAM_ERROR, True),
        (ConnectionResetError("gone"), Terminal.UPSTREAM_ERROR, True),
        (asyncio.CancelledError(), Terminal.CLIENT_CANCELLED, True),
        (KeyboardInterrupt(), Terminal.CLIENT_CANCELLED, True),
        (SystemExit(1), Terminal.SHUTDOWN_CUT, True),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else str(value),
)
def test_however_a_call_ends_it_has_one_terminal_record(
    app: App, error: BaseException, terminal: Terminal, external: bool
) -> None:
    with pytest.raises(type(error)), app.evolution.session() as session, session.call(messages="hi"):
        raise error
    [record] = app.of(Interaction)
    assert (record.terminal, record.external_failure) == (terminal, external)
    assert app.evolution.faults == {}


def test_an_error_of_the_app_after_the_reply_is_not_the_models(app: App) -> None:
    with pytest.raises(ValueError), app.evolution.session() as session, session.call() as call:  # noqa: PT012
        call.reply(text="fine")
        raise ValueError("the app could not parse it")
    [record] = app.of(Interaction)
    assert (record.terminal, record.response, record.extra) == (
        Terminal.COMPLETED,
        "fine",
        {"app_error": "ValueError"},
    )


def test_finishing_from_many_threads_writes_one_record(app: App) -> None:
    call = app.evolution.session().call(messages="hi")
    threads = [threading.Thread(target=call.finish) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(app.of(Interaction)) == 1


def test_nonsense_from_the_app_costs_neither_the_app_nor_the_record(app: App) -> None:
    class Nasty:
        def __str__(self) -> str:
            raise RuntimeError("no text")

    with app.evolution.session(user=5, session_id=7) as session:  # type: ignore[arg-type]
        assert session.prompt("p", default="Hi {x}", x=Nasty()) == "Hi {x}"
        assert session.prompt("q", default=None) is None  # type: ignore[arg-type]
        with session.call(model=None, messages=[Nasty(), 5]) as call:  # type: ignore[arg-type]
            call.reply(text=b"bytes", tokens="many", tool_calls=[None], cost_usd=float("nan"))  # type: ignore[arg-type]
    assert [r.session_id for r in app.of(Interaction)] == ["7"]
    assert app.evolution.faults["prompt"] >= 1


def test_the_prompt_that_stands_in_the_messages_is_the_one_recorded(app: App) -> None:
    with app.evolution.session() as session:
        first = session.prompt("first", default="You plan.")
        session.prompt("second", default="You write.")
        session.call(messages=[{"role": "system", "content": f"{first}\nToday is Monday."}]).finish()
        session.call(messages="something else").finish()
    one, other = app.of(Interaction)
    assert set(one.prompts) == {"first"}
    assert set(other.prompts) == {"first", "second"}


# Feedback


def test_feedback_names_its_target_and_reads_words(app: App) -> None:
    with app.evolution.session() as session:
        call = session.call()
        assert app.evolution.feedback(name="thumb", value="up")
        assert app.evolution.feedback(name="thumb", value=False, record=call)
    assert app.evolution.feedback(name="task_outcome", value=0.5, ref="order-7", feedback_id="f-1")
    assert app.evolution.feedback(name="comment", value="nice", session=session, source="user")
    assert app.evolution.feedback(name="minutes", value=12, session="s-9")
    found = [(f.target_kind, f.target, f.name, f.value) for f in app.of(Feedback)]
    assert found == [
        ("session", session.id, "thumb", 1.0),
        ("interaction", call.id, "thumb", 0.0),
        ("ref", "order-7", "task_outcome", 0.5),
        ("session", session.id, "comment", "nice"),
        ("session", "s-9", "minutes", 12.0),
    ]
    assert app.of(Feedback)[2].record_id == "f-1"


@pytest.mark.parametrize(
    "given",
    [
        {"name": "thumb", "value": 2.0, "ref": "r"},
        {"name": "thumb", "value": "sideways", "ref": "r"},
        {"name": "score", "value": float("nan"), "ref": "r"},
        {"name": "thumb", "value": 1.0},
        {"name": "thumb", "value": 1.0, "ref": "r", "session": "s"},
        {"name": "thumb", "value": None, "ref": "r"},
        {"name": "thumb", "value": 1.0, "ref": "r", "at": "yesterday"},
    ],
)
def test_feedback_that_means_nothing_is_refused_and_counted_and_never_raises(
    app: App, given: dict[str, Any]
) -> None:
    assert app.evolution.feedback(**given) is False
    assert app.records == []
    assert app.evolution.faults == {"feedback": 1}


def test_feedback_with_a_time_without_zone_means_this_machines_clock(app: App) -> None:
    assert app.evolution.feedback(name="thumb", value="up", ref="r", at=datetime(2026, 12, 1, 9))
    (told,) = app.of(Feedback)
    assert told.at == datetime.fromtimestamp(datetime(2026, 12, 1, 9).timestamp(), UTC)
    assert told.at.tzinfo is UTC, "a store refuses a time without a zone"


def test_an_argument_that_cannot_be_written_as_text_counts_as_not_given(app: App) -> None:
    class Odd:
        def __str__(self) -> str:
            raise RuntimeError("no text")

    with app.evolution.session(user=Odd(), agent=Odd()):  # type: ignore[arg-type]
        pass
    start = app.of(SessionStart)[0]
    assert (start.user, start.agent, start.unit_source) == (None, "default", UnitSource.SESSION)
    assert app.evolution.faults == {"session argument": 2}


# The end


def test_close_cuts_open_calls_flushes_and_runs_once() -> None:
    records: list[Record] = []
    steps: list[str] = []

    def flush(deadline: float) -> bool:
        steps.append(f"flush {deadline}")
        return True

    evolution = Evolution(
        lambda agent: Serving(agent=agent),
        records.append,
        flush=flush,
        on_close=lambda: steps.append("closed"),
    )
    call = evolution.session().call(messages="hi")
    assert evolution.close(2.0)
    call.reply(text="too late")
    call.finish()
    assert evolution.close()
    assert [r.terminal for r in records if isinstance(r, Interaction)] == [Terminal.SHUTDOWN_CUT]
    assert steps == ["flush 2.0", "closed"]


def test_a_flush_that_hangs_gives_up_at_its_deadline() -> None:
    release = threading.Event()
    evolution = Evolution(
        lambda agent: Serving(agent=agent), lambda _: None, flush=lambda _: release.wait(30)
    )
    assert evolution.flush(0.01) is False
    release.set()
    assert evolution.flush(10.0) is True
    evolution.close()


AT_EXIT = """
import sys
from prx.domain.codec import encode
from prx.domain.serving import Serving
from prx.live.evolution import Evolution
out = sys.stdout.buffer
evolution = Evolution(lambda a: Serving(agent=a), lambda r: out.write(encode(r) + b"\\n"),
                      flush=lambda d: bool(out.write(b"flushed\\n")) and out.flush() is None)
evolution.session().call(messages="hi")
"""

FORK = """
import os
from prx.domain.serving import Serving
from prx.live.evolution import Evolution
def take(record):
    os.write(1, f"{os.getpid()} {record.record_id}\\n".encode())
evolution = Evolution(lambda a: Serving(agent=a), take)
with evolution.session() as session:
    call = session.call(messages="hi")
    kid = os.fork()
    if kid == 0:
        call.finish()
        with session.call(messages="from the child"):
            pass
        os._exit(0)
    os.waitpid(kid, 0)
    call.finish()
print(os.getpid(), call.id, "parent", flush=True)
"""


def run(script: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, check=True, timeout=60)
    return done.stdout.decode().splitlines()


def test_a_process_that_just_ends_loses_no_call_and_flushes() -> None:
    lines = run(AT_EXIT)
    assert '"terminal":"shutdown_cut"' in lines[-2]
    assert lines[-1] == "flushed"


def test_a_call_open_at_a_fork_is_finished_by_the_parent_alone() -> None:
    lines = [line.split() for line in run(FORK)]
    parent, call_id, _ = next(line for line in lines if line[-1] == "parent")
    assert [pid for pid, *rest in lines if rest == [call_id]] == [parent]
    assert len({pid for pid, *_ in lines}) == 2
    assert os.getpid() != int(parent)
