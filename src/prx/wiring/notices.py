"""Promote, rollback and kill heard at once by every process, where the store can say so."""

from collections.abc import Callable

from prx.domain.errors import StoreError
from prx.settings import Settings
from prx.wiring.stores import ledger_url

CHANNEL = "prx_serving"
"""On which the ledger's own triggers announce a moved pointer, a control record and an experiment."""


def listen(settings: Settings, heard: Callable[[], None]) -> Callable[[], None]:
    """Call `heard` whenever what is served may have changed; returns what ends it.

    Over SQLite nothing is announced, and reading twice a second is enough. Never raises: what cannot be
    listened to is polled.
    """
    try:
        url = ledger_url(settings)
        if not url:
            return _nothing
        from prx.postgres.address import Address
        from prx.postgres.listening import Listener

        return Listener(Address.of(url), CHANNEL, heard).close
    except (StoreError, ModuleNotFoundError):
        return _nothing


def _nothing() -> None:
    pass
