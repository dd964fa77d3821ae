"""`POST /v1/traces`: the way in for OpenTelemetry exporters, protobuf and JSON."""

import asyncio
import threading
import zlib
from collections.abc import Sequence
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from prx.domain.errors import EvolutionError, InvalidInput
from prx.domain.records import Record
from prx.gateway.identity import agent_of
from prx.gateway.metrics import Metrics
from prx.gateway.recorder import Recorder
from prx.ingest.otlp.decode import from_json, from_protobuf
from prx.ingest.otlp.intake import Intake, Taken
from prx.ingest.otlp.span import Malformed, MissingDecoder

PATH = "/v1/traces"
LARGEST_BODY = 16 * 1024 * 1024
LARGEST_UNPACKED = 64 * 1024 * 1024
_WAITING = 4
_SLICE = 20
_PROTOBUF, _JSON = "application/x-protobuf", "application/json"
_GZIP = zlib.MAX_WBITS | 32


class _Refusal(Exception):
    """An answer other than 200; with `retry_after`, in seconds, sending it again later helps."""

    def __init__(self, status: int, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status, self.retry_after = status, retry_after


class Traces:
    """Takes export requests one after another in a thread of its own, so that no other request waits long;
    beyond a few that wait, exporters are asked to come back."""

    def __init__(self, recorder: Recorder, metrics: Metrics) -> None:
        self._recorder, self._metrics = recorder, metrics
        self._intake = Intake()
        self._turn = threading.Lock()
        self._waiting = 0

    async def answer(self, request: Request) -> Response:
        """200 with what was rejected, or an error: 4xx for what no repetition mends, 503 to come back."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        try:
            if kind not in (_PROTOBUF, _JSON):
                raise _Refusal(415, f"send {_PROTOBUF} or {_JSON}")
            if self._waiting >= _WAITING:
                raise _Refusal(503, "too many export requests at once; send it again later", 1)
            self._waiting += 1
            try:
                taken = await self._took(request, kind)
            finally:
                self._waiting -= 1
        except _Refusal as refused:
            self._metrics.refused[f"traces_{refused.status}"] += 1
            headers = {} if refused.retry_after is None else {"retry-after": str(refused.retry_after)}
            return Response(_status(str(refused), kind), refused.status, headers, media_type=_shape(kind))
        self._metrics.traces.update(taken.seen)
        self._metrics.traces["rejected"] += taken.rejected
        return Response(_done(taken, kind), 200, media_type=_shape(kind))

    async def _took(self, request: Request, kind: str) -> Taken:
        try:
            agent = agent_of(request.path_params.get("agent"), request.headers.get("x-prx-agent"))
        except InvalidInput as error:
            raise _Refusal(400, str(error)) from None
        body = await _body(request)
        coding = request.headers.get("content-encoding", "").strip().lower()
        return await asyncio.to_thread(self._take, body, coding, kind, agent)

    def _take(self, body: bytes, coding: str, kind: str, agent: str) -> Taken:
        plain = _unpacked(body, coding)
        with self._turn:
            try:
                spans = from_protobuf(plain) if kind == _PROTOBUF else from_json(plain)
            except MissingDecoder as error:
                raise _Refusal(415, str(error)) from None
            except Malformed as error:
                raise _Refusal(400, str(error)) from None
            taken = self._intake.take(spans, agent=agent, now=self._recorder.now())
            if spans and taken.rejected == len(spans):
                raise _Refusal(400, f"none of the {len(spans)} spans can be taken: {taken.why}")
            self._keep(taken.records)
        return taken

    def _keep(self, records: Sequence[Record]) -> None:
        """Bring the records to the spool; what the spool has no room for is sent again by its exporter."""
        spool = self._recorder.spool
        gaps = spool.counts.gaps
        try:
            # In slices: requests that are served share the spool's lock.
            for first in range(0, len(records), _SLICE):
                spool.append(records[first : first + _SLICE])
        except (EvolutionError, OSError) as error:
            raise _Refusal(503, "it could not be kept; send it again later", 30) from error
        if spool.counts.gaps > gaps:
            raise _Refusal(503, "the spool has no room; send it again later", 30)


async def _body(request: Request) -> bytes:
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > LARGEST_BODY:
        raise _Refusal(413, f"a request has at most {LARGEST_BODY} bytes; send smaller batches")
    pieces, size = [], 0
    async for piece in request.stream():
        pieces.append(piece)
        size += len(piece)
        if size > LARGEST_BODY:
            raise _Refusal(413, f"a request has at most {LARGEST_BODY} bytes; send smaller batches")
    return b"".join(pieces)


def _unpacked(body: bytes, coding: str) -> bytes:
    if coding in ("", "identity"):
        return body
    if coding not in ("gzip", "x-gzip", "deflate"):
        raise _Refusal(415, "the content encoding is not known; send gzip or none")
    unpack = zlib.decompressobj(_GZIP)
    try:
        plain = unpack.decompress(body, LARGEST_UNPACKED + 1)
    except zlib.error:
        raise _Refusal(400, "the compressed body is damaged") from None
    if len(plain) > LARGEST_UNPACKED:
        raise _Refusal(413, f"unpacked, a request has at most {LARGEST_UNPACKED} bytes")
    if not unpack.eof:
        raise _Refusal(400, "the compressed body ends too early")
    return plain


def _done(taken: Taken, kind: str) -> bytes:
    """An `ExportTraceServiceResponse`; it speaks of partial success only when something was rejected."""
    if kind == _PROTOBUF:
        if not taken.rejected:
            return b""
        partial = b"\x08" + _varint(taken.rejected) + _field(b"\x12", taken.why)
        return b"\x0a" + _varint(len(partial)) + partial
    answer: dict[str, Any] = {}
    if taken.rejected:
        # 64-bit numbers are text in the JSON of protobuf.
        answer["partialSuccess"] = {"rejectedSpans": str(taken.rejected), "errorMessage": taken.why}
    return msgspec.json.encode(answer)


def _status(message: str, kind: str) -> bytes:
    """A `google.rpc.Status`, as OTLP wants errors."""
    return _field(b"\x12", message) if kind == _PROTOBUF else msgspec.json.encode({"message": message})


def _shape(kind: str) -> str:
    return _PROTOBUF if kind == _PROTOBUF else _JSON


def _field(tag: bytes, text: str) -> bytes:
    body = text.encode("utf-8", "replace")
    return tag + _varint(len(body)) + body


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])
