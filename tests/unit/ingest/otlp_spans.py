"""Spans for the tests of OTLP, in the JSON that exporters send."""

import json
from typing import Any

from prx.ingest.otlp.decode import from_json
from prx.ingest.otlp.span import Span

TRACE = "0af7651916cd43dd8448eb211c80319c"
SECOND = 1_000_000_000
START = 1_796_112_000 * SECOND  # 2026-12-01T08:00:00Z


def value(told: Any) -> dict[str, Any]:
    if isinstance(told, bool):
        return {"boolValue": told}
    if isinstance(told, int):
        return {"intValue": str(told)}
    if isinstance(told, float):
        return {"doubleValue": told}
    if isinstance(told, list):
        return {"arrayValue": {"values": [value(one) for one in told]}}
    return {"stringValue": told}


def attributes(told: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": value(one)} for key, one in told.items()]


def raw_span(
    name: str,
    told: dict[str, Any],
    *,
    parent: str = "",
    trace: str = TRACE,
    at: float = 0.0,
    lasts: float = 1.0,
    events: list[tuple[str, float, dict[str, Any]]] | None = None,
    failed: str | None = None,
) -> dict[str, Any]:
    """`name` becomes the span's id; times in seconds after START."""
    return {
        "traceId": trace,
        "spanId": span_id(name),
        "parentSpanId": span_id(parent) if parent else "",
        "name": name,
        "startTimeUnixNano": str(START + int(at * SECOND)),
        "endTimeUnixNano": str(START + int((at + lasts) * SECOND)),
        "attributes": attributes(told),
        "events": [
            {"name": e, "timeUnixNano": str(START + int(t * SECOND)), "attributes": attributes(a)}
            for e, t, a in events or []
        ],
        "status": {"code": 2, "message": failed} if failed is not None else {},
    }


def span_id(name: str) -> str:
    return name.encode().hex().ljust(16, "0")[:16]


def body(*spans: dict[str, Any], resource: dict[str, Any] | None = None) -> bytes:
    scope = {"scope": {"name": "test", "version": "1"}, "spans": list(spans)}
    group = {"resource": {"attributes": attributes(resource or {})}, "scopeSpans": [scope]}
    return json.dumps({"resourceSpans": [group]}).encode()


def spans(*raw: dict[str, Any], resource: dict[str, Any] | None = None) -> list[Span]:
    return from_json(body(*raw, resource=resource))
