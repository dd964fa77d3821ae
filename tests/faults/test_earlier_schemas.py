"""A store of every earlier schema is brought up to date when it is opened, and works in full."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from prx.domain.erasure import Subject
from prx.domain.events import Event, EventName
from prx.domain.ids import system_ids
from prx.domain.records import SessionStart
from prx.domain.versions import Manifest, MemoryState, PromptSet, Strategy, Version
from prx.ledger import open_sqlite
from prx.ledger.ledger import StoredLedger
from prx.ledger.sqlite import SCHEMA, SqliteStore
from prx.records.sqlite import SCHEMA as RECORDS
from prx.records.sqlite import open_sqlite as open_records
from prx.sqlite import Database
from prx.views.audit import verify

NOW = datetime(2026, 12, 1, 8, 0, tzinfo=UTC)


@pytest.fixture(params=range(1, SCHEMA.newest + 1))
def earlier(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A ledger as the schema of that number left it, with a version, an event and an audit row."""
    path = tmp_path / "ledger.sqlite"
    schema = replace(SCHEMA, migrations=SCHEMA.migrations[: request.param])
    with closing(StoredLedger(SqliteStore(Database(path, schema, full_sync=True)), system_ids())) as ledger:
        with ledger.transaction(now=NOW, actor="engine") as tx:
            manifest = Manifest(
                prompt=tx.put_part(PromptSet(texts={"system": "You help."})),
                memory=tx.put_part(MemoryState()),
                strategy=tx.put_part(Strategy()),
            )
            tx.add_version(
                Version(snapshot_id="snap_1", agent="a", label="v1.0", created_at=NOW, manifest=manifest)
            )
            tx.point("a", "v1.0", expected=None)
            tx.emit(Event(event_id="e", at=NOW, agent="a", name=EventName.ALERT, summary="said"))
    return path


def test_a_ledger_of_every_schema_opens_whole_and_takes_what_came_later(earlier: Path) -> None:
    with closing(open_sqlite(earlier, system_ids())) as ledger:
        with ledger.view() as view:
            assert view.version("a", "v1.0").snapshot_id == "snap_1"
            assert verify(view).whole
        with ledger.transaction(now=NOW, actor="engine") as tx:
            tx.erase_event(1)
        with ledger.view() as view:
            assert [event.summary for _, event in view.events()] == ["[erased]"]
            assert verify(view).whole


@pytest.mark.parametrize("number", range(1, RECORDS.newest + 1))
def test_records_of_every_schema_open_and_know_erasure(tmp_path: Path, number: int) -> None:
    path = tmp_path / "records.sqlite"
    earlier = replace(RECORDS, migrations=RECORDS.migrations[:number])
    Database(path, earlier, full_sync=False).close()
    with closing(open_records(path)) as records:
        records.append([SessionStart(record_id="s", at=NOW, session_id="s", user="u")])
        records.erasures.condemn(Subject(user="u"), records.erasures.sessions_of(Subject(user="u")), NOW)
        assert records.erasures.carry_out().sessions == 1
