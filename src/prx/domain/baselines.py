"""Which default texts of an app's prompts are registered already."""

from datetime import datetime

import msgspec


class Baseline(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Default texts of one named prompt that became part of a version of the agent.

    `text_hashes` are `content_hash` of the texts, oldest first; `baseline_id` is `baseline_id(agent, name)`.
    """

    baseline_id: str
    agent: str
    name: str
    text_hashes: tuple[str, ...] = ()
    registered_at: datetime | None = None


def baseline_id(agent: str, name: str) -> str:
    """Key of the baseline of one prompt of one agent."""
    return f"{agent}/{name}"
