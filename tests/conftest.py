from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

import postgres_server as pg

# How long an example takes says how busy the machine is, and nothing about the code.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


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
