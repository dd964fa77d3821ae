"""A ledger and the way to its tables that whoever owns the store has."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw

from prx.domain.events import AuditRow
from prx.domain.ids import system_ids
from prx.domain.times import to_micros
from prx.ledger import Ledger, open_sqlite

COLUMNS = "seq BIGINT, prev TEXT, hash TEXT, at BIGINT, actor TEXT, kind TEXT, subject TEXT, body_hash TEXT"


@dataclass
class Kept:
    """A ledger, and a way to its tables for someone who owns them."""

    ledger: Ledger
    run: Callable[[str, list[tuple[Any, ...]]], None]
    ask: Callable[[str], list[tuple[Any, ...]]]
    schema: str
    place: str

    def replace_rows(self, rows: list[AuditRow]) -> None:
        """Put these rows in the place of the audit tables, whatever rules stood there."""
        for table, columns in (("audit_body", "seq BIGINT, body TEXT"), ("audit", COLUMNS)):
            self.run(f"DROP TABLE {self.schema}{table}", [()])
            self.run(f"CREATE TABLE {self.schema}{table} ({columns})", [()])
        links = [
            (r.seq, r.prev, r.hash, to_micros(r.at), r.actor, r.kind, r.subject, r.body_hash) for r in rows
        ]
        self.run(f"INSERT INTO {self.schema}audit VALUES ({', '.join([self.place] * 8)})", links)
        bodies = [(row.seq, row.body) for row in rows]
        self.run(f"INSERT INTO {self.schema}audit_body VALUES ({self.place}, {self.place})", bodies)


def in_sqlite(tmp_path: Path) -> Kept:
    path = tmp_path / "ledger.sqlite"

    def run(sql: str, given: list[tuple[Any, ...]]) -> None:
        connection = apsw.Connection(str(path))
        connection.executemany(sql, given)
        connection.close()

    def ask(sql: str) -> list[tuple[Any, ...]]:
        connection = apsw.Connection(str(path))
        found = connection.execute(sql).fetchall()
        connection.close()
        return found

    return Kept(open_sqlite(path, system_ids()), run, ask, "", "?")


def in_postgres(url: str) -> Kept:
    import psycopg

    from prx.ledger.postgres import open_postgres

    def run(sql: str, given: list[tuple[Any, ...]]) -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.cursor().executemany(sql, given)

    def ask(sql: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(url, autocommit=True) as connection:
            return connection.execute(sql).fetchall()

    return Kept(open_postgres(url, system_ids()), run, ask, "prx_ledger.", "%s")
