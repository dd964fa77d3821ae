"""Which default texts of an app's prompts are registered already."""

from datetime import datetime

import msgspec


class Baseline(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Default texts of one named prompt that became part of a version of the agent.

    `text_hashes` are `content_hash` of the texts, in the order in which they became the app's own;
    `baseline_id` is `baseline_id(agent, name)`. `newest_at`: when a text was sent last that the champion
    stands for; `returning`: earlier texts that alone were sent since, with the first and the last time.
    """

    baseline_id: str
    agent: str
    name: str
    text_hashes: tuple[str, ...] = ()
    registered_at: datetime | None = None
    newest_at: datetime | None = None
    returning: dict[str, tuple[datetime, datetime]] = {}


def baseline_id(agent: str, name: str) -> str:
    """Key of the baseline of one prompt of one agent."""
    return f"{agent}/{name}"


def stood_for(text_hashes: tuple[str, ...], own: str | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(texts that the champion stands for, earlier ones), given the own text that it was made from.

    Texts that came after it and serve no more were undone: who sends one of them gets the champion.
    """
    if own not in text_hashes:
        return text_hashes, ()
    place = text_hashes.index(own)
    return text_hashes[place:], text_hashes[:place]
