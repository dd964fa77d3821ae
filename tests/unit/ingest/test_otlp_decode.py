import base64
import json
from typing import Any

import pytest
from otlp_spans import START, TRACE, body, raw_span, span_id

from prx.ingest.otlp.decode import from_json, from_protobuf
from prx.ingest.otlp.span import Malformed

VALUES: dict[str, Any] = {
    "text": "täxt",
    "number": -(2**53) - 1,
    "share": 0.5,
    "yes": True,
    "list": ["a", 1],
}


def protobuf(raw: dict[str, Any], resource: dict[str, Any]) -> bytes:
    from google.protobuf import json_format
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    told = json.loads(body(raw, resource=resource))
    for span in told["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        for key in ("traceId", "spanId", "parentSpanId"):
            # The generic JSON of protobuf writes bytes in base64, that of OTLP in hexadecimal.
            span[key] = base64.b64encode(bytes.fromhex(span[key])).decode()
    request = json_format.ParseDict(told, ExportTraceServiceRequest())
    return bytes(request.SerializeToString())


def test_protobuf_and_json_of_the_same_request_are_the_same_spans() -> None:
    raw = raw_span("call", VALUES, parent="root", events=[("e", 0.5, VALUES)], failed="broke")
    (one,) = from_json(body(raw, resource=VALUES))
    assert from_protobuf(protobuf(raw, VALUES)) == [one]
    assert (one.trace, one.id, one.parent) == (TRACE, span_id("call"), span_id("root"))
    assert (one.start, one.events[0].at) == (START, START + 500_000_000)
    assert one.attributes == one.resource == one.events[0].attributes == VALUES
    assert (one.failed, one.message, one.scope) == (True, "broke", "test 1")


@pytest.mark.parametrize(
    "given",
    [
        b"",
        b"[]",
        b"null",
        b'{"resourceSpans": 3}',
        b"\xff\xfe",
        b"{" * 5000,
        b'{"a":' * 5000 + b"1" + b"}" * 5000,
    ],
)
def test_a_body_that_is_no_request_is_malformed(given: bytes) -> None:
    with pytest.raises(Malformed):
        from_json(given)


def test_bytes_that_are_no_protobuf_are_malformed() -> None:
    with pytest.raises(Malformed):
        from_protobuf(b"this is no protobuf")


@pytest.mark.parametrize(
    "spans",
    [
        [None, 3, "x", []],
        [{}],
        [{"traceId": 5, "attributes": "x", "events": {"a": 1}, "status": []}],
        [{"attributes": [{"key": 1}, {"key": "k"}, {"key": "k", "value": {"intValue": "9" * 400}}]}],
        [
            {
                "attributes": [
                    {"key": "k", "value": {"doubleValue": "x"}},
                    {"key": "b", "value": {"bytesValue": "%"}},
                ]
            }
        ],
        [{"startTimeUnixNano": 10**30, "endTimeUnixNano": -(10**30)}],
    ],
)
def test_a_span_of_the_wrong_shape_has_no_valid_id_and_costs_no_other(spans: list[Any]) -> None:
    told = json.loads(body(raw_span("call", VALUES)))
    told["resourceSpans"][0]["scopeSpans"][0]["spans"] += spans
    found = from_json(json.dumps(told).encode())
    assert [span.id for span in found if span.valid] == [span_id("call")]


def test_more_spans_than_a_request_may_have_are_refused() -> None:
    with pytest.raises(Malformed, match="smaller batches"):
        from_json(body(*[raw_span(f"s{n}", {}) for n in range(4)]), most=3)


def test_deep_values_are_cut_not_followed() -> None:
    deep: dict[str, Any] = {"stringValue": "end"}
    for _ in range(60):
        deep = {"arrayValue": {"values": [deep]}}
    raw = raw_span("call", {}) | {"attributes": [{"key": "k", "value": deep}]}
    (span,) = from_json(body(raw))
    assert "end" not in str(span.attributes)
