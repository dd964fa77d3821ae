"""A PostgreSQL that stops, refuses, fills up, was replaced, or loses the connection at the worst moment."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime

import psycopg
import pytest

import postgres_server as pg
from prx.domain.answers import Failed, Passed
from prx.domain.errors import StoreError, StoreTooNew
from prx.domain.events import Due, Event, EventName
from prx.domain.ids import system_ids
from prx.domain.records import SessionStart
from prx.ledger import Ledger, verify_chain
from prx.ledger.postgres import open_postgres
from prx.postgres.failures import StoreGone, StoreRefused
from prx.records.postgres import open_postgres as open_records

pytestmark = pytest.mark.full
NOW = datetime(2026, 12, 1, 8, 0, tzinfo=UTC)


@pytest.fixture(scope="module")
def server() -> Iterator[pg.PostgresServer]:
    """A server that the tests of this file stop, start and set at will."""
    if why := pg.missing():
        pytest.skip(why)
    with pg.own_server("max_connections = 12", "superuser_reserved_connections = 1") as made:
        yield made


@pytest.fixture
def url(server: pg.PostgresServer) -> str:
    return server.new_database()


def note(ledger: Ledger, name: str) -> int:
    with ledger.transaction(now=NOW, actor="test") as tx:
        tx.put(Due(due_id=name, agent="a", job="j", at=NOW))
        return tx.audit("note", name, {}).seq


def kept(ledger: Ledger) -> list[str]:
    """What is stored; the chain is whole and every note has its record."""
    with ledger.view() as view:
        rows, found = view.audit_rows(), view.find(Due)
    assert isinstance(verify_chain(rows), Passed)
    assert [row.subject for row in rows] == [one.due_id for one in found]
    return [one.due_id for one in found]


@pytest.mark.parametrize("how", ["fast", "immediate"])
def test_a_server_stopped_inside_a_transaction_takes_it_whole_and_the_next_call_reconnects(
    server: pg.PostgresServer, url: str, how: str
) -> None:
    ledger = open_postgres(url, system_ids())
    note(ledger, "before")

    def interrupted() -> None:
        with ledger.transaction(now=NOW, actor="test") as tx:
            tx.put(Due(due_id="half", agent="a", job="j", at=NOW))
            server.stop(how)
            tx.audit("note", "half", {})

    with pytest.raises(StoreGone, match=r"nothing of this transaction was written.*connects again by itself"):
        interrupted()
    with pytest.raises(StoreGone, match="cannot be reached or went away"), ledger.view():
        pass
    with pytest.raises(StoreGone):
        ledger.data_version()
    server.start()
    assert kept(ledger) == ["before"]
    assert note(ledger, "after") == 2
    assert kept(ledger) == ["before", "after"]
    ledger.close()


def test_a_restart_between_two_calls_is_not_even_noticed(server: pg.PostgresServer, url: str) -> None:
    ledger, records = open_postgres(url, system_ids()), open_records(url)
    note(ledger, "before")
    seen = ledger.data_version()
    server.stop()
    server.start()
    assert ledger.data_version() == seen
    server.stop("immediate")
    server.start()
    assert note(ledger, "after") == 2
    assert records.append([SessionStart(record_id="r", at=NOW, session_id="s")]) == 1
    assert kept(ledger) == ["before", "after"]
    ledger.close()
    records.close()


def test_records_acknowledged_before_a_crash_are_there_after_it(server: pg.PostgresServer, url: str) -> None:
    records = open_records(url)
    for number in range(20):
        records.append([SessionStart(record_id=f"r{number}", at=NOW, session_id=f"s{number}")])
    server.stop("immediate")
    with pytest.raises(StoreGone):
        records.append([SessionStart(record_id="lost", at=NOW, session_id="lost")])
    server.start()
    assert records.counts()["sessions"] == 20
    assert records.append([SessionStart(record_id="r3", at=NOW, session_id="s3")]) == 0
    records.close()


def test_a_read_only_server_serves_reads_and_refuses_writes(server: pg.PostgresServer, url: str) -> None:
    ledger = open_postgres(url, system_ids())
    note(ledger, "before")
    server.say(f"ALTER DATABASE {pg.database_of(url)} SET default_transaction_read_only = on")
    ledger.close()
    ledger = open_postgres(url, system_ids())  # nothing to migrate, so it opens
    assert kept(ledger) == ["before"]
    with pytest.raises(StoreError, match=r"is read-only .*nothing was written.*at the primary"):
        note(ledger, "during")
    assert kept(ledger) == ["before"]
    server.say(f"ALTER DATABASE {pg.database_of(url)} SET default_transaction_read_only = off")
    ledger.close()
    ledger = open_postgres(url, system_ids())
    assert note(ledger, "after") == 2
    ledger.close()


def test_a_server_without_a_free_connection_says_so_and_is_used_again_when_one_is_free(
    server: pg.PostgresServer, url: str
) -> None:
    ledger = open_postgres(url, system_ids())
    note(ledger, "before")
    server.say(
        f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{pg.database_of(url)}'"
    )
    taken = list[psycopg.Connection[tuple[object, ...]]]()
    with suppress(psycopg.OperationalError):
        for _ in range(20):
            taken.append(psycopg.connect(url))
    with pytest.raises(
        StoreGone, match=r"has no connection free; nothing was written; raise max_connections"
    ):
        note(ledger, "during")
    for connection in taken:
        connection.close()
    assert note(ledger, "after") == 2
    assert kept(ledger) == ["before", "after"]
    ledger.close()


WRONG: list[tuple[Callable[[pg.PostgresServer], str], str]] = [
    (lambda s: s.url(password="wrong-secret"), r"refused user or password; check .*store\] url"),
    (lambda s: s.url("nowhere"), r"/nowhere does not exist; create it: createdb"),
    (lambda s: s.url(port=1), r"cannot be reached.*check that the server runs"),
    (lambda _: "postgresql://prx:wrong-secret@host.invalid/x", r"host that is not known"),
    (lambda _: "mysql://prx:wrong-secret@localhost/x", r"must begin with postgresql://"),
    (lambda _: "postgresql://prx:wrong-secret@localhost:wrong-secret/x", r"cannot be read as postgresql://"),
    (lambda _: "postgresql://prx:wrong-secret%zz@localhost/x", r"cannot be read as postgresql://"),
]


@pytest.mark.parametrize(("address", "said"), WRONG)
def test_a_wrong_address_is_named_without_its_password(
    server: pg.PostgresServer, address: Callable[[pg.PostgresServer], str], said: str
) -> None:
    for opening in (
        lambda: open_postgres(address(server), system_ids()),
        lambda: open_records(address(server)),
    ):
        with pytest.raises(StoreError, match=said) as caught:
            opening()
        assert "wrong-secret" not in str(caught.value)
        assert pg.PASSWORD not in str(caught.value)


def test_a_user_who_may_not_create_is_told_which_right_is_missing(
    server: pg.PostgresServer, url: str
) -> None:
    with suppress(psycopg.errors.DuplicateObject):
        server.say("CREATE ROLE poor LOGIN PASSWORD 'poor'")
    poor = url.replace(f"prx:{pg.PASSWORD}", "poor:poor")
    with pytest.raises(StoreError, match=r"does not let this user do that; grant the right"):
        open_postgres(poor, system_ids())


@pytest.mark.parametrize("store", ["prx_ledger", "prx_records"])
def test_a_newer_schema_is_refused_at_opening_and_in_an_open_process(
    server: pg.PostgresServer, url: str, store: str
) -> None:
    ledger, records = open_postgres(url, system_ids()), open_records(url)
    server.say(f"UPDATE {store}.state SET number = 99", pg.database_of(url))
    with pytest.raises(StoreTooNew, match=r"schema 99 .*nothing was changed.*pip install --upgrade"):
        open_postgres(url, system_ids()) if store == "prx_ledger" else open_records(url)
    with pytest.raises(StoreTooNew, match="schema 99"):
        note(ledger, "x") if store == "prx_ledger" else records.counts()
    server.say(f"UPDATE {store}.state SET number = 1", pg.database_of(url))
    assert note(ledger, "x") == 1
    ledger.close()
    records.close()


def test_tables_of_someone_else_are_left_alone(server: pg.PostgresServer, url: str) -> None:
    server.say("CREATE SCHEMA prx_ledger", pg.database_of(url))
    server.say("CREATE TABLE prx_ledger.invoices (id INTEGER)", pg.database_of(url))
    with pytest.raises(StoreError, match="is no ledger of PRX Evolution; nothing was changed"):
        open_postgres(url, system_ids())


def renamed(server: pg.PostgresServer, one: str, other: str) -> None:
    server.say(
        f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname IN ('{one}', '{other}')"
    )
    server.say(f"ALTER DATABASE {one} RENAME TO {other}")


def test_a_database_that_was_replaced_by_another_is_noticed(server: pg.PostgresServer, url: str) -> None:
    ledger = open_postgres(url, system_ids())
    note(ledger, "mine")
    other = server.new_database()
    open_postgres(other, system_ids()).close()
    renamed(server, pg.database_of(url), f"{pg.database_of(url)}_away")
    renamed(server, pg.database_of(other), pg.database_of(url))
    with pytest.raises(
        StoreError, match="was replaced by another store while it was open; nothing was changed"
    ):
        note(ledger, "x")
    ledger.close()


def test_a_database_that_lost_an_hour_is_noticed_by_whoever_saw_that_hour(
    server: pg.PostgresServer, url: str
) -> None:
    ledger = open_postgres(url, system_ids())
    note(ledger, "old")
    name = pg.database_of(url)
    server.say(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")
    server.say(f"CREATE DATABASE {name}_copy TEMPLATE {name}")
    note(ledger, "lost")
    with ledger.view() as view:
        head = view.audit_rows()[-1]
    renamed(server, name, f"{name}_away")
    renamed(server, f"{name}_copy", name)
    for attempt in (lambda: note(ledger, "x"), lambda: kept(ledger), ledger.data_version):
        with pytest.raises(StoreError, match=r"went back from commit 2 to 1.*audit verify"):
            attempt()
    ledger.close()
    fresh = open_postgres(url, system_ids())
    assert kept(fresh) == ["old"]
    with fresh.view() as view:
        from prx.ledger import Head

        found = verify_chain(view.audit_rows(), head=Head(head.seq, head.hash))
    assert isinstance(found, Failed)
    assert found.code == "audit_truncated"
    fresh.close()


def test_dropped_tables_are_named(server: pg.PostgresServer, url: str) -> None:
    ledger = open_postgres(url, system_ids())
    server.say("DROP SCHEMA prx_ledger CASCADE", pg.database_of(url))
    with pytest.raises(StoreError, match="has lost its tables of PRX Evolution"):
        note(ledger, "x")
    ledger.close()


FORBIDDEN = [
    "UPDATE prx_ledger.audit SET actor = 'me'",
    "DELETE FROM prx_ledger.audit",
    "TRUNCATE prx_ledger.audit CASCADE",
    "INSERT INTO prx_ledger.audit VALUES (7, 'a', 'b', 1, 'c', 'd', 'e', 'f')",
    "UPDATE prx_ledger.audit_body SET body = '{}'",
    "UPDATE prx_ledger.event SET agent = 'x'",
    "DELETE FROM prx_ledger.event",
    "DELETE FROM prx_ledger.document",
    "TRUNCATE prx_ledger.document",
    "DELETE FROM prx_ledger.label",
]


@pytest.mark.parametrize("statement", FORBIDDEN)
def test_history_cannot_be_changed_by_plain_sql(server: pg.PostgresServer, url: str, statement: str) -> None:
    ledger = open_postgres(url, system_ids())
    note(ledger, "a")
    with ledger.transaction(now=NOW, actor="test") as tx:
        tx.emit(Event(event_id="e", at=NOW, agent="a", name=EventName.ALERT, summary="s"))
    with pytest.raises(psycopg.errors.RaiseException):
        server.say(statement, pg.database_of(url))
    with ledger.view() as view:
        assert [one.subject for one in view.audit_rows() if one.kind == "note"] == ["a"]
        assert [one.summary for _, one in view.events()] == ["s"]
        assert isinstance(verify_chain(view.audit_rows()), Passed)
    ledger.close()


def test_two_rows_after_the_same_link_are_refused_even_without_the_lock(
    server: pg.PostgresServer, url: str
) -> None:
    ledger = open_postgres(url, system_ids())
    note(ledger, "a")
    database = pg.database_of(url)
    prev = server.say("SELECT prev FROM prx_ledger.audit", database)[0][0]
    with pytest.raises(psycopg.errors.UniqueViolation):
        server.say(f"INSERT INTO prx_ledger.audit VALUES (2, '{prev}', 'b', 1, 'c', 'd', 'e', 'f')", database)
    ledger.close()


def test_changed_bytes_are_noticed_before_they_decide_anything(server: pg.PostgresServer, url: str) -> None:
    ledger = open_postgres(url, system_ids())
    note(ledger, "a")
    server.say("UPDATE prx_ledger.document SET state = 'k'", pg.database_of(url))
    with pytest.raises(StoreError, match="due 'a' is damaged"), ledger.view() as view:
        view.get(Due, "a")
    ledger.close()


class CuttingProxy:
    """Passes bytes on; at the first COMMIT it cuts both sides, `before` or after the server had it."""

    def __init__(self, port: int, *, before: bool) -> None:
        self._port, self._before = port, before
        self.armed = False
        self.cuts = 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        self._sockets = list[socket.socket]()
        self._threads = list[threading.Thread]()
        self._start(self._accept)

    def refuse(self) -> None:
        """Let no new connection through."""
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def close(self) -> None:
        self.refuse()
        for one in self._sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(timeout=30)
        for one in self._sockets:
            one.close()

    def _start(self, target: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                upstream = socket.create_connection(("127.0.0.1", self._port))
                self._sockets += [client, upstream]
                self._start(self._pass, client, upstream, True)
                self._start(self._pass, upstream, client, False)

    def _pass(self, one: socket.socket, other: socket.socket, watched: bool) -> None:
        with suppress(OSError):
            while data := one.recv(65536):
                if watched and self.armed and b"COMMIT\x00" in data:
                    self.armed = False
                    self.cuts += 1
                    if not self._before:
                        # the answer must not get back, and the server must have acted
                        one.shutdown(socket.SHUT_RDWR)
                        other.sendall(data)
                        other.shutdown(socket.SHUT_WR)
                    break
                other.sendall(data)
        for end in (one, other) if self._before else ():
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("before", [True, False])
def test_a_connection_cut_at_the_commit_is_resolved_by_asking_the_server(
    server: pg.PostgresServer, url: str, before: bool
) -> None:
    proxy = CuttingProxy(server.port, before=before)
    ledger = open_postgres(url.replace(f":{server.port}/", f":{proxy.port}/"), system_ids())
    note(ledger, "first")
    proxy.armed = True
    if before:
        with pytest.raises(StoreGone, match="nothing of this transaction was written"):
            note(ledger, "second")
    else:
        assert note(ledger, "second") == 2  # acknowledged, since the server says that it was committed
    assert proxy.cuts == 1
    assert kept(ledger) == (["first"] if before else ["first", "second"])
    ledger.close()
    proxy.close()


def test_a_commit_whose_fate_cannot_be_asked_is_told_as_unknown(server: pg.PostgresServer, url: str) -> None:
    proxy = CuttingProxy(server.port, before=False)
    ledger = open_postgres(url.replace(f":{server.port}/", f":{proxy.port}/"), system_ids())

    def last_call() -> None:
        with ledger.transaction(now=NOW, actor="test") as tx:
            tx.put(Due(due_id="x", agent="a", job="j", at=NOW))
            tx.audit("note", "x", {})
            proxy.refuse()
            proxy.armed = True

    with pytest.raises(
        StoreGone, match=r"during a commit and cannot be asked.*whole or not at all.*read again"
    ):
        last_call()
    direct = open_postgres(url, system_ids())
    with direct.transaction(now=NOW, actor="after"):
        pass  # the cut connection has ended once the lock is free
    assert kept(direct) == ["x"]
    ledger.close()
    direct.close()
    proxy.close()


def test_a_refused_row_undoes_the_whole_block(url: str) -> None:
    ledger = open_postgres(url, system_ids())
    note(ledger, "a")
    store = ledger._store

    def forged() -> None:
        with store.writing() as write:
            write.name_version("a", "v1", "s1")
            write.name_version("a", "v1", "s2")

    with pytest.raises(StoreRefused, match=r"refused a row.*nothing was changed; read again, decide again"):
        forged()
    with store.reading() as read:
        assert read.labelled("a", "v1") is None
    assert note(ledger, "b") == 2
    ledger.close()
