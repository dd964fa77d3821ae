"""`prx memory` over a real engine."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from arranged import Arranged

from prx.cli.call import Outside
from prx.cli.program import main
from prx.domain.records import MemoryWritten, SessionStart
from prx.engine.engine import Engine
from prx.memory import open_memory
from prx.settings import Settings
from prx.spool.ship import Shipped


@dataclass
class House:
    """An installation whose stores outlive each command."""

    arranged: Arranged
    settings: Settings = Settings()  # noqa: RUF009 - frozen
    home: Path = Path("nowhere")

    @property
    def engine(self) -> Engine:
        return self.arranged.engine

    @property
    def records(self) -> Any:
        return self.arranged.context.records

    @property
    def ledger(self) -> Any:
        return self.arranged.context.ledger

    def ship(self) -> Shipped:
        """Everything is in the store already."""
        return Shipped()

    def close(self) -> None:
        """The stores go on living."""


def house(*, memory: bool = True) -> House:
    arranged = Arranged.new(Settings(enabled=True))
    if memory:
        arranged.context = replace(arranged.context, memory=open_memory())
        arranged.engine = Engine(arranged.context)
    start = SessionStart(record_id="s", at=arranged.now, session_id="s", user="anna")
    notes = [
        MemoryWritten(
            record_id=f"n{n}",
            at=arranged.now,
            session_id="s",
            user="anna",
            text="The refund window for parcels is 14 days" + "." * n,
        )
        for n in range(14)
    ]
    arranged.write([start, *notes])
    arranged.pass_hours(3)
    arranged.engine.score(arranged.now)
    return House(arranged)


def run(house: House, *arguments: str, tmp_path: Path) -> int:
    def opener(
        *, home: Path | None, config: Path | None, env: Mapping[str, str], agent: str, now: Any
    ) -> House:
        return house

    def now() -> datetime:
        return house.arranged.now + timedelta(0)

    outside = Outside(opener, {"PRX_ACTOR": "ada"}, now, tmp_path)  # type: ignore[arg-type]
    return main(["memory", *arguments], outside)


def test_stats_count_what_is_there(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    it = house()
    assert run(it, "stats", "--json", tmp_path=tmp_path) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["active"], told["archived"], told["queries"]) == (14, 0, 0)
    assert run(it, "stats", tmp_path=tmp_path) == 0
    assert "14 entries" in capsys.readouterr().out


def test_a_dry_run_tells_and_writes_nothing_and_a_run_proposes(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    it = house()
    assert run(it, "compact", "--dry-run", "--json", tmp_path=tmp_path) == 0
    (step,) = json.loads(capsys.readouterr().out)["steps"]
    assert step["why"] == "would propose: Add 1 memory entries and archive 14"
    assert run(it, "prune", "--json", tmp_path=tmp_path) == 0
    assert "two signs" in capsys.readouterr().out
    assert run(it, "compact", "--json", tmp_path=tmp_path) == 0
    steps = json.loads(capsys.readouterr().out)["steps"]
    assert [(one["what"], one["answer"]) for one in steps][:2] == [
        ("proposal", "done"),
        ("gate", "not_enough_data"),
    ]


def test_without_a_memory_store_the_answer_says_so(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    it = house(memory=False)
    assert run(it, "stats", tmp_path=tmp_path) == 1
    assert "no memory store" in capsys.readouterr().err
    assert run(it, "compact", tmp_path=tmp_path) == 0
    assert "no memory store" in capsys.readouterr().out
