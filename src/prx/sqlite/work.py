"""One open transaction on one connection: it ends whole, or nothing of it stays."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import apsw

from prx.domain.errors import StoreError
from prx.sqlite.failures import explained

T = TypeVar("T")
Values = Sequence[Any] | Mapping[str, Any]


class Work:
    """Statements of one transaction.

    After a statement has failed the rest is refused, the commit too: SQLite may have rolled back by itself
    (disk full), and what followed would then be written alone.
    """

    def __init__(self, connection: apsw.Connection, path: Path, *, waited: float) -> None:
        self._connection, self._path, self._waited = connection, path, waited
        self.failure: apsw.Error | None = None

    def begin(self, how: str) -> int:
        """Open the transaction; returns the file's schema number as the transaction sees it."""
        self._attempt(lambda: self._connection.execute(how))
        return int(self.rows("PRAGMA user_version")[0][0])

    def commit(self) -> None:
        """Make it durable. Raises: StoreError; nothing is then written."""
        self._refuse_after_failure()
        self._attempt(lambda: self._connection.execute("COMMIT"))

    def rows(self, sql: str, given: Values = ()) -> list[tuple[Any, ...]]:
        """All rows of one statement. Raises: StoreError."""
        self._refuse_after_failure()
        return self._attempt(lambda: self._connection.execute(sql, given).fetchall())

    def many(self, sql: str, given: Iterable[Values]) -> list[tuple[Any, ...]]:
        """All rows of one statement run once for each of `given`. Raises: StoreError."""
        self._refuse_after_failure()
        return self._attempt(lambda: self._connection.executemany(sql, given).fetchall())

    def stream(self, sql: str, given: Values = ()) -> Iterator[tuple[Any, ...]]:
        """Rows one by one, for results that may be long. Raises: StoreError."""
        self._refuse_after_failure()
        cursor = self._attempt(lambda: self._connection.execute(sql, given))
        while (row := self._attempt(lambda: next(cursor, None))) is not None:
            yield row

    def _refuse_after_failure(self) -> None:
        if self.failure is not None or not self._connection.in_transaction:
            raise StoreError(
                f"the transaction on {self._path} was undone by an earlier failure ({self.failure}); nothing "
                "of it was written; run it again from its start"
            )

    def _attempt(self, action: Callable[[], T]) -> T:
        try:
            return action()
        except apsw.Error as error:
            self.failure = error
            raise explained(error, self._path, waited=self._waited) from error
        except UnicodeDecodeError as error:
            self.failure = apsw.CorruptError(str(error))
            raise explained(self.failure, self._path) from error
