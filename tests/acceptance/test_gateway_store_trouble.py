"""A store that is locked or damaged: serving does not notice, and all arrives afterwards."""

import json
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest
import urllib3
from chat_server import completion
from gateway_house import eventually, interactions, provider, served, whole

from prx.wiring.app import open_app
from prx.wiring.paths import records_file

POOL = urllib3.PoolManager(retries=False)


def ask(url: str, ref: str) -> int:
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}]})
    return POOL.request("POST", f"{url}/chat/completions", body=body, headers={"x-prx-ref": ref}).status


def waiting(url: str) -> int:
    health: dict[str, Any] = POOL.request("GET", f"{url.removesuffix('/v1')}/health").json()
    return int(health["spool"]["waiting_bytes"])


def stored(home: Path) -> int:
    with closing(open_app(home=home, env={})) as app:
        return int(app.records.counts()["interactions"])


@contextmanager
def write_lock(path: Path) -> Iterator[None]:
    """What a hanging process does to everybody who wants to write."""
    connection = apsw.Connection(str(path))
    connection.set_busy_timeout(10_000)
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")
        connection.close()


@pytest.mark.parametrize("trouble", ["locked", "damaged"])
def test_serving_goes_on_while_the_store_is_in_trouble_and_all_arrives_afterwards(
    tmp_path: Path, trouble: str
) -> None:
    path = records_file(tmp_path)
    with provider(lambda _seen: whole(completion())) as upstream:
        with served(tmp_path, upstream.url, "--drain", "1") as (process, url):
            assert ask(url, "first") == 200
            eventually(lambda: path.exists() and waiting(url) == 0, 60)
            if trouble == "locked":
                with write_lock(path):
                    assert [ask(url, f"r-{n}") for n in range(20)] == [200] * 20
                    assert waiting(url) > 0
                    assert POOL.request("GET", f"{url.removesuffix('/v1')}/readyz").status == 200
                eventually(lambda: waiting(url) == 0, 60)
            else:
                for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
                    (tmp_path / name).unlink(missing_ok=True)
                if trouble == "damaged":
                    path.write_bytes(b"this is no database" * 500)
                assert [ask(url, f"r-{n}") for n in range(20)] == [200] * 20
                assert POOL.request("GET", f"{url.removesuffix('/v1')}/readyz").status == 200
            process.terminate()
            assert process.wait(60) == 0
    if trouble == "damaged":
        shutil.move(path, tmp_path / "set-aside")
    with closing(open_app(home=tmp_path, env={})) as app:
        app.advance()
    assert sorted(r.ref or "" for r in interactions(tmp_path)) == sorted(
        ["first", *(f"r-{n}" for n in range(20))]
    )
    assert stored(tmp_path) == 21
