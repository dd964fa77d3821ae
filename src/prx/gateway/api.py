"""The gateway's own endpoints: feedback, end of a session, health and metrics."""

import contextlib
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from prx.domain.errors import EvolutionError, InvalidInput
from prx.domain.records import DEFAULT_AGENT, Feedback, FeedbackName, SessionEnd
from prx.gateway.metrics import Metrics
from prx.gateway.recorder import Recorder
from prx.gateway.replies import api_error
from prx.gateway.rules import GatewayRules
from prx.gateway.tokens import Scope, bearer
from prx.gateway.told import feedback_value
from prx.gateway.traces import PATH as TRACES
from prx.gateway.traces import Traces
from prx.spool.folder import usage

_LARGEST = 65_536
_LONGEST = 512
_TARGETS = {"session": "session", "record": "interaction", "ref": "ref"}
_NAMES = ", ".join(name.value for name in FeedbackName)


class ApiError(Exception):
    """A request of our own API that cannot be done."""

    def __init__(
        self, status: int, code: str, message: str, details: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.details = status, code, dict(details or {})


class GivenFeedback(msgspec.Struct, forbid_unknown_fields=True):
    """The body of `POST /api/v1/feedback`."""

    name: str
    value: float | bool | str
    session: str | None = None
    record: str | None = None
    ref: str | None = None
    id: str | None = None
    at: datetime | None = None
    source: str = "api"
    agent: str = DEFAULT_AGENT


class Api:
    """Handlers over one recorder. `ready`: whether new requests are welcome."""

    def __init__(
        self, rules: GatewayRules, recorder: Recorder, metrics: Metrics, under_way: Callable[[], int]
    ) -> None:
        self._rules, self._recorder, self._metrics = rules, recorder, metrics
        self._under_way = under_way
        self._traces = Traces(recorder, metrics)
        self.ready = True

    def application(self) -> Starlette:
        """The routes, as an ASGI application."""
        routes = [
            Route("/api/v1/feedback", self._guarded(self.feedback), methods=["POST"]),
            Route(
                "/api/v1/sessions/{session_id:path}/end", self._guarded(self.end_session), methods=["POST"]
            ),
            Route(TRACES, self._guarded(self._traces.answer), methods=["POST"]),
            Route(f"/a/{{agent}}{TRACES}", self._guarded(self._traces.answer), methods=["POST"]),
            Route("/livez", self.livez),
            Route("/readyz", self.readyz),
            Route("/health", self.health),
            Route("/metrics", self.metrics),
            Route("/{rest:path}", self.unknown, methods=["GET", "POST", "PUT", "DELETE", "PATCH"]),
        ]
        return Starlette(routes=routes)

    async def feedback(self, request: Request) -> Response:
        """Take one signal; the same id twice changes nothing."""
        given = _decoded(await _body(request))
        targets = [(kind, told) for name, kind in _TARGETS.items() if (told := getattr(given, name))]
        if len(targets) != 1:
            raise ApiError(422, "invalid_target", "feedback names exactly one of session, record and ref")
        for field in ("name", "id", "source", "agent"):
            text = getattr(given, field)
            if text is not None and not 0 < len(text) <= _LONGEST:
                raise ApiError(
                    422, "invalid_field", f"{field} has 1 to {_LONGEST} characters", {"field": field}
                )
        try:
            value = feedback_value(given.name, given.value)
        except InvalidInput as error:
            raise ApiError(422, "invalid_value", str(error), {"known_names": _NAMES}) from None
        at = given.at or self._recorder.now()
        if at.tzinfo is None:
            raise ApiError(
                422, "invalid_field", "at needs a time zone, such as a Z at its end", {"field": "at"}
            )
        kind, target = targets[0]
        given_id = given.id or self._recorder.runtime.new_id()
        record = Feedback(
            # Under a prefix, so that no caller can take the id of another record.
            record_id=f"feedback/{given_id}",
            at=at,
            target_kind=kind,
            target=target[:_LONGEST],
            name=given.name,
            value=value,
            source=given.source,
            agent=given.agent,
        )
        self._keep(record)
        return _json({"id": given_id, "accepted": True}, 202)

    async def end_session(self, request: Request) -> Response:
        """The conversation is over; telling it twice changes nothing."""
        session_id = request.path_params["session_id"]
        agent = request.query_params.get("agent", DEFAULT_AGENT)
        if not 0 < len(session_id) <= _LONGEST:
            raise ApiError(422, "invalid_field", f"a session id has 1 to {_LONGEST} characters")
        self._recorder.sessions.forget(agent, session_id)
        record_id = f"end/{session_id}"
        self._keep(SessionEnd(record_id=record_id, at=self._recorder.now(), session_id=session_id))
        return _json({"session": session_id, "ended": True}, 202)

    async def livez(self, _request: Request) -> Response:
        """The process answers."""
        return _json({"status": "ok"})

    async def readyz(self, _request: Request) -> Response:
        """New requests are welcome; a store that is down does not change that."""
        return _json({"status": "ok"}) if self.ready else _json({"status": "stopping"}, 503)

    async def health(self, _request: Request) -> Response:
        """What works and what does not, for people."""
        recorder = self._recorder
        held = usage(recorder.spool_folder)
        faults = recorder.runtime.faults.counts
        counts = recorder.spool.counts
        problems = []
        if recorder.poller.failures:
            problems.append("ledger: cannot be read, the last known is served")
        if counts.gaps:
            problems.append("spool: records were not kept")
        if recorder.journal.unkept:
            problems.append("journal: requests ran without a slot")
        problems += [f"{place}: failed {n} times" for place, n in faults.items()]
        return _json(
            {
                "status": "stopping" if not self.ready else "degraded" if problems else "ok",
                "problems": problems,
                "under_way": self._under_way(),
                "killed": recorder.switch.on,
                "spool": {"waiting_bytes": held.waiting, "oldest_waiting": held.oldest_waiting},
                "recovered": recorder.recovered,
            }
        )

    async def metrics(self, request: Request) -> Response:
        """For Prometheus; needs scope read where tokens are configured."""
        refused = self._refusal(request, Scope.READ)
        if refused is not None:
            return refused
        recorder = self._recorder
        counts = recorder.spool.counts
        gauges = {
            "prx_gateway_in_flight": float(self._under_way()),
            "prx_gateway_sessions": float(len(recorder.sessions)),
            "prx_gateway_killed": float(recorder.switch.on),
            "prx_spool_waiting_bytes": float(usage(recorder.spool_folder).waiting),
        }
        counters = {
            "prx_spool_records_total": float(counts.written),
            "prx_spool_shed_total": float(counts.shed),
            "prx_spool_gaps_total": float(counts.gaps),
            "prx_ledger_read_failures_total": float(recorder.poller.failures),
            "prx_gateway_faults_total": float(sum(recorder.runtime.faults.counts.values())),
            "prx_gateway_recovered_total": float(recorder.recovered),
        }
        text = self._metrics.text(recorder.ended, gauges, counters)
        return Response(text, media_type="text/plain; version=0.0.4")

    async def unknown(self, request: Request) -> Response:
        """No such endpoint."""
        return Response(
            api_error("not_found", f"there is no {request.method} {request.url.path}"),
            404,
            media_type="application/json",
        )

    def _guarded(self, handler: Callable[[Request], Any]) -> Callable[[Request], Any]:
        async def run(request: Request) -> Response:
            refused = self._refusal(request, Scope.INGEST)
            if refused is not None:
                return refused
            with contextlib.suppress(ClientDisconnect):
                try:
                    answer: Response = await handler(request)
                    return answer
                except ApiError as error:
                    return _refused(error)
            return Response(status_code=400)

        return run

    def _refusal(self, request: Request, scope: Scope) -> Response | None:
        tokens = self._rules.tokens
        if not tokens:
            return None
        shown = bearer(request.headers.get("authorization"))
        if tokens.allows(shown, scope):
            return None
        known = tokens.find(shown) is not None
        status, code = (403, "forbidden") if known else (401, "unauthorized")
        return _refused(
            ApiError(status, code, f"this needs a token with scope {scope.value} in Authorization: Bearer")
        )

    def _keep(self, record: Feedback | SessionEnd) -> None:
        try:
            self._recorder.spool.append((record,))
        except (EvolutionError, OSError) as error:
            raise ApiError(503, "spool_full", "it could not be kept; send it again later") from error


async def _body(request: Request) -> bytes:
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > _LARGEST:
            raise ApiError(413, "too_large", f"a body has at most {_LARGEST} bytes")
    return body


def _decoded(body: bytes) -> GivenFeedback:
    try:
        return msgspec.json.decode(body, type=GivenFeedback)
    except msgspec.ValidationError as error:
        raise ApiError(422, "invalid_field", str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ApiError(400, "invalid_json", "the body is not a JSON object") from None


def _bad_field(field: str, message: str) -> ApiError:
    return ApiError(422, "invalid_field", message, {"field": field})


def _refused(error: ApiError) -> Response:
    body = api_error(error.code, str(error), error.details)
    return Response(body, error.status, media_type="application/json")


def _json(value: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")
