"""The control plane: versions, proposals, experiments, decisions, breakers and the audit chain."""

from prx.ledger.audit import Head, verify_chain
from prx.ledger.kinds import KINDS
from prx.ledger.memory import open_memory
from prx.ledger.port import Ledger, Transaction, View
from prx.ledger.serving import serving
from prx.ledger.sqlite import open_sqlite

__all__ = [
    "KINDS",
    "Head",
    "Ledger",
    "Transaction",
    "View",
    "open_memory",
    "open_sqlite",
    "serving",
    "verify_chain",
]
