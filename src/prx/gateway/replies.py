"""The gateway's own answers: errors as OpenAI clients read them, and as our own API gives them."""

import json
from collections.abc import Mapping
from typing import Any

from prx.gateway.wire import Send

_TYPES = {400: "invalid_request_error", 401: "authentication_error", 403: "permission_error"}
_TYPES |= {404: "not_found_error", 413: "invalid_request_error", 429: "rate_limit_error"}


class ApiError(Exception):
    """A request of our own API that cannot be done."""

    def __init__(
        self, status: int, code: str, message: str, details: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.details = status, code, dict(details or {})


def openai_error(status: int, message: str, code: str | None = None) -> bytes:
    """An error body in the shape that OpenAI clients expect."""
    kind = _TYPES.get(status, "api_error" if status >= 500 else "invalid_request_error")
    return _json({"error": {"message": message, "type": kind, "param": None, "code": code}})


def api_error(code: str, message: str, details: dict[str, Any] | None = None) -> bytes:
    """The error envelope of our own API."""
    return _json({"error": {"code": code, "message": message, "details": details or {}}})


def error_line(message: str, code: str) -> bytes:
    """An error inside a stream that has begun: OpenAI clients raise it."""
    return b"data: " + openai_error(502, message, code) + b"\n\n"


async def send_json(
    send: Send, status: int, body: bytes, headers: tuple[tuple[bytes, bytes], ...] = ()
) -> None:
    """Send a whole JSON answer."""
    own = ((b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": [*own, *headers]})
    await send({"type": "http.response.body", "body": body})


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=True).encode()
