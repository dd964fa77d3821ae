"""What the engine's own model calls cost, per agent, month and role."""

import msgspec

NOTICES = "notices"
"""Role under which is kept which budget lines of a month were told."""


class Spending(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Totals of one month (`2026-12`, UTC); `noticed` are the budget lines that were told already."""

    spending_id: str
    agent: str
    month: str
    role: str
    calls: int = 0
    failed: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    usd: float = 0.0
    noticed: tuple[str, ...] = ()


def spending_id(agent: str, month: str, role: str) -> str:
    """Key of one total."""
    return f"{agent}/{month}/{role}"
