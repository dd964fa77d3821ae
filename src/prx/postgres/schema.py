"""The schema of a store: brought up to date in one transaction per step, by one process at a time."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import uuid4

from prx.domain.errors import StoreError, StoreTooNew
from prx.postgres.work import Link

LOCK_SPACE = 0x505258  # "PRX"


@dataclass(frozen=True, slots=True)
class Schema:
    """What a store must look like.

    `namespace` is the PostgreSQL schema that holds its tables, `lock` the number of its advisory lock.
    `migrations[n]` are the single statements that lead from schema n to n + 1.
    """

    name: str
    namespace: str
    lock: int
    migrations: tuple[Sequence[str], ...]

    @property
    def newest(self) -> int:
        """Number of the schema that this release writes."""
        return len(self.migrations)

    @property
    def state(self) -> str:
        """Statement that reads schema number, identity and commits."""
        return f"SELECT number, store_id, commits FROM {self.namespace}.state"


def upgrade(connection: Link, schema: Schema, shown: str) -> None:
    """Bring the store to the newest schema; a store that is there already is only read.

    Each number is one transaction under the store's lock: a kill leaves the old or the new one, two processes
    at once do the work once. Raises: StoreTooNew, StoreError for tables that are not ours; psycopg.Error.
    """
    while (found := _number(connection, schema, shown)) < schema.newest:
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s, %s)", (LOCK_SPACE, schema.lock))
            if _number(connection, schema, shown) != found:
                continue
            if found == 0:
                _begin_store(connection, schema)
            for statement in schema.migrations[found]:
                connection.execute(statement)
            connection.execute(
                f"UPDATE {schema.namespace}.state SET number = %s",
                (found + 1,),
            )


def refuse_newer(number: int, schema: Schema, shown: str) -> None:
    """Silent for a schema that this release knows. Raises: StoreTooNew."""
    if number > schema.newest:
        raise StoreTooNew(
            f"the {schema.name} on {shown} has schema {number} and this PRX Evolution knows up to "
            f"{schema.newest}; nothing was changed; use the newer release: "
            "pip install --upgrade prx-evolution"
        )


def _number(connection: Link, schema: Schema, shown: str) -> int:
    found = connection.execute(
        "SELECT to_regclass(%s) IS NOT NULL, "
        "EXISTS (SELECT 1 FROM pg_class WHERE relnamespace = to_regnamespace(%s))",
        (f"{schema.namespace}.state", schema.namespace),
    ).fetchone()
    ours, anything = found or (False, False)
    if not ours:
        if anything:
            raise StoreError(
                f"{shown} has a schema {schema.namespace} that is no {schema.name} of PRX Evolution; nothing "
                "was changed; name another database"
            )
        return 0
    row = connection.execute(schema.state).fetchone()
    if row is None:
        raise StoreError(
            f"the {schema.name} on {shown} has lost the row that names its schema; nothing was changed; "
            "restore the database from a backup"
        )
    refuse_newer(int(row[0]), schema, shown)
    return int(row[0])


def _begin_store(connection: Link, schema: Schema) -> None:
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema.namespace}")
    # rewritten at every commit: a page that is half empty takes the new row without touching an index
    connection.execute(
        f"CREATE TABLE {schema.namespace}.state (one BOOLEAN PRIMARY KEY DEFAULT TRUE CHECK (one), "
        "number INTEGER NOT NULL, store_id TEXT NOT NULL, commits BIGINT NOT NULL) WITH (fillfactor = 50)"
    )
    connection.execute(
        f"INSERT INTO {schema.namespace}.state (number, store_id, commits) VALUES (0, %s, 0)",
        (str(uuid4()),),
    )
