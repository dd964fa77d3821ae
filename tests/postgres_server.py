"""A real PostgreSQL of the tests' own: temporary folder, own port and socket, loopback only."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

_FOLDERS = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
PASSWORD = "test-password"


def missing() -> str | None:
    """Why no server can be started here, or None."""
    if _binary("initdb") is None or _binary("pg_ctl") is None:
        return "no PostgreSQL server here (initdb, pg_ctl): apt-get install postgresql"
    if os.geteuid() == 0 and _account() is None:
        return "PostgreSQL does not run as root, and this machine has no user postgres"
    return None


class PostgresServer:
    """One cluster; `start` and `stop` it as the test wants."""

    def __init__(self, *options: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="prx-pg-"))
        self.folder.chmod(0o755)
        self._data, self._log = self.folder / "data", self.folder / "log"
        self._databases = 0
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        if (account := _account()) is not None and os.geteuid() == 0:
            os.chown(self.folder, account.pw_uid, account.pw_gid)
        password = self.folder / "password"
        password.write_text(PASSWORD)
        password.chmod(0o644)
        self._run(
            "initdb", "-D", str(self._data), "-U", "prx", "-A", "scram-sha-256", "--auth-local=trust",
            f"--pwfile={password}", "--no-sync", "-E", "UTF8", "--locale=C.UTF-8",
        )  # fmt: skip
        settings = (
            "listen_addresses = '127.0.0.1'", f"port = {self.port}",
            f"unix_socket_directories = '{self.folder}'", "fsync = off", "shared_buffers = 16MB",
            "max_wal_size = 256MB", *options,
        )  # fmt: skip
        with (self._data / "postgresql.conf").open("a") as file:
            file.write("\n".join(settings) + "\n")
        self.start()

    def start(self) -> None:
        """Start and wait until it answers."""
        self._run("pg_ctl", "start", "-D", str(self._data), "-l", str(self._log), "-w", "-t", "60")

    def stop(self, how: str = "fast") -> None:
        """Stop: `fast` ends sessions with a word, `immediate` is a crash."""
        self._run("pg_ctl", "stop", "-D", str(self._data), "-m", how, "-w", "-t", "60")

    def copy(self) -> Path:
        """A copy of the data folder of the stopped server."""
        place = self.folder / f"copy-{time.monotonic_ns()}"
        subprocess.run(["cp", "-a", str(self._data), str(place)], check=True)
        return place

    def put_back(self, copied: Path) -> None:
        """Let the stopped server start from a copy."""
        shutil.rmtree(self._data)
        copied.rename(self._data)

    def url(self, database: str = "postgres", *, password: str = PASSWORD, port: int | None = None) -> str:
        """Address over TCP."""
        return f"postgresql://prx:{password}@127.0.0.1:{port or self.port}/{database}"

    def new_database(self) -> str:
        """Address of an empty database."""
        self._databases += 1
        name = f"test_{self._databases}"
        self.say(f"CREATE DATABASE {name}")
        return self.url(name)

    def say(self, sql: str, database: str = "postgres") -> list[tuple[object, ...]]:
        """Run a statement as the database's owner."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(sql)
            return cursor.fetchall() if cursor.description else []

    def remove(self) -> None:
        """Stop for good and delete the folder."""
        if (self._data / "postmaster.pid").exists():
            self.stop("immediate")
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, program: str, *arguments: str) -> None:
        account = _account() if os.geteuid() == 0 else None
        who = {} if account is None else {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        done = subprocess.run(
            [str(_binary(program)), *arguments],
            cwd="/",
            stdin=subprocess.DEVNULL,
            # not a pipe: the server would inherit it and keep it open
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
            **who,  # type: ignore[arg-type]
        )
        if done.returncode != 0:
            log = self._log.read_text() if self._log.exists() else ""
            raise AssertionError(f"{program} {arguments[0]} gave {done.returncode}: {log[-2000:]}")


@contextmanager
def own_server(*options: str) -> Iterator[PostgresServer]:
    """A server for one test."""
    server = PostgresServer(*options)
    try:
        yield server
    finally:
        server.remove()


def database_of(url: str) -> str:
    """Name of the database in an address."""
    return url.rsplit("/", 1)[1]


def _binary(name: str) -> str | None:
    return next((str(f / name) for f in _FOLDERS if (f / name).exists()), None) or shutil.which(name)


def _account() -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return None
