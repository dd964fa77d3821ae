"""What the gateway reads of the ledger: the accepted prompts when they changed, and anew after a restore."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from prx.domain.accepted import AcceptedPrompt, accepted_id
from prx.domain.ids import system_ids
from prx.domain.replaced import StoreReplaced
from prx.gateway.prompts.store import Learned, PromptFiles
from prx.gateway.serving import LedgerReader
from prx.ledger.memory import open_memory
from prx.ledger.port import Ledger, View
from prx.release.erased import ERASED

NOW = datetime(2026, 12, 1, tzinfo=UTC)


class ReplacedOnce:
    """A ledger that was replaced under whoever has it open."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.closed = False

    @contextmanager
    def view(self) -> Iterator[View]:
        raise StoreReplaced("the ledger went back from commit 2 to 1")
        yield

    def close(self) -> None:
        self.closed = True


def accepted(name: str = "support", text: str = "Be kind.") -> AcceptedPrompt:
    return AcceptedPrompt(accepted_id=accepted_id("a", name), agent="a", name=name, text=text, at=NOW)


def test_a_replaced_ledger_is_told_once_and_then_opened_anew() -> None:
    ledger = open_memory(system_ids())
    replaced = ReplacedOnce(ledger)
    opened = iter((replaced, ledger))
    reader = LedgerReader(lambda: next(opened))  # type: ignore[arg-type,return-value]
    with pytest.raises(StoreReplaced, match="went back"):
        reader.read("a")
    assert replaced.closed
    assert reader.read("a").agent == "a"


def test_accepted_prompts_are_told_at_first_and_when_they_change() -> None:
    ledger, told = open_memory(system_ids()), list[tuple[AcceptedPrompt, ...]]()
    reader = LedgerReader(lambda: ledger, told.append)
    reader.read("a")
    reader.read("a")
    with ledger.transaction(now=NOW, actor="person:ada") as tx:
        tx.put(accepted())
    reader.read("a")
    reader.read("b")
    assert told == [(), (accepted(),)]


def test_the_file_follows_what_is_accepted_for_all_and_keeps_what_is_accepted_here(tmp_path: Path) -> None:
    files = PromptFiles(tmp_path)
    names = ("own", "support")
    for name in names:
        files.learn(lambda _known, name=name: Learned(agent="a", name=name, text=f"I am {name}."))  # type: ignore[misc]
        files.accept("a", name, new_name=None, now=NOW, by="ada")
    files.follow((accepted(),))
    assert {one.name: one.text for one in files.accepted()} == {"support": "Be kind.", "own": "I am own."}
    files.follow((accepted(text=ERASED),))
    assert [one.name for one in files.accepted()] == ["own"]


def test_a_file_that_follows_nothing_new_is_not_written(tmp_path: Path) -> None:
    files = PromptFiles(tmp_path)
    files.follow((accepted(),))
    stamp = files.stamp()
    files.follow((accepted(),))
    assert files.stamp() == stamp
