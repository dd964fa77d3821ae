"""The gateway's own endpoints: feedback, end of a session, health and metrics."""

import contextlib
from collections.abc import Callable
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from prx.domain.errors import EvolutionError, InvalidInput
from prx.domain.names import bounded
from prx.domain.records import DEFAULT_AGENT, Feedback, SessionEnd
from prx.gateway.claims import caller_of
from prx.gateway.identity import agent_of
from prx.gateway.metrics import Metrics
from prx.gateway.openapi import PATH as OPENAPI
from prx.gateway.openapi import openapi
from prx.gateway.recorder import Recorder
from prx.gateway.replies import ApiError, api_error
from prx.gateway.rules import GatewayRules
from prx.gateway.tokens import Scope, bearer
from prx.gateway.told import feedback_of
from prx.gateway.traces import PATH as TRACES
from prx.gateway.traces import Traces
from prx.gateway.vitals import counters, gauges, problems, spool_health

_LARGEST = 65_536


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
            Route(OPENAPI, self.openapi),
        ]
        own = Starlette(routes=routes, exception_handlers={HTTPException: _no_route, Exception: _failed})
        # A redirect would name the host that the client claims we are.
        own.router.redirect_slashes = False
        return own

    async def feedback(self, request: Request) -> Response:
        """Take one signal; the same id twice changes nothing."""
        body = await _body(request)
        now, new_id = self._recorder.now(), self._recorder.runtime.new_id
        given_id, record = feedback_of(body, now=now, new_id=new_id)
        if record.target_kind == "session":
            record = msgspec.structs.replace(record, target=self._meant(request, record.target))
        self._keep(record)
        return _json({"id": given_id, "accepted": True}, 202)

    async def end_session(self, request: Request) -> Response:
        """The conversation is over; telling it twice changes nothing."""
        given = request.path_params["session_id"]
        if not given:
            raise ApiError(422, "invalid_field", "a session id has at least one character")
        try:
            agent = agent_of(None, request.query_params.get("agent", DEFAULT_AGENT) or "-")
        except InvalidInput as error:
            raise ApiError(422, "invalid_field", str(error), {"field": "agent"}) from None
        # As the gateway keeps what a client named in a header.
        session_id = self._meant(request, bounded(given))
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
        found = problems(recorder)
        if self._rules.tokens.problem:
            found = [*found, "tokens: the file cannot be read, the last ones are in force"]
        return _json(
            {
                "status": "stopping" if not self.ready else "degraded" if found else "ok",
                "problems": found,
                "under_way": self._under_way(),
                "killed": recorder.killed,
                "spool": spool_health(recorder),
                "recovered": recorder.recovered,
            }
        )

    async def metrics(self, request: Request) -> Response:
        """For Prometheus; needs scope read where tokens are configured."""
        refused = self._refusal(request, Scope.READ)
        if refused is not None:
            return refused
        recorder = self._recorder
        now = gauges(recorder, self._under_way(), recorder.now())
        now["prx_gateway_loop_lag_seconds"] = self._metrics.take_lag()
        text = self._metrics.text(recorder.ended, now, counters(recorder))
        return Response(text, media_type="text/plain; version=0.0.4")

    async def openapi(self, _request: Request) -> Response:
        """What these endpoints take and give, for tools."""
        return _json(openapi(guarded=bool(self._rules.tokens)))

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

    def _meant(self, request: Request, session_id: str) -> str:
        """The conversation that a token means by a name: its own where another client uses the same name."""
        token = self._rules.tokens.find(bearer(request.headers.get("authorization")))
        claims = self._recorder.sessions.claims
        return session_id if token is None else claims.known(session_id, caller_of((), token))

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


async def _no_route(request: Request, error: Exception) -> Response:
    """No such endpoint, or not by this method."""
    status = getattr(error, "status_code", 404)
    code = "method_not_allowed" if status == 405 else "not_found"
    refused = _refused(ApiError(status, code, f"there is no {request.method} {request.url.path}"))
    refused.headers.update(getattr(error, "headers", None) or {})
    return refused


async def _failed(_request: Request, _error: Exception) -> Response:
    return _refused(ApiError(500, "internal", "the gateway failed at this; its log says more"))


def _refused(error: ApiError) -> Response:
    body = api_error(error.code, str(error), error.details)
    return Response(body, error.status, media_type="application/json")


def _json(value: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")
