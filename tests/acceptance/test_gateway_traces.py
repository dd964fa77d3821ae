"""The way in over OTLP/HTTP, with the real exporter and real instrumentations of the OpenAI client."""

import asyncio
import gzip
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import urllib3
from chat_server import Answer, chat_server, chunk, completion
from gateway_house import SECRET, Running, every_byte, gateway, interactions, spooled
from openai import BadRequestError, OpenAI
from openinference.instrumentation import using_session, using_user
from openinference.instrumentation.openai import OpenAIInstrumentor as OpenInference
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.openai import OpenAIInstrumentor as OpenLLMetry
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from starlette.applications import Starlette
from starlette.routing import Route

from prx.domain.ids import system_ids
from prx.domain.records import SessionStart, Terminal, Tokens
from prx.gateway.metrics import Metrics
from prx.gateway.recorder import Recorder
from prx.gateway.rules import GatewayRules
from prx.gateway.tokens import parse_tokens
from prx.gateway.traces import LARGEST_BODY, LARGEST_UNPACKED, Traces
from prx.ledger.memory import open_memory as memory_ledger
from prx.records.memory import MemoryRecords
from prx.spool.rules import OnFull, SpoolRules

NOBODY = "http://127.0.0.1:9/v1"
POOL = urllib3.PoolManager(retries=False)
CALL = {"id": "call_1", "type": "function", "function": {"name": "look_up", "arguments": '{"q": 1}'}}
TOOLS: Any = [{"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}}]
ASKED: Any = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": f"my key is {SECRET}"}]
SPAN = {
    "traceId": "0af7651916cd43dd8448eb211c80319c",
    "spanId": "b7ad6b7169203331",
    "startTimeUnixNano": "1796112000000000000",
    "endTimeUnixNano": "1796112001000000000",
    "attributes": [{"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}}],
}


def request(*spans: Any) -> bytes:
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]}).encode()


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    with gateway(tmp_path, NOBODY) as one:
        yield one


def post(running: Running, body: bytes, path: str = "/traces", **headers: str) -> Any:
    told = {"content-type": "application/json"} | {k.replace("_", "-"): v for k, v in headers.items()}
    return POOL.request("POST", f"{running.url}{path}", body=body, headers=told)


@contextmanager
def instrumented(kind: Callable[[], Any], url: str, **exporter: Any) -> Iterator[TracerProvider]:
    tracing = TracerProvider()
    tracing.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{url}/traces", **exporter)))
    instrumentor = kind()
    instrumentor.instrument(tracer_provider=tracing)
    try:
        yield tracing
    finally:
        instrumentor.uninstrument()
        tracing.shutdown()


@pytest.mark.filterwarnings("ignore:Support for class-based `config`")  # inside an instrumentation
@pytest.mark.parametrize(
    ("kind", "compression"),
    # Each once: the second does not take its hooks off again.
    [(OpenInference, Compression.Gzip), (OpenLLMetry, Compression.NoCompression)],
)
def test_an_instrumented_openai_client_is_recorded(
    tmp_path: Path, running: Running, kind: Callable[[], Any], compression: Compression
) -> None:
    streamed = [chunk({"content": "Hel"}), chunk({"content": "lo"}), chunk({}, "stop")]
    with chat_server() as server, instrumented(kind, running.url, compression=compression) as tracing:
        server.script = [
            Answer(completion("One moment.", tool_calls=[CALL])),
            Answer(events=[*streamed, "[DONE]"]),
            Answer({"error": {"message": "no such model"}}, status=400),
        ]
        client = OpenAI(base_url=server.url, api_key="k", max_retries=0)
        with tracing.get_tracer("app").start_as_current_span("turn"), using_session("s-1"), using_user("ada"):
            client.chat.completions.create(model="gpt-4o", messages=ASKED, tools=TOOLS)
            list(client.chat.completions.create(model="gpt-4o", messages=ASKED, stream=True))
            with pytest.raises(BadRequestError):
                client.chat.completions.create(model="gpt-4o", messages=ASKED)
        assert tracing.force_flush()
    called, stream, refused = sorted(interactions(tmp_path), key=lambda record: record.at)
    assert [m.role for m in called.messages] == ["system", "user"]
    assert called.messages[1].content == "my key is [redacted:provider-key]"
    assert (called.response, called.model) == ("One moment.", "gpt-4o-2024-08-06")
    assert [(t.name, t.call_id) for t in called.tool_calls] == [("look_up", "call_1")]
    assert called.tokens == Tokens(input=100, output=20, cache_read=40, reasoning=called.tokens.reasoning)
    assert (stream.response, stream.streamed) == ("Hello", True)
    assert stream.ttft_ms is not None
    assert (refused.terminal, refused.external_failure) == (Terminal.UPSTREAM_ERROR, False)
    assert SECRET.encode() not in every_byte(tmp_path)
    starts = [record for record in spooled(tmp_path) if isinstance(record, SessionStart)]
    assert {record.session_id for record in starts} == {called.session_id} == {stream.session_id}
    if kind is OpenInference:  # the other one knows no session
        assert (starts[0].ref, starts[0].user) == ("s-1", "ada")


def test_what_is_exported_again_is_stored_once(tmp_path: Path, running: Running) -> None:
    for _ in range(2):
        assert post(running, request(SPAN)).status == 200
    store = MemoryRecords()
    assert store.append(spooled(tmp_path)) == 2
    assert store.counts()["interactions"] == 1


def test_a_partial_success_names_what_was_rejected_in_both_encodings(running: Running) -> None:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
        ExportTraceServiceRequest,
        ExportTraceServiceResponse,
    )

    answer = post(running, request(SPAN, SPAN | {"spanId": "00"}))
    assert answer.status == 200
    assert answer.json()["partialSuccess"]["rejectedSpans"] == "1"
    told = ExportTraceServiceRequest()
    spans = told.resource_spans.add().scope_spans.add().spans
    spans.add(trace_id=bytes(15) + b"1", span_id=b"12345678")
    for _ in range(200):
        spans.add(trace_id=b"short")
    answer = post(running, told.SerializeToString(), content_type="application/x-protobuf")
    said = ExportTraceServiceResponse.FromString(answer.data)
    assert answer.headers["content-type"] == "application/x-protobuf"
    assert (answer.status, said.partial_success.rejected_spans) == (200, 200)
    assert "id" in said.partial_success.error_message


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"{}", {}, 200),
        (request(), {}, 200),
        (request(SPAN | {"traceId": ""}), {}, 400),
        (b"[]", {}, 400),
        (b"{", {}, 400),
        (b"", {}, 400),
        (request(SPAN), {"content_type": "text/plain"}, 415),
        (request(SPAN), {"content_type": "application/x-protobuf"}, 400),
        (request(SPAN), {"content_encoding": "br"}, 415),
        (request(SPAN), {"content_encoding": "gzip"}, 400),
        (gzip.compress(request(SPAN)), {"content_encoding": "gzip"}, 200),
        (gzip.compress(request(SPAN))[:-12], {"content_encoding": "gzip"}, 400),
        (gzip.compress(b" " * (LARGEST_UNPACKED + 1)), {"content_encoding": "gzip"}, 413),
        (b" " * (LARGEST_BODY + 1), {}, 413),
        (request(SPAN), {"x_prx_agent": "../other"}, 400),
    ],
)
def test_a_bad_request_gets_an_answer_that_ends_its_repetition(
    running: Running, body: bytes, headers: dict[str, str], status: int
) -> None:
    answer = post(running, body, **headers)
    assert answer.status == status, answer.data
    assert "retry-after" not in answer.headers
    if status != 200 and headers.get("content_type") != "application/x-protobuf":
        assert answer.json()["message"]


def test_agents_by_path_and_header_get_their_own_sessions(tmp_path: Path, running: Running) -> None:
    assert post(running, request(SPAN), x_prx_agent="one").status == 200
    base = running.url.removesuffix("/v1")
    headers = {"content-type": "application/json"}
    assert POOL.request("POST", f"{base}/a/two/v1/traces", body=request(SPAN), headers=headers).status == 200
    starts = [record for record in spooled(tmp_path) if isinstance(record, SessionStart)]
    assert sorted(record.agent for record in starts) == ["one", "two"]


def test_only_a_token_with_scope_ingest_may_send(tmp_path: Path) -> None:
    proxy, ingest = "proxy-token-0123456789", "ingest-token-0123456789"
    lines = (
        f"{scope} {scope} {sha256(token.encode()).hexdigest()}"
        for scope, token in (("proxy", proxy), ("ingest", ingest))
    )
    with gateway(tmp_path, NOBODY, tokens=parse_tokens("\n".join(lines), "t")) as running:
        assert post(running, request(SPAN)).status == 401
        assert post(running, request(SPAN), authorization=f"Bearer {proxy}").status == 403
        assert interactions(tmp_path) == []
        assert post(running, request(SPAN), authorization=f"Bearer {ingest}").status == 200
    assert len(interactions(tmp_path)) == 1


def test_spans_are_counted_by_what_they_were(running: Running) -> None:
    tool = {"key": "openinference.span.kind", "value": {"stringValue": "TOOL"}}
    post(running, request(SPAN, SPAN | {"spanId": "b7ad6b7169203332", "attributes": [tool]}))
    post(running, b"{")
    text = POOL.request("GET", f"{running.url.removesuffix('/v1')}/metrics").data.decode()
    assert 'prx_otlp_spans_total{as="call"} 1' in text
    assert 'prx_otlp_spans_total{as="tool_alone"} 1' in text
    assert 'prx_gateway_refused_total{why="traces_400"} 1' in text


@pytest.mark.parametrize("on_full", OnFull)
def test_a_full_spool_asks_the_exporter_to_come_back(tmp_path: Path, on_full: OnFull) -> None:
    rules = GatewayRules(upstream=NOBODY, home=tmp_path)
    spool_rules = SpoolRules(max_bytes=10, reserve_bytes=0, on_full=on_full)
    recorder = Recorder(
        rules, spool=tmp_path / "spool", ledger=lambda: memory_ledger(system_ids()), spool_rules=spool_rules
    )
    try:
        head = asyncio.run(asked(Traces(recorder, Metrics()), request(SPAN)))
    finally:
        recorder.close()
    assert head["status"] == 503
    assert (b"retry-after", b"30") in head["headers"]


async def asked(traces: Traces, body: bytes) -> dict[str, Any]:
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    app = Starlette(routes=[Route("/", traces.answer, methods=["POST"])])
    headers = [(b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/", "headers": headers, "query_string": b""}
    await app(scope, receive, send)
    return sent[0]
