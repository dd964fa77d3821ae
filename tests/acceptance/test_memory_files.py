"""Memory over the files of a state folder: one process writes and recalls, another takes in."""

import logging
import random
from datetime import UTC, datetime
from pathlib import Path

import pytest

from prx.domain.errors import StoreError
from prx.domain.ids import Ids
from prx.engine.context import Context
from prx.engine.engine import Engine
from prx.ledger.serving import serving
from prx.ledger.sqlite import open_sqlite as open_ledger
from prx.live.evolution import Evolution
from prx.records.sqlite import open_sqlite as open_records
from prx.settings import Settings
from prx.spool.ship import ship
from prx.spool.writer import SpoolWriter
from prx.views.fitness import rules_from
from prx.wiring.memories import engine_memory, local_recall, memory_file

NOW = datetime(2026, 3, 2, tzinfo=UTC)


def test_what_one_session_wrote_another_recalls_through_spool_records_and_store(tmp_path: Path) -> None:
    ids = Ids(random.Random(1))
    ledger, records = open_ledger(tmp_path / "ledger.sqlite", ids), open_records(tmp_path / "records.sqlite")
    store = engine_memory(tmp_path)
    assert store is not None
    settings = Settings()
    engine = Engine(Context(ledger, records, settings, rules_from(settings), ids, memory=store))
    writer = SpoolWriter(tmp_path / "spool", now=lambda: NOW)
    recaller = local_recall(tmp_path, lambda: ledger)

    def served(agent: str):  # type: ignore[no-untyped-def]
        with ledger.view() as view:
            return serving(view, agent)

    evolution = Evolution(served, lambda r: writer.append((r,)), now=lambda: NOW, recaller=recaller)
    with evolution.session(user="anna", tenant="acme") as session:
        memory_id = session.remember("The staging port is 5433, my key is sk-proj-abcdefghijklmnop1234567890")
        assert session.recall("staging port") == []
    writer.sync()
    ship(tmp_path / "spool", records.append, now=NOW)
    engine.advance(NOW)
    with evolution.session(user="anna", tenant="acme") as session:
        (found,) = session.recall("staging port")
        assert found.memory_id == memory_id
        assert "5433" in found.text
        assert "abcdefghijklmnop" not in found.text, "a credential is cut out before it is stored"
        with session.call(model="m", messages="which port?") as call:
            call.reply(text="5433")
    with evolution.session(user="anna", tenant="other") as session:
        assert session.recall("staging port") == []
    writer.sync()
    ship(tmp_path / "spool", records.append, now=NOW)
    recorded = records.interaction(call.id)
    assert recorded is not None
    assert [one.memory_id for one in recorded.recalls] == [memory_id]
    assert evolution.faults == {}
    writer.close()
    recaller.close()
    store.close()
    records.close()
    ledger.close()


def test_a_damaged_memory_file_turns_the_layer_off_and_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    memory_file(tmp_path).write_bytes(b"not a database, and longer than its header would be" * 40)
    with caplog.at_level(logging.ERROR, logger="prx"):
        assert engine_memory(tmp_path) is None
    assert "the memory layer is off" in caplog.text
    with pytest.raises(StoreError):
        local_recall(tmp_path, lambda: pytest.fail("the ledger is not needed"))(_any_ask())


def _any_ask():  # type: ignore[no-untyped-def]
    from prx.domain.memory import Ask, Reader

    return Ask(reader=Reader(), query="x", at=NOW)
