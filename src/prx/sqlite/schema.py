"""The schema of a file: brought up to date in single statements, with a copy kept of the older file."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import apsw

from prx.domain.errors import StoreError, StoreTooNew
from prx.sqlite.copying import copy_file


@dataclass(frozen=True, slots=True)
class Schema:
    """What a file must look like.

    `application_id` marks the file as ours. `migrations[n]` are the single statements that lead from
    schema n to n + 1; a file is created by all of them.
    """

    name: str
    application_id: int
    migrations: tuple[Sequence[str], ...]

    @property
    def newest(self) -> int:
        """Number of the schema that this release writes."""
        return len(self.migrations)


def upgrade(connection: apsw.Connection, schema: Schema, path: Path) -> None:
    """Bring the file to the newest schema.

    Each schema number is one transaction under the write lock, so a kill leaves the old or the new one,
    two processes at once do the work once, and the next opening goes on where the last one stopped.
    Before an older file is changed a copy of it is kept beside it, named after its schema.
    Raises: StoreTooNew, StoreError for a file that is not ours.
    """
    as_found = _checked_number(connection, schema, path)
    while (found := _checked_number(connection, schema, path)) < schema.newest:
        connection.execute("BEGIN IMMEDIATE")
        try:
            if connection.pragma("user_version") == found:
                if found == as_found > 0:
                    copy_file(path, path.with_name(f"{path.name}.schema-{found}"))
                for statement in schema.migrations[found]:
                    connection.execute(statement)
                connection.pragma("application_id", schema.application_id)
                connection.pragma("user_version", found + 1)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def refuse_newer(number: int, schema: Schema, path: Path) -> None:
    """Silent for a schema that this release knows. Raises: StoreTooNew."""
    if number > schema.newest:
        raise StoreTooNew(
            f"{path} has schema {number} and this PRX Evolution knows up to {schema.newest}; nothing "
            "was changed; use the newer release: pip install --upgrade prx-evolution"
        )


def _checked_number(connection: apsw.Connection, schema: Schema, path: Path) -> int:
    number = int(connection.pragma("user_version"))
    mark = connection.pragma("application_id")
    empty = connection.execute("SELECT NOT EXISTS (SELECT 1 FROM sqlite_schema)").fetchall() == [(1,)]
    if mark != schema.application_id and not (empty and number == 0):
        raise StoreError(
            f"{path} is a SQLite file but no {schema.name} of PRX Evolution; nothing was changed; "
            "name another path"
        )
    refuse_newer(number, schema, path)
    return number
