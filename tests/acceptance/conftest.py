"""A provider that answers and a gateway before it, for each test that asks for them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from chat_server import completion
from gateway_house import Provider, Running, gateway, provider, whole


@pytest.fixture
def upstream() -> Iterator[Provider]:
    with provider(lambda _seen: whole(completion())) as one:
        yield one


@pytest.fixture
def running(tmp_path: Path, upstream: Provider) -> Iterator[Running]:
    with gateway(tmp_path, upstream.url) as one:
        yield one
