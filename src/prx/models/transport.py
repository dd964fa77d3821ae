"""One bounded HTTP POST: a deadline over the whole exchange, and a limit on the answer's size."""

import contextlib
import socket
import threading
import time
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection

from prx.domain.errors import ModelUnavailable

_SOCKETS: ContextVar[list[socket.socket] | None] = ContextVar("sockets", default=None)


@dataclass(frozen=True, slots=True)
class Answer:
    """Status, lower-case headers and the whole body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Transport(Protocol):
    """Sends one request."""

    def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """The answer, whatever its status. Raises: ModelUnavailable."""
        ...


@dataclass(frozen=True, slots=True)
class Http:
    """POST over urllib3; one connection per call, because a model call outlasts any handshake.

    `connect_s`: to open the connection. `deadline_s`: for the whole exchange, so that an answer which
    trickles in byte by byte ends too. `max_bytes`: largest body accepted.
    """

    connect_s: float = 10.0
    deadline_s: float = 120.0
    max_bytes: int = 4_000_000

    def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """The answer, whatever its status; redirects are not followed. Raises: ModelUnavailable."""
        sockets: list[socket.socket] = []
        token = _SOCKETS.set(sockets)
        cut = threading.Event()
        timer = threading.Timer(self.deadline_s, _cut_off, (sockets, cut))
        timer.daemon = True
        timer.start()
        try:
            return self._exchange(url, headers, body, cut)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise self._gone(url, error, cut) from error
        finally:
            timer.cancel()
            _SOCKETS.reset(token)

    def _exchange(self, url: str, headers: Mapping[str, str], body: bytes, cut: threading.Event) -> Answer:
        timeout = urllib3.Timeout(connect=min(self.connect_s, self.deadline_s), read=self.deadline_s)
        parsed = urllib3.util.parse_url(url)
        with urllib3.connection_from_url(url, timeout=timeout, maxsize=1) as pool:
            pool.ConnectionCls = _WatchedTls if parsed.scheme == "https" else _Watched
            response = pool.urlopen(
                "POST",
                parsed.request_uri,
                body=body,
                headers={**headers, "Accept-Encoding": "identity"},
                retries=False,
                redirect=False,
                preload_content=False,
                decode_content=False,
            )
            with contextlib.closing(response):
                data = response.read(self.max_bytes + 1, decode_content=False)
                found = {name.lower(): value for name, value in response.headers.items()}
                if len(data) > self.max_bytes:
                    raise ModelUnavailable(
                        f"{where(url)} answered with more than {self.max_bytes} bytes; "
                        "the answer was dropped, check that base_url is a model endpoint"
                    )
                if found.get("content-encoding", "identity").lower() != "identity":
                    raise ModelUnavailable(
                        f"{where(url)} sent a compressed answer although none was asked for; "
                        "turn compression off for this client at the endpoint"
                    )
                announced = found.get("content-length", "")
                if cut.is_set():
                    raise TimeoutError("deadline")
                if announced.isdigit() and len(data) < int(announced):
                    raise ModelUnavailable(
                        f"{where(url)} closed the connection after {len(data)} of {announced} bytes; "
                        "nothing was decided, it is tried again when the work is next due"
                    )
                return Answer(response.status, found, data)

    def _gone(self, url: str, error: Exception, cut: threading.Event) -> ModelUnavailable:
        slow = cut.is_set() or isinstance(error, TimeoutError | urllib3.exceptions.TimeoutError)
        if slow and not isinstance(error, urllib3.exceptions.NewConnectionError):
            return ModelUnavailable(
                f"{where(url)} did not finish its answer within {self.deadline_s:g} s (deadline); "
                "nothing was decided, it is tried again when the work is next due"
            )
        return ModelUnavailable(
            f"{where(url)} could not be reached ({type(error).__name__}); "
            "check base_url and that the endpoint is up"
        )


def where(url: str) -> str:
    """Scheme, host and port of `url`: enough to find the endpoint, never a credential."""
    parsed = urllib3.util.parse_url(url)
    port = f":{parsed.port}" if parsed.port else ""
    return f"{parsed.scheme}://{parsed.host}{port}"


def pause(seconds: float) -> None:
    """Wait between two attempts."""
    time.sleep(seconds)


class _Watched(HTTPConnection):
    def connect(self) -> None:
        super().connect()
        _remember(self.sock)


class _WatchedTls(HTTPSConnection):
    def connect(self) -> None:
        super().connect()
        _remember(self.sock)


def _remember(sock: socket.socket | None) -> None:
    watched = _SOCKETS.get()
    if watched is not None and sock is not None:
        watched.append(sock)


def _cut_off(sockets: list[socket.socket], cut: threading.Event) -> None:
    cut.set()
    for sock in sockets:
        # the plain socket's shutdown wakes a blocked reader, also under TLS
        with contextlib.suppress(OSError):
            socket.socket.shutdown(sock, socket.SHUT_RDWR)
