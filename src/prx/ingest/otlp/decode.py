"""Export requests of OTLP/HTTP as spans: protobuf and JSON."""

import base64
import binascii
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from prx.ingest.otlp.span import MOST_SPANS, Malformed, MissingDecoder, Span, SpanEvent
from prx.ingest.plain import dict_at, dicts_at, list_at

_ERROR = 2
_DEEPEST = 16


def from_protobuf(body: bytes) -> list[Span]:
    """Spans of an `ExportTraceServiceRequest`. Raises: Malformed, MissingDecoder."""
    try:
        from google.protobuf.message import DecodeError
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
    except ImportError as error:
        raise MissingDecoder(
            "reading protobuf needs the extra otlp (pip install 'prx-evolution[otlp]'); or let the exporter "
            "send JSON (OTEL_EXPORTER_OTLP_PROTOCOL=http/json)"
        ) from error
    request = ExportTraceServiceRequest()
    try:
        request.ParseFromString(body)
    except (DecodeError, RecursionError) as error:
        raise Malformed(f"the body is no ExportTraceServiceRequest: {error}") from None
    return _bounded(_protobuf_spans(request), MOST_SPANS)


def from_json(body: bytes, *, most: int = MOST_SPANS) -> list[Span]:
    """Spans of an export request in the JSON of OTLP: ids in hexadecimal, names in camel case.

    Raises: Malformed.
    """
    try:
        request = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed(f"the body is no JSON: {error}") from None
    if not isinstance(request, dict) or not isinstance(request.get("resourceSpans", []), list):
        raise Malformed("the body is no export request: expected an object with the list resourceSpans")
    return _bounded(_json_spans(request), most)


def _bounded(spans: Iterator[Span], most: int) -> list[Span]:
    found: list[Span] = []
    for span in spans:
        if len(found) >= most:
            raise Malformed(f"more than {most} spans in one request; send smaller batches")
        found.append(span)
    return found


def _protobuf_spans(request: Any) -> Iterator[Span]:
    for group in request.resource_spans:
        resource = _protobuf_attributes(group.resource.attributes)
        for scoped in group.scope_spans:
            scope = f"{scoped.scope.name} {scoped.scope.version}".strip()
            for raw in scoped.spans:
                yield Span(
                    trace=raw.trace_id.hex(),
                    id=raw.span_id.hex(),
                    parent=raw.parent_span_id.hex(),
                    name=raw.name,
                    start=raw.start_time_unix_nano,
                    end=raw.end_time_unix_nano,
                    attributes=_protobuf_attributes(raw.attributes),
                    events=tuple(
                        SpanEvent(e.name, e.time_unix_nano, _protobuf_attributes(e.attributes))
                        for e in raw.events
                    ),
                    failed=raw.status.code == _ERROR,
                    message=raw.status.message,
                    resource=resource,
                    scope=scope,
                )


def _protobuf_attributes(pairs: Iterable[Any]) -> dict[str, Any]:
    return {pair.key: _protobuf_value(pair.value, 0) for pair in pairs}


def _protobuf_value(value: Any, depth: int) -> Any:
    kind = value.WhichOneof("value")
    if kind is None or depth > _DEEPEST:
        return None
    if kind == "array_value":
        return [_protobuf_value(one, depth + 1) for one in value.array_value.values]
    if kind == "kvlist_value":
        return {pair.key: _protobuf_value(pair.value, depth + 1) for pair in value.kvlist_value.values}
    if kind == "bytes_value":
        return base64.b64encode(value.bytes_value).decode()
    return getattr(value, kind)


def _json_spans(request: dict[str, Any]) -> Iterator[Span]:
    for group in dicts_at(request, "resourceSpans"):
        resource = _json_attributes(dict_at(group, "resource"))
        for scoped in dicts_at(group, "scopeSpans"):
            named = dict_at(scoped, "scope")
            scope = f"{_text(named.get('name'))} {_text(named.get('version'))}".strip()
            for raw in dicts_at(scoped, "spans"):
                yield _json_span(raw, resource, scope)


def _json_span(raw: dict[str, Any], resource: dict[str, Any], scope: str) -> Span:
    status = dict_at(raw, "status")
    return Span(
        trace=_text(raw.get("traceId")).lower(),
        id=_text(raw.get("spanId")).lower(),
        parent=_text(raw.get("parentSpanId")).lower(),
        name=_text(raw.get("name")),
        start=_whole(raw.get("startTimeUnixNano")),
        end=_whole(raw.get("endTimeUnixNano")),
        attributes=_json_attributes(raw),
        events=tuple(
            SpanEvent(_text(e.get("name")), _whole(e.get("timeUnixNano")), _json_attributes(e))
            for e in dicts_at(raw, "events")
        ),
        failed=status.get("code") in (_ERROR, str(_ERROR), "STATUS_CODE_ERROR"),
        message=_text(status.get("message")),
        resource=resource,
        scope=scope,
    )


def _json_attributes(holder: dict[str, Any]) -> dict[str, Any]:
    pairs = dicts_at(holder, "attributes")
    return {p["key"]: _json_value(p.get("value"), 0) for p in pairs if isinstance(p.get("key"), str)}


def _json_value(value: Any, depth: int) -> Any:
    if not isinstance(value, dict) or depth > _DEEPEST:
        return None
    if "stringValue" in value:
        return _text(value["stringValue"])
    if "boolValue" in value:
        return value["boolValue"] is True
    if "intValue" in value:
        return _whole(value["intValue"])
    if "doubleValue" in value:
        told = value["doubleValue"]
        return float(told) if isinstance(told, int | float) and not isinstance(told, bool) else None
    if "arrayValue" in value:
        return [_json_value(one, depth + 1) for one in list_at(value["arrayValue"], "values")]
    if "kvlistValue" in value:
        pairs = dicts_at(value["kvlistValue"], "values")
        return {_text(pair.get("key")): _json_value(pair.get("value"), depth + 1) for pair in pairs}
    if "bytesValue" in value:
        return _base64(value["bytesValue"])
    return None


def _base64(value: Any) -> str | None:
    try:
        return base64.b64encode(base64.b64decode(value)).decode() if isinstance(value, str) else None
    except (binascii.Error, ValueError):
        return None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _whole(value: Any) -> int:
    """A 64-bit number, which JSON may write as text; 0 for anything else."""
    if isinstance(value, str):
        try:
            value = int(value[:20])
        except ValueError:
            return 0
    if not isinstance(value, int) or isinstance(value, bool):
        return 0
    return value if -(2**63) <= value < 2**64 else 0
