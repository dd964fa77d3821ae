"""Four `prx serve` processes on one PostgreSQL: one arm a user, nothing lost, no work twice, one alarm."""

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path

import psycopg
import pytest
from chat_server import completion
from gateway_fleet import SLOW_SECONDS, Fleet, Member, at_once, fleet_of
from gateway_house import Provider, eventually, provider, whole
from postgres_trouble import Switchboard, cut_off_between_two_writes, in_trouble

import postgres_server as pg
from prx.domain.answers import Passed
from prx.domain.events import Due
from prx.domain.experiments import Experiment, ExperimentStatus, Plan, Variant
from prx.domain.layers import Layer
from prx.domain.times import utc_now
from prx.domain.versions import PromptSet
from prx.engine.lease import LEASE, leased
from prx.gateway.prompts.store import Learned, PromptFiles
from prx.ledger import verify_chain
from prx.views.audit import verify
from prx.wiring.app import App, open_app
from prx.wiring.lostrows import LOST_ROWS

pytestmark = pytest.mark.full
FLEET, USERS = 4, 24
SENT, BETTER = "You help with parcels, and you are kind to people.", "You help with parcels in two sentences."


@pytest.fixture(scope="module")
def server() -> Iterator[pg.PostgresServer]:
    if why := pg.missing():
        pytest.skip(why)
    with pg.own_server("max_connections = 60", "superuser_reserved_connections = 1") as made:
        yield made


@pytest.fixture(scope="module")
def upstream() -> Iterator[Provider]:
    with provider(lambda _seen: whole(completion())) as one:
        yield one


@pytest.fixture(scope="module")
def between(server: pg.PostgresServer) -> Iterator[Switchboard]:
    """What stands between the first machine and PostgreSQL."""
    one = Switchboard(server.port)
    yield one
    one.close()


@pytest.fixture(scope="module")
def database(server: pg.PostgresServer) -> str:
    return server.new_database()


@pytest.fixture(scope="module")
def fleet(
    server: pg.PostgresServer,
    database: str,
    between: Switchboard,
    upstream: Provider,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("fleet")

    def config_of(n: int) -> Path:
        url = database if n else database.replace(f":{server.port}/", f":{between.port}/")
        path = folder / f"prx-{n}.toml"
        path.write_text(
            f'[self_evolution]\nenabled = true\n[self_evolution.store]\nurl = "{url}"\n'
            "[self_evolution.pipeline]\ngate_check_interval_secs = 1\n"
        )
        return path

    learned = Learned(agent="default", name="system", text=SENT)
    PromptFiles(folder / "machine-1").learn(lambda _known: learned)
    with fleet_of(folder, config_of, FLEET, upstream.url) as made:
        yield made


@contextmanager
def operator(fleet: Fleet, **skew: float) -> Iterator[App]:
    """The stores as a person's command sees them, on a machine whose clock is `skew` (a timedelta) off."""
    ahead = timedelta(**skew)
    now = (lambda: utc_now() + ahead) if skew else utc_now
    with closing(open_app(home=fleet.operator_home, config=fleet.config, env={}, now=now)) as app:
        yield app


def run_an_experiment(app: App) -> None:
    plan = Plan(
        traffic_split=0.5, ramp=1.0, confidence_level=0.95, min_effect_size=0.02, effect_scale="absolute",
        min_sample_size=100, min_units=20, default_duration_hours=168, min_duration_hours=24,
        max_duration_hours=720, check_interval_hours=24, outcome_window_hours=24, randomization_unit="user",
        spending="hsd", planned_sample="power", planned_looks=7, act_on_futility=False, weights={}, rho=0.2,
        max_regression=0.1, ramp_salt="r", variant_salt="v",
    )  # fmt: skip
    with app.ledger.transaction(now=app.now(), actor="person:test") as tx:
        pointer = tx.pointer("default")
        assert pointer is not None
        control = tx.version("default", pointer.label).manifest
        part = tx.put_part(PromptSet(texts={"support": BETTER}))
        arms = [
            Variant(name=name, description=name, manifest=one)
            for name, one in (("control", control), ("treatment", control.with_part(Layer.PROMPT, part)))
        ]
        tx.put(
            Experiment(
                experiment_id="e", decision_id="d", layer=Layer.PROMPT, status=ExperimentStatus.RUNNING,
                created_at=app.now(), control=arms[0], treatment=arms[1], plan=plan,
            )
        )  # fmt: skip


def chain_is_whole(app: App) -> None:
    with app.ledger.view() as view:
        assert isinstance(verify_chain(view.audit_rows()), Passed)
        assert verify(view).whole


def accepted_at(member: Member) -> dict[str, str]:
    return {one.name: one.text for one in PromptFiles(member.home).accepted()}


def lease_of(app: App) -> Due:
    with app.ledger.view() as view:
        return view.get(Due, "default/lease")


def users() -> list[str]:
    return [f"user-{n}" for n in range(USERS)]


def suspend_a_lease_holder(database: str, workers: Collection[int]) -> int:
    """Stop a worker in the midst of a turn; its process id."""
    lease = "SELECT body FROM prx_ledger.document WHERE kind = 'due' AND key = 'default/lease'"
    deadline = time.monotonic() + SLOW_SECONDS
    with psycopg.connect(database, autocommit=True) as connection:

        def holder() -> int:
            found = connection.execute(lease).fetchone()
            held = json.loads(found[0]).get("lease_owner") if found else ""
            return int(held.split(":")[0].rsplit("-", 1)[1]) if held else 0

        while time.monotonic() < deadline:
            if (pid := holder()) not in workers:
                continue
            os.kill(pid, signal.SIGSTOP)
            writing = connection.execute(
                "SELECT 1 FROM pg_locks AS l JOIN pg_stat_activity AS a USING (pid) "
                "WHERE l.locktype = 'advisory' AND l.granted AND a.state = 'idle in transaction'"
            ).fetchall()
            if holder() == pid and not writing:
                return pid
            os.kill(pid, signal.SIGCONT)
    raise AssertionError("no worker was ever seen with a lease")


def system_of(upstream: Provider, ref: str) -> str:
    """The system prompt with which the provider was asked."""
    (body,) = [one.json for one in upstream.seen if one.json["messages"][-1]["content"] == ref]
    text: str = body["messages"][0]["content"]
    return text


def test_a_prompt_is_accepted_once_and_a_user_is_in_one_arm_at_every_gateway(
    fleet: Fleet, upstream: Provider
) -> None:
    _, code = fleet.members[1].prx("prompts", "accept", "system", "--as", "support")
    assert code == 0
    for member in fleet.members:
        eventually(lambda one=member: accepted_at(one) == {"support": SENT}, SLOW_SECONDS)
    for member in fleet.members:
        fleet.ask(member, SENT)
    with operator(fleet) as app:

        def registered() -> bool:
            with app.ledger.view() as view:
                return view.pointer("default") is not None

        eventually(registered, SLOW_SECONDS)
        run_an_experiment(app)
    for member in fleet.members:
        eventually(lambda one=member: fleet.experiment_of(one, SENT) == "e", SLOW_SECONDS)
    told = [
        {user: system_of(upstream, fleet.ask(one, SENT, user=user)) for user in users()}
        for one in fleet.members
    ]
    assert all(one == told[0] for one in told)
    assert set(Counter(told[0].values())) == {SENT, BETTER}
    fleet.all_arrived()


def test_a_rolling_restart_under_load_keeps_every_acknowledged_request_once(fleet: Fleet) -> None:
    before = len(fleet.acknowledged)
    with fleet.load(SENT):
        for half in (fleet.members[:2], fleet.members[2:]):
            hows = (signal.SIGTERM, signal.SIGKILL)
            at_once(*(partial(member.restart, how) for member, how in zip(half, hows, strict=True)))
        count = len(fleet.acknowledged)
        eventually(lambda: len(fleet.acknowledged) > count + 5 * FLEET, SLOW_SECONDS)
    assert len(fleet.acknowledged) > before + 5 * FLEET
    fleet.all_arrived()
    fleet.well()


def test_a_machine_suspended_past_its_lease_writes_nothing_of_that_turn_and_goes_on_afterwards(
    fleet: Fleet, database: str
) -> None:
    fleet.ask(fleet.members[0], SENT)
    workers = {member.worker(): member for member in fleet.members}
    pid = suspend_a_lease_holder(database, workers)
    frozen = workers[pid]
    assert frozen.process is not None
    frozen.process.send_signal(signal.SIGSTOP)
    with operator(fleet, minutes=16) as app:
        began = lease_of(app).lease_until
        with leased(app.engine.context, "default", app.now()):
            for member in fleet.members:
                if member is not frozen:
                    fleet.ask(member, SENT)
            with app.ledger.view() as view:
                taken_over = view.audit_rows()[-1].seq
            os.kill(pid, signal.SIGCONT)
            frozen.process.send_signal(signal.SIGCONT)
        eventually(lambda: f"-{pid}:" in lease_of(app).lease_owner, SLOW_SECONDS)
        assert began is not None
        with app.ledger.view() as view:
            later = view.audit_rows(after=taken_over)
        assert began - LEASE not in [row.at for row in later]
        chain_is_whole(app)
    fleet.ask(frozen, SENT)
    fleet.all_arrived()


def test_a_machine_cut_off_from_postgresql_serves_on_and_delivers_afterwards(
    fleet: Fleet, between: Switchboard, server: pg.PostgresServer
) -> None:
    alone = fleet.members[0]
    cut_off_between_two_writes(between, server)
    refs = {fleet.ask(alone, SENT) for _ in range(10)}
    others = {fleet.ask(one, SENT) for one in fleet.members[1:]}
    eventually(lambda: others <= fleet.recorded().keys(), SLOW_SECONDS)
    assert not refs & fleet.recorded().keys()
    assert alone.health["spool"]["waiting_bytes"] > 0
    assert alone.ready
    between.go_on()
    fleet.all_arrived()
    fleet.well()


@pytest.mark.parametrize("trouble", ["stopped", "crashed", "read-only", "at its limit"])
def test_serving_goes_on_whatever_postgresql_does_and_all_arrives_afterwards(
    fleet: Fleet, server: pg.PostgresServer, database: str, trouble: str
) -> None:
    with in_trouble(server, database, trouble) as said:
        for member in fleet.members:
            for _ in range(5):
                fleet.ask(member, SENT)
        assert all(one.ready for one in fleet.members)
        for member in fleet.members:
            eventually(lambda one=member: said in one.log, SLOW_SECONDS)
        if trouble == "stopped":
            wanted = "ledger: cannot be read, the last known is served"
            for member in fleet.members:
                eventually(lambda one=member: one.health["problems"] == [wanted], SLOW_SECONDS)
            rows, code = fleet.members[1].prx("doctor")
            failed = [row["seen"] for row in rows if row["answer"] == "failed"]
            assert code == 3
            assert len(failed) == 1
            assert said in failed[0]
    fleet.all_arrived()
    fleet.well()


def test_an_older_copy_of_postgresql_gets_the_lost_hour_back_with_one_alarm_and_no_job_twice(
    fleet: Fleet, server: pg.PostgresServer
) -> None:
    fleet.all_arrived()
    server.stop()
    older = server.copy()
    server.start()
    for member in fleet.members:
        for _ in range(10):
            fleet.ask(member, SENT)
    with operator(fleet) as app:
        for n in range(300):  # what an hour of the engine's own work writes
            with app.ledger.transaction(now=app.now(), actor="test") as tx:
                tx.put(Due(due_id="hour", agent="default", job="hour", at=app.now(), runs=n))
    fleet.all_arrived()
    server.stop()
    server.put_back(older)
    server.start()
    fleet.all_arrived()
    fleet.well()
    for member in fleet.members:
        eventually(lambda one=member: "went back from commit" in one.log, SLOW_SECONDS)
    with operator(fleet) as app:
        chain_is_whole(app)
        with app.ledger.view() as view:
            opened = [one for _, one in view.events() if one.subject == LOST_ROWS]
            runs = {one.job: one.runs for one in view.find(Due, agent="default")}
    assert len(opened) == 1
    assert "the store had lost rows" in opened[0].summary
    assert runs["analysis"] == 1
    rows, _ = fleet.members[1].prx("doctor")
    assert [row["seen"] for row in rows if row["check"] == "alert"] == [opened[0].summary]
