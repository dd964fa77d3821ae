"""The description of the gateway's own endpoints, served at `/api/v1/openapi.json`."""

from importlib.metadata import version
from typing import Any

from prx.domain.records import FeedbackName
from prx.gateway.identity import AGENT_PATTERN
from prx.gateway.told import LONGEST_TEXT, LONGEST_VALUE

PATH = "/api/v1/openapi.json"
_JSON = "application/json"
_PASSED = ("chat/completions", "responses", "embeddings")


def openapi(*, guarded: bool) -> dict[str, Any]:
    """The document. `guarded`: whether tokens are configured, so that endpoints need one."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "PRX Evolution gateway",
            "version": version("prx-evolution"),
            "description": "Beside what is described here, every path goes to the provider as it is.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": _paths(guarded),
        "components": {
            "schemas": _SCHEMAS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _paths(guarded: bool) -> dict[str, Any]:
    needs: list[dict[str, list[str]]] = [{"token": []}] if guarded else []
    return {
        "/api/v1/feedback": {
            "post": {
                "operationId": "giveFeedback",
                "summary": "Say how a session, an answer or something of your own went.",
                "description": "Scope ingest. The same id twice changes nothing; of several values under one "
                "name the latest wins, and all are kept. A target that is not known yet may come later.",
                "security": needs,
                "requestBody": {"required": True, "content": _content("Feedback")},
                "responses": _answers(202, "Accepted", (400, 413, 422, 503), guarded),
            }
        },
        "/api/v1/sessions/{session_id}/end": {
            "post": {
                "operationId": "endSession",
                "summary": "Say that a conversation is over.",
                "description": "Scope ingest. Saying it twice changes nothing.",
                "security": needs,
                "parameters": [
                    {
                        "name": "session_id",
                        "in": "path",
                        "required": True,
                        "schema": _NAMED,
                    },
                    {"name": "agent", "in": "query", "schema": _AGENT},
                ],
                "responses": _answers(202, "Ended", (422, 503), guarded),
            }
        },
        "/v1/traces": {"post": _traces(needs, guarded)},
        "/livez": {"get": _told("isAlive", "The process answers.", "Status", (200,))},
        "/readyz": {
            "get": _told("isReady", "New requests are welcome; 503 while stopping.", "Status", (200, 503))
        },
        "/health": {"get": _told("health", "What works and what does not, for people.", "Health", (200,))},
        "/metrics": {
            "get": {
                "operationId": "metrics",
                "summary": "For Prometheus. Scope read.",
                "security": needs,
                "responses": {
                    "200": {
                        "description": "The text format of Prometheus.",
                        "content": {"text/plain": {"schema": {"type": "string"}}},
                    },
                    **({str(code): _error() for code in (401, 403)} if guarded else {}),
                },
            }
        },
        PATH: {"get": _told("describe", "This document.", "Document", (200,))},
        **{
            f"/v1/{path}": {"post": _passed(path)} for path in ("chat/completions", "responses", "embeddings")
        },
    }


def _traces(needs: list[dict[str, list[str]]], guarded: bool) -> dict[str, Any]:
    spans = {"type": "object", "properties": {"resourceSpans": {"type": "array"}}}
    partial = {"type": "object", "properties": {"partialSuccess": {"type": "object"}}}
    status = {"schema": {"type": "object", "properties": {"message": {"type": "string"}}}}
    refused = {str(code): _described(code, status) for code in (400, 413, 415, 503)}
    return {
        "operationId": "exportTraces",
        "summary": "OTLP/HTTP: traces of OpenTelemetry, in JSON or protobuf.",
        "description": "Scope ingest. Only spans of model calls are recorded, each once.",
        "security": needs,
        "requestBody": {"required": True, "content": {_JSON: {"schema": spans}}},
        "responses": {
            "200": {"description": "Taken, but for what it says.", "content": {_JSON: {"schema": partial}}},
            **refused,
            **({str(code): _error() for code in (401, 403)} if guarded else {}),
        },
    }


def _described(code: int, content: dict[str, Any]) -> dict[str, Any]:
    what = "Come back later." if code == 503 else "No repetition mends this."
    return {"description": what, "content": {_JSON: content}}


def _passed(path: str) -> dict[str, Any]:
    """A request that goes to the provider; what it may hold is the provider's to say."""
    errors = {"schema": {"$ref": "#/components/schemas/ProviderError"}}
    return {
        "operationId": "pass_" + path.replace("/", "_"),
        "summary": "Passed to the provider and recorded, exactly once.",
        "requestBody": {"required": True, "content": {_JSON: {"schema": {"type": "object"}}}},
        "responses": {
            "200": {
                "description": "What the provider answered, byte for byte.",
                "content": {_JSON: {"schema": {"type": "object"}}, "text/event-stream": {}},
            },
            "4XX": {"description": "Refused here or by the provider.", "content": {_JSON: errors}},
            "502": {"description": "The provider could not be reached.", "content": {_JSON: errors}},
            "503": {"description": "The gateway is stopping.", "content": {_JSON: errors}},
            "504": {"description": "The provider did not answer in time.", "content": {_JSON: errors}},
        },
    }


def _content(schema: str) -> dict[str, Any]:
    return {_JSON: {"schema": {"$ref": f"#/components/schemas/{schema}"}}}


def _told(name: str, summary: str, schema: str, codes: tuple[int, ...]) -> dict[str, Any]:
    answers = {str(code): {"description": summary, "content": _content(schema)} for code in codes}
    return {"operationId": name, "summary": summary, "responses": answers}


def _error() -> dict[str, Any]:
    return {"description": "What is wrong, and what to do.", "content": _content("Error")}


def _answers(good: int, schema: str, bad: tuple[int, ...], guarded: bool) -> dict[str, Any]:
    codes = (*bad, 401, 403) if guarded else bad
    done = {str(good): {"description": "Kept.", "content": _content(schema)}}
    return done | {str(code): _error() for code in sorted(codes)}


def _text(longest: int = LONGEST_TEXT) -> dict[str, Any]:
    return {"type": "string", "minLength": 1, "maxLength": longest}


def _object(properties: dict[str, Any], *optional: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}


_STRING = {"type": "string"}
_NAMED = {"type": "string", "minLength": 1}
_AGENT = {"type": "string", "pattern": f"^{AGENT_PATTERN}$"}
_KNOWN = [name.value for name in FeedbackName]
_FEEDBACK = _object(
    {
        "name": _text() | {"description": f"Fitness reads {', '.join(_KNOWN)}; any other is kept and shown."},
        "value": {
            "description": "For the names that fitness reads, 0 to 1, or up, down, yes, no, true, false.",
            "anyOf": [{"type": "number"}, {"type": "boolean"}, _text(LONGEST_VALUE) | {"minLength": 0}],
        },
        "session": _or_null(_NAMED),
        "record": _or_null(_NAMED),
        "ref": _or_null(_NAMED | {"description": "What the app gave as X-PRX-Ref."}),
        "id": _or_null(_text()),
        "at": _or_null(
            {
                "type": "string",
                "format": "date-time",
                "description": "When it was given: from the year 2000 on, at most a day ahead.",
            }
        ),
        "source": _text() | {"default": "api"},
        "agent": _AGENT | {"default": "default"},
    },
    *("session", "record", "ref", "id", "at", "source", "agent"),
) | {
    "description": "Names exactly one of session, record and ref.",
    "oneOf": [{"required": [name], "properties": {name: _NAMED}} for name in ("session", "record", "ref")],
}
_SCHEMAS: dict[str, Any] = {
    "Feedback": _FEEDBACK,
    "Accepted": _object({"id": {"type": "string"}, "accepted": {"const": True}}),
    "Ended": _object({"session": {"type": "string"}, "ended": {"const": True}}),
    "Status": _object({"status": {"enum": ["ok", "stopping"]}}),
    "Health": _object(
        {
            "status": {"enum": ["ok", "degraded", "stopping"]},
            "problems": {"type": "array", "items": {"type": "string"}},
            "under_way": {"type": "integer", "minimum": 0},
            "killed": {"type": "boolean"},
            "spool": _object(
                {
                    "waiting_bytes": {"type": "integer", "minimum": 0},
                    "oldest_waiting": {"type": ["string", "null"]},
                    "lost_records": {"type": "integer", "minimum": 0},
                    "last_lost": {"type": ["string", "null"]},
                }
            ),
            "recovered": {"type": "integer", "minimum": 0},
        }
    ),
    "Document": {"type": "object", "required": ["openapi", "info", "paths"]},
    "Error": _object(
        {
            "error": _object(
                {"code": {"type": "string"}, "message": {"type": "string"}, "details": {"type": "object"}}
            )
        }
    ),
    "ProviderError": {
        "type": "object",
        "properties": {"error": {"type": "object", "required": ["message"]}},
        "required": ["error"],
    },
}
