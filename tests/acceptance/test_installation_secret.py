"""One random secret per state folder: nobody can choose to be sampled by the analysis."""

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from prx.analyze.rules import AnalyzeRules
from prx.domain.errors import StoreError
from prx.domain.ids import Ids, system_ids
from prx.settings import Settings
from prx.wiring.app import open_app
from prx.wiring.paths import installation_secret


def seeded(seed: int) -> Ids:
    return Ids(random.Random(seed))


def test_the_secret_stays_is_its_owners_alone_and_differs_between_folders(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    secret = installation_secret(one, system_ids())
    assert installation_secret(one, system_ids()) == secret
    assert len(secret) == 32
    assert (one / "secret.key").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in one.iterdir()] == ["secret.key"]
    assert installation_secret(two, system_ids()) != secret


def test_a_simulation_gets_the_same_secret_from_the_same_seed(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    assert installation_secret(one, seeded(4)) == installation_secret(two, seeded(4))


def test_processes_that_start_together_agree(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda k: installation_secret(tmp_path, seeded(k)), range(8)))
    assert len(found) == 1


@pytest.mark.parametrize("damage", [b"", b"short\n", b"\xff\xfe"])
def test_a_damaged_secret_is_refused_with_what_to_do(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / "secret.key").write_bytes(damage)
    with pytest.raises(StoreError, match=r"secret\.key"):
        installation_secret(tmp_path, system_ids())


def test_the_engine_samples_by_it(tmp_path: Path) -> None:
    app = open_app(home=tmp_path / "home", env={}, settings=Settings(), durable=False)
    key = app.engine.context.sample_key
    app.close()
    assert key == installation_secret(tmp_path / "home", system_ids())
    assert key != AnalyzeRules().sample_key
