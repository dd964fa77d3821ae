from collections.abc import Iterator
from pathlib import Path

import pytest
from ledger_samples import seeded_ids

from prx.ledger import Ledger, open_memory, open_sqlite
from prx.records import RecordStore
from prx.records import open_memory as open_memory_records
from prx.records import open_sqlite as open_sqlite_records


@pytest.fixture(params=["memory", "sqlite"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ledger]:
    ids = seeded_ids()
    opened = open_memory(ids) if request.param == "memory" else open_sqlite(tmp_path / "ledger.sqlite", ids)
    yield opened
    opened.close()


@pytest.fixture(params=["memory", "sqlite"])
def records(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RecordStore]:
    memory = request.param == "memory"
    opened = open_memory_records() if memory else open_sqlite_records(tmp_path / "records.sqlite")
    yield opened
    opened.close()
