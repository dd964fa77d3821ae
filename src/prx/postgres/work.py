"""One open transaction on one connection: it ends whole, or nothing of it stays."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import psycopg
from psycopg.pq import TransactionStatus

from prx.domain.errors import StoreError
from prx.postgres.failures import explained

T = TypeVar("T")
Values = Sequence[Any] | Mapping[str, Any]
Link = psycopg.Connection[tuple[Any, ...]]
_STREAMED = 500


class Work:
    """Statements of one transaction; after one has failed the rest is refused, the commit too."""

    def __init__(self, connection: Link, shown: str, *, waited: float) -> None:
        self._connection, self._shown, self._waited = connection, shown, waited
        self.failure: psycopg.Error | None = None
        self.wrote = False

    def rows(self, sql: str, given: Values = ()) -> list[tuple[Any, ...]]:
        """All rows of one statement. Raises: StoreError."""
        self.refuse_after_failure()

        def run() -> list[tuple[Any, ...]]:
            cursor = self._connection.execute(sql, given or None)
            self._note(cursor)
            return cursor.fetchall() if cursor.description else []

        return self._attempt(run)

    def many(self, sql: str, given: Iterable[Values]) -> list[tuple[Any, ...]]:
        """All rows of one statement that takes each column of `given` as an array: one trip for all rows.

        Raises: StoreError.
        """
        columns = [list(column) for column in zip(*given, strict=True)]
        return self.rows(sql, columns) if columns else []

    def stream(self, sql: str, given: Values = ()) -> Iterator[tuple[Any, ...]]:
        """Rows of a cursor that the server keeps, for results that may be long. Raises: StoreError."""
        self.refuse_after_failure()
        with self._connection.cursor(name="prx_stream") as cursor:
            cursor.itersize = _STREAMED
            self._attempt(lambda: cursor.execute(sql, given or None))
            while (row := self._attempt(cursor.fetchone)) is not None:
                yield row

    def _note(self, cursor: "psycopg.Cursor[tuple[Any, ...]]") -> None:
        if not (cursor.statusmessage or "").startswith(("SELECT", "FETCH")):
            self.wrote = True

    def refuse_after_failure(self) -> None:
        status = self._connection.info.transaction_status
        if self.failure is not None or status != TransactionStatus.INTRANS:
            raise StoreError(
                f"the transaction on {self._shown} was undone by an earlier failure ({self.failure}); "
                "nothing of it was written; run it again from its start"
            )

    def _attempt(self, action: Callable[[], T]) -> T:
        try:
            return action()
        except psycopg.Error as error:
            self.failure = error
            raise explained(error, self._shown, waited=self._waited) from error
