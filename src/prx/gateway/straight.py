"""A request to the provider over a connection of aiohttp's pool, without what a client for everything does.

aiohttp makes, keeps and times the connections and parses what comes. Head and body go out in one write, as
the bytes that they are, and no task is made for them.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import aiohttp
from aiohttp import StreamReader
from aiohttp.client_reqrep import ClientRequest
from aiohttp.connector import Connection
from aiohttp.http import HttpProcessingError
from multidict import CIMultiDictProxy
from yarl import URL

from prx.gateway.wire import Headers

_LONGEST_LINE = 65_536
_BUFFER = 262_144


class Answer:
    """The head of an answer, and its body as it comes. The connection goes back when the body has ended."""

    __slots__ = ("_connection", "content", "headers", "raw_headers", "status")

    def __init__(self, message: Any, content: StreamReader, connection: Connection) -> None:
        self.status: int = message.code
        self.headers: CIMultiDictProxy[str] = message.headers
        self.raw_headers: tuple[tuple[bytes, bytes], ...] = message.raw_headers
        self.content = content
        self._connection: Connection | None = connection
        content.on_eof(self._over)

    @property
    def content_length(self) -> int | None:
        """Bytes of the body as announced; None when they are not."""
        told = self.headers.get("Content-Length", "")
        return int(told) if told.isdecimal() else None

    async def read(self) -> bytes:
        """The whole body. Raises: aiohttp.ClientError, TimeoutError when it breaks off."""
        try:
            return await self.content.read()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection of an answer that was not read to its end."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _over(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.release()


Answered = Answer | aiohttp.ClientResponse


class _Place(NamedTuple):
    """Whom to connect to, as the pool asks for it, and the first lines of a request there."""

    request: ClientRequest
    head: bytes


class Straight:
    """Posts bodies to providers."""

    def __init__(self, session: aiohttp.ClientSession, timeout: aiohttp.ClientTimeout) -> None:
        self._session, self._timeout = session, timeout
        self._place: Callable[[URL], _Place] = lru_cache(maxsize=256)(self._made)

    async def post(self, url: URL, headers: Headers, body: bytes) -> Answer:
        """The provider's answer, its body unread. Raises: aiohttp.ClientError, TimeoutError.

        `headers`: without host and length; no line end may stand in them.
        """
        place, connector = self._place(url), self._session.connector
        if connector is None:
            raise aiohttp.ClientConnectionError("the gateway is closed")
        lines = [name + b": " + value for name, value in headers]
        head = b"%bcontent-length: %d\r\n%b\r\n\r\n" % (place.head, len(body), b"\r\n".join(lines))
        try:
            connection = await connector.connect(place.request, traces=[], timeout=self._timeout)
        except TimeoutError as error:
            raise aiohttp.ConnectionTimeoutError(f"no connection to {url.host} in time") from error
        try:
            return await self._asked(connection, place.request, head + body)
        except BaseException:
            connection.close()
            raise

    async def _asked(self, connection: Connection, request: ClientRequest, sent: bytes) -> Answer:
        protocol = connection.protocol
        if protocol is None or protocol.transport is None:
            raise aiohttp.ServerDisconnectedError
        protocol.set_response_params(
            read_until_eof=True,
            auto_decompress=False,
            read_timeout=self._timeout.sock_read,
            read_bufsize=_BUFFER,
            # Header lines of providers are long; the defaults cut at 8 KiB.
            max_line_size=_LONGEST_LINE,
            max_field_size=_LONGEST_LINE,
        )
        protocol.transport.write(sent)
        protocol.start_timeout()
        while True:
            try:
                message, content = await protocol.read()
            except HttpProcessingError as error:
                raise aiohttp.ClientResponseError(
                    request.request_info, (), status=error.code, message=error.message, headers=error.headers
                ) from error
            # What comes before the answer, as `103 Early Hints`, is not for whoever asks through us.
            if message.code < 100 or message.code > 199 or message.code == 101:
                return Answer(message, content, connection)

    def _made(self, url: URL) -> _Place:
        request = ClientRequest("POST", url, loop=self._session._loop, session=self._session)
        start = f"POST {url.raw_path_qs} HTTP/1.1\r\nhost: {request.headers['Host']}\r\n"
        return _Place(request, start.encode("latin-1"))
