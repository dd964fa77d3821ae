import random
from datetime import UTC, datetime
from typing import Any

import pytest

from prx.domain.changes import MemoryArchive
from prx.domain.codec import encode
from prx.domain.errors import StoreError
from prx.domain.memory import Ask, MemoryEntry, Reader, Scope, SessionMemory
from prx.domain.versions import MemoryState, part_hash
from prx.memory import MemoryStore, StoredRecall, open_memory

NOW = datetime(2026, 9, 1, tzinfo=UTC)
READER = Reader(user="anna")


def filled() -> MemoryStore:
    store = open_memory()
    entries = tuple(
        MemoryEntry(
            memory_id=key, scope=Scope(owner="user:anna"), text=f"port {key}", created_at=NOW, valid_from=NOW
        )
        for key in ("one", "two")
    )
    store.learn([SessionMemory(session_id="s", reader=READER, entries=entries)])
    return store


def without(key: str) -> MemoryState:
    return MemoryState(operations=(encode(MemoryArchive(memory_id=key, why="x")).decode(),))


def ids(recall: StoredRecall, state: str) -> list[str]:
    found = recall(Ask(reader=READER, query="port", at=NOW, state=state))
    return [one.memory_id for one in found]


def test_recall_follows_the_part_that_is_served_and_reads_each_part_once() -> None:
    parts = {part_hash(without(key)): without(key) for key in ("one", "two")}
    read: list[str] = []

    def part(state: str) -> MemoryState:
        read.append(state)
        return parts[state]

    recall = StoredRecall(filled, part)
    first, second = parts
    for _ in range(3):
        assert ids(recall, first) == ["two"]
        assert ids(recall, second) == ["one"]
        assert ids(recall, "") == ["one", "two"]
    assert read == [first, second]


def test_many_parts_do_not_pile_up() -> None:
    states = [without(f"m{n}") for n in range(40)]
    parts = {part_hash(state): state for state in states}
    recall = StoredRecall(filled, parts.__getitem__)
    keys = list(parts)
    random.Random(1).shuffle(keys)
    for state in keys * 2:
        assert ids(recall, state) == ["one", "two"]
    assert len(recall._states) <= 8


def test_the_store_is_opened_at_the_first_recall_and_tried_again_after_a_failure() -> None:
    tried: list[int] = []

    def opened() -> Any:
        tried.append(1)
        if len(tried) == 1:
            raise StoreError("the memory cannot be opened; run `prx doctor`")
        return filled()

    recall = StoredRecall(opened, lambda _: MemoryState())
    assert tried == []
    with pytest.raises(StoreError):
        ids(recall, "")
    assert ids(recall, "") == ["one", "two"]
    assert ids(recall, "") == ["one", "two"]
    assert len(tried) == 2
    recall.close()
