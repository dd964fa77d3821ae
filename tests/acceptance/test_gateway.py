"""Requests through a real gateway to a scripted provider."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import urllib3
from chat_server import USAGE, chunk, completion
from gateway_house import Provider, Reply, Running, Seen, events, gateway, interactions, provider, stream, whole

from prx.domain.records import Terminal

POOL = urllib3.PoolManager(retries=False)
CHAT = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Where is my parcel?"}]}


@pytest.fixture
def upstream() -> Iterator[Provider]:
    with provider(lambda _seen: whole(completion())) as one:
        yield one


@pytest.fixture
def running(tmp_path: Path, upstream: Provider) -> Iterator[Running]:
    with gateway(tmp_path, upstream.url) as one:
        yield one


def post(url: str, body: object, **headers: str) -> urllib3.BaseHTTPResponse:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    given = {"Content-Type": "application/json"} | {k.replace("_", "-"): v for k, v in headers.items()}
    return POOL.request("POST", url, body=data, headers=given)


def test_a_plain_answer_passes_byte_for_byte_and_is_recorded(running: Running, upstream: Provider) -> None:
    raw = b'{ "model":"gpt-4o",\t"messages":[{"role":"user","content":"caf\\u00e9 1.0"}],"odd":1.50e2 }'
    answer = post(f"{running.url}/chat/completions", raw)
    assert upstream.seen[0].body == raw
    assert json.loads(answer.data) == completion()
    (record,) = interactions(running.home)
    assert record.response == "Hello!" and record.terminal is Terminal.COMPLETED
    assert answer.headers["x-prx-record"] == record.record_id
    assert (record.tokens.input, record.tokens.cache_read, record.tokens.reasoning) == (100, 40, 8)
    assert record.messages[0].content == "café 1.0" and record.source == "gateway"


def test_a_stream_asks_for_usage_on_its_own_and_keeps_the_extra_chunk_to_itself(
    running: Running, upstream: Provider
) -> None:
    parts = [chunk({"role": "assistant", "content": "Hel"}), chunk({"content": "lo"}), chunk({}, "stop")]
    extra = {"id": "c", "object": "chat.completion.chunk", "model": "gpt-4o", "choices": [], "usage": USAGE}
    upstream.script = lambda _seen: stream(events(*parts, extra))
    answer = post(f"{running.url}/chat/completions", CHAT | {"stream": True})
    assert upstream.seen[0].json["stream_options"] == {"include_usage": True}
    assert answer.data == b"".join(events(*parts))
    (record,) = interactions(running.home)
    assert (record.response, record.tokens.output, record.streamed) == ("Hello", 20, True)
    assert record.ttft_ms is not None and record.latency_ms is not None
