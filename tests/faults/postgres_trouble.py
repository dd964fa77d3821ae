"""What happens to a PostgreSQL and to the way to it, made on purpose."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import psycopg

import postgres_server as pg


class Switchboard:
    """Passes bytes on to PostgreSQL until it is told to stop: then nothing moves, and nothing is refused."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._open = threading.Event()
        self._open.set()
        self._sockets = list[socket.socket]()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def stand_still(self) -> None:
        """Forward nothing more."""
        self._open.clear()

    def go_on(self) -> None:
        """Drop what stood still, as a router does that came back, and forward what is new."""
        self._drop()
        self._open.set()

    def close(self) -> None:
        """End."""
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self.go_on()

    def _drop(self) -> None:
        dropped, self._sockets = self._sockets, []
        for one in dropped:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                self._sockets.append(client)
                threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def _connect(self, client: socket.socket) -> None:
        self._open.wait()
        with client, suppress(OSError), socket.create_connection(("127.0.0.1", self._port)) as server:
            self._sockets.append(server)
            back = threading.Thread(target=self._pass, args=(server, client), daemon=True)
            back.start()
            self._pass(client, server)
            back.join()

    def _pass(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while data := one.recv(65536):
                self._open.wait()
                other.sendall(data)
        for end in (one, other):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@contextmanager
def in_trouble(server: pg.PostgresServer, database: str, trouble: str) -> Iterator[str]:
    """PostgreSQL in trouble; what the processes say of it."""
    name = pg.database_of(database)
    backends = f"FROM pg_stat_activity WHERE datname = '{name}' AND pid <> pg_backend_pid()"
    if trouble in {"stopped", "crashed"}:
        server.stop("fast" if trouble == "stopped" else "immediate")
        yield "cannot be reached or went away"
        server.start()
    elif trouble == "read-only":
        server.say(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        server.say(f"SELECT pg_terminate_backend(pid) {backends}")
        yield "is read-only"
        server.say(f"ALTER DATABASE {name} SET default_transaction_read_only = off")
        server.say(f"SELECT pg_terminate_backend(pid) {backends}")
    else:
        with ExitStack() as stack:
            own = stack.enter_context(psycopg.connect(server.url(), autocommit=True))
            while own.execute(f"SELECT 1 {backends}").fetchall():
                own.execute(f"SELECT pg_terminate_backend(pid) {backends}")
                with suppress(psycopg.OperationalError):
                    while True:
                        stack.enter_context(psycopg.connect(server.url()))
            yield "has no connection free"


def cut_off_between_two_writes(between: Switchboard, server: pg.PostgresServer) -> None:
    """Let a machine vanish when it holds no lock; one that does keeps all others from writing for a minute,
    which is what `prx.postgres.database.STANDSTILL_SECONDS` is for."""
    held = (
        "SELECT 1 FROM pg_locks AS l JOIN pg_stat_activity AS a USING (pid) WHERE l.locktype = 'advisory' "
        "AND l.granted AND a.state = 'idle in transaction' AND now() - a.state_change > interval '0.7 s'"
    )
    while True:
        between.stand_still()
        until = time.monotonic() + 1.5
        while time.monotonic() < until:
            if server.say(held):
                between.go_on()
                break
            time.sleep(0.1)
        else:
            return
