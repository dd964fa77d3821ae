from collections.abc import Iterator
from pathlib import Path

import pytest
from kept import Kept, in_postgres, in_sqlite


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.full)])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kept]:
    sqlite = request.param == "sqlite"
    made = in_sqlite(tmp_path) if sqlite else in_postgres(request.getfixturevalue("postgres_url"))
    yield made
    made.ledger.close()
