from collections.abc import Iterator

import pytest

import postgres_server as pg


@pytest.fixture(scope="session")
def postgres() -> Iterator[pg.PostgresServer]:
    """A PostgreSQL that all tests of the run share; each takes a database of its own."""
    if why := pg.missing():
        pytest.skip(why)
    with pg.own_server() as server:
        yield server


@pytest.fixture
def postgres_url(postgres: pg.PostgresServer) -> str:
    """Address of an empty database."""
    return postgres.new_database()
