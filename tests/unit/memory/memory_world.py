"""Seeded memories: topics restated with changing facts, beside facts of their own."""

import random
from datetime import UTC, datetime, timedelta

from prx.domain.memory import MemoryEntry, Scope

NOW = datetime(2026, 9, 1, tzinfo=UTC)
_TOPICS = (
    "refund window for lost parcels",
    "backup schedule of the staging database",
    "delivery route through the northern islands",
    "warranty period of electric bicycles",
    "ventana de reembolso para paquetes perdidos",
    "расписание резервных копий базы данных",
    "退款 窗口 丢失 包裹",
)
_FRAMES = ("{t} is {n} days", "The {t} is {n} days.", "note that the {t} is {n} days!", "{t} is {n} days")
_EXTRAS = (
    "",
    " Case AB-{n} was on 2026-0{d}-11.",
    " It is never open to Maria{d}.",
    " Run `make task-{n}` first.",
    " Do not tell Ivan Petrov.",
    " Не говорить об этом Анне.",
    " 不要退款给客户{d}。",
    " Only members get {n}.{d} percent.",
    " See /srv/data{d}/v1.{n}.",
)


def generated(seed: int, *, scopes: int = 2) -> list[MemoryEntry]:
    """30 to 90 raw entries of up to four topics and two scopes, and as many of no topic."""
    rng = random.Random(seed)
    entries: list[MemoryEntry] = []

    def add(text: str, scope: Scope) -> None:
        at = NOW - timedelta(days=rng.randint(1, 200), minutes=len(entries))
        entries.append(
            MemoryEntry(memory_id=f"m{len(entries)}", scope=scope, text=text, created_at=at, valid_from=at)
        )

    owners = [Scope(owner=f"user:u{n}") for n in range(scopes)]
    for topic in rng.sample(_TOPICS, rng.randint(1, 4)):
        scope = rng.choice(owners)
        numbers = rng.sample(range(3, 90), rng.randint(1, 3))
        for _ in range(rng.randint(8, 26)):
            n, d = rng.choice(numbers), rng.randint(1, 9)
            add((rng.choice(_FRAMES) + rng.choice(_EXTRAS)).format(t=topic, n=n, d=d), scope)
    for n in range(len(entries)):
        add(f"shelf{n} holds item{n} since week {n}", rng.choice(owners))
    return entries
