"""Sends an answer to a client: its head leaves with the first piece of its body, in one write."""

import re
from collections.abc import Iterable
from functools import lru_cache

from uvicorn._types import ASGISendEvent
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

_IN_NO_NAME = re.compile(rb"[\x00-\x1f\x7f()<>@,;:\[\]={} \t\\\"]")
_IN_NO_VALUE = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_BODILESS = frozenset({204, 304})


class Cycle(RequestResponseCycle):
    """Sends nothing of an answer before the first event of its body, which may be empty, as ASGI has it."""

    _held = b""

    async def send(self, message: ASGISendEvent) -> None:
        """Take one event of the answer. Raises: RuntimeError for one that does not fit."""
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        if not self.response_started:
            if message["type"] != "http.response.start":
                raise RuntimeError(f"expected http.response.start, not {message['type']!r}")
            self.response_started, self.waiting_for_100_continue = True, False
            self._held = self._head(message["status"], message.get("headers", ()))
            return
        if self.response_complete or message["type"] != "http.response.body":
            raise RuntimeError(f"expected the body of one answer, not {message['type']!r}")
        more = message.get("more_body", False)
        out = self._held + self._framed(message.get("body", b""), more)
        self._held = b""
        if out:
            self.transport.write(out)
        if not more:
            self._complete()

    def _head(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
        lines = [STATUS_LINE[status]]
        closes = False
        for name, value in (*self.default_headers, *headers):
            lower, start = _named(name)
            if lower == b"content-length" and self.chunked_encoding is None:
                self.expected_content_length, self.chunked_encoding = int(value), False
            elif lower == b"transfer-encoding" and value.lower() == b"chunked":
                self.expected_content_length, self.chunked_encoding = 0, True
            elif lower == b"connection" and b"close" in map(bytes.strip, value.lower().split(b",")):
                self.keep_alive, closes = False, True
            if _IN_NO_VALUE.search(value):
                raise RuntimeError("a header's value holds a control character")
            lines += (start, value, b"\r\n")
        if not self.keep_alive and not closes:
            lines.append(b"connection: close\r\n")
        if self.chunked_encoding is None and self.scope["method"] != "HEAD" and status not in _BODILESS:
            self.chunked_encoding = True
            lines.append(b"transfer-encoding: chunked\r\n")
        lines.append(b"\r\n")
        return b"".join(lines)

    def _framed(self, body: bytes, more: bool) -> bytes:
        if self.scope["method"] == "HEAD":
            self.expected_content_length = 0
            return b""
        if self.chunked_encoding:
            framed = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            return framed if more else framed + b"0\r\n\r\n"
        if len(body) > self.expected_content_length:
            raise RuntimeError("the answer is longer than its content-length")
        self.expected_content_length -= len(body)
        return body

    def _complete(self) -> None:
        if self.expected_content_length != 0:
            raise RuntimeError("the answer is shorter than its content-length")
        self.response_complete = True
        self.message_event.set()
        if not self.keep_alive:
            self.transport.close()
        self.on_response()


@lru_cache(maxsize=1024)
def _named(name: bytes) -> tuple[bytes, bytes]:
    """The name in lower case, and with what follows it. Raises: RuntimeError."""
    if _IN_NO_NAME.search(name):
        raise RuntimeError("a header's name holds a character that it may not")
    lower = name.lower()
    return lower, lower + b": "
