"""The ledger: one set of rules over whichever store keeps it."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from prx.domain.errors import InvalidInput, StoreError
from prx.domain.ids import Ids
from prx.ledger.reading import StoredView
from prx.ledger.store import Store
from prx.ledger.writing import StoredTransaction


class StoredLedger:
    """A `Ledger`; usable from several threads of the process that opened it.

    Args: `ids`: where the ids of new records come from.
    """

    def __init__(self, store: Store, ids: Ids) -> None:
        self._store, self._ids = store, ids
        self._process = os.getpid()
        self._thread = threading.local()

    @contextmanager
    def view(self) -> Iterator[StoredView]:
        """One consistent read. Raises: StoreError."""
        self._refuse_fork()
        with self._store.reading() as reads:
            view = StoredView(reads)
            try:
                yield view
            finally:
                view.end()

    @contextmanager
    def transaction(self, *, now: datetime, actor: str) -> Iterator[StoredTransaction]:
        """One write; commits when the block ends, rolls back when it raises. Raises: StoreError."""
        self._refuse_fork()
        if now.tzinfo is None or not actor:
            raise InvalidInput(
                "a transaction needs an aware time and the name of who acts (`engine`, `person:NAME`)"
            )
        if getattr(self._thread, "writing", False):
            raise StoreError("this thread has a transaction open already; end it before it opens another")
        self._thread.writing = True
        try:
            with self._store.writing() as writes:
                transaction = StoredTransaction(writes, now=now.astimezone(UTC), actor=actor, ids=self._ids)
                try:
                    yield transaction
                    transaction.bind()
                finally:
                    transaction.end()
        finally:
            self._thread.writing = False

    def data_version(self) -> int:
        """Differs from the answer before exactly when something was committed in between, here or in
        another process; takes microseconds, so it can be asked at every request. Raises: StoreError."""
        self._refuse_fork()
        return self._store.data_version()

    def scrub(self) -> str:
        """Overwrite what deleted and replaced rows left in the files; why not, or empty when that was done.

        Raises: StoreError.
        """
        self._refuse_fork()
        return self._store.scrub()

    def close(self) -> None:
        """Release files and locks; in a forked child this leaves the parent's files alone."""
        if os.getpid() == self._process:
            self._store.close()

    def _refuse_fork(self) -> None:
        if os.getpid() != self._process:
            raise StoreError(
                f"the ledger was opened by process {self._process} and this is its fork {os.getpid()}; "
                "open the ledger again after the fork"
            )
