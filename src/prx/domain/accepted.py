"""Which templates of an agent's system prompts a person accepted."""

from datetime import datetime

import msgspec


class AcceptedPrompt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A template that every gateway on this ledger may serve versions of, as it was accepted last.

    `accepted_id` is `accepted_id(agent, name)`; `slots` are the names of the places where sessions differ.
    """

    accepted_id: str
    agent: str
    name: str
    text: str
    slots: tuple[str, ...] = ()
    at: datetime
    by: str = ""


def accepted_id(agent: str, name: str) -> str:
    """Key of one accepted prompt of one agent."""
    return f"{agent}/{name}"
