"""One alert for a store that lost rows, however many machines bring them back from their spools."""

from datetime import datetime, timedelta

from prx.engine.alerts import close_alert, open_alert
from prx.engine.context import control_of
from prx.ledger.port import Ledger

LOST_ROWS = "store_lost_rows"
STAYS = timedelta(hours=1)
"""Each machine finds its own rows missing, at its own time: the alert outlasts the last of them."""


def tell_lost_rows(ledger: Ledger, agent: str, now: datetime, why: str) -> None:
    """Open the alert where it is not open. Raises: StoreError."""
    summary = f"{why}; was it replaced by an older copy? See `prx evolution audit verify`"
    with ledger.transaction(now=now, actor="engine") as tx:
        open_alert(tx, agent, LOST_ROWS, summary, {})


def follow_lost_rows(ledger: Ledger, agent: str, now: datetime) -> None:
    """Close the alert once nothing has been missing for an hour. Raises: StoreError."""
    with ledger.view() as view:
        since = control_of(view, agent).alerts.get(LOST_ROWS)
    if since is None or now - datetime.fromisoformat(since) < STAYS:
        return
    with ledger.transaction(now=now, actor="engine") as tx:
        close_alert(tx, agent, LOST_ROWS, "the store has all rows that the spools still hold")
