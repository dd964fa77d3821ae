from collections.abc import Iterator
from pathlib import Path

import pytest
from ledger_samples import seeded_ids

from prx.ledger import Ledger, open_memory, open_sqlite
from prx.records import RecordStore
from prx.records import open_memory as open_memory_records
from prx.records import open_sqlite as open_sqlite_records

STORES = ["memory", "sqlite", pytest.param("postgres", marks=pytest.mark.full)]


@pytest.fixture(params=STORES)
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ledger]:
    ids = seeded_ids()
    opened: Ledger
    if request.param == "postgres":
        from prx.ledger.postgres import open_postgres

        opened = open_postgres(request.getfixturevalue("postgres_url"), ids)
    else:
        sqlite = request.param == "sqlite"
        opened = open_sqlite(tmp_path / "ledger.sqlite", ids) if sqlite else open_memory(ids)
    yield opened
    opened.close()


@pytest.fixture(params=STORES)
def records(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RecordStore]:
    opened: RecordStore
    if request.param == "postgres":
        from prx.records.postgres import open_postgres

        opened = open_postgres(request.getfixturevalue("postgres_url"))
    else:
        sqlite = request.param == "sqlite"
        opened = open_sqlite_records(tmp_path / "records.sqlite") if sqlite else open_memory_records()
    yield opened
    opened.close()
