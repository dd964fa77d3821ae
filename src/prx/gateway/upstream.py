"""The connection to the provider: one host, from the operator's configuration alone."""

from functools import lru_cache

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from prx.domain.errors import InvalidInput
from prx.gateway.rules import GatewayRules
from prx.gateway.straight import Answered, Straight
from prx.gateway.wire import Headers

_PREFIX = b"/v1"
_SKIPPED = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")


class Upstream:
    """Sends requests to a provider. Redirects are not followed: they pass to the client as they are."""

    def __init__(self, rules: GatewayRules) -> None:
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=rules.connect_seconds, sock_read=rules.idle_seconds
        )
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=30.0),
            timeout=timeout,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            skip_auto_headers=_SKIPPED,
            # Header lines of providers are long; the defaults cut at 8 KiB.
            max_line_size=65_536,
            max_field_size=65_536,
        )

        self._straight = Straight(self._session, timeout)

    async def send(self, method: str, url: URL, headers: Headers, body: bytes) -> Answered:
        """The provider's answer, its body unread. Raises: aiohttp.ClientError, TimeoutError."""
        if method == "POST" and body and url.raw_user is None and url.raw_password is None:
            return await self._straight.post(url, headers, body)
        given = CIMultiDict((name.decode("latin-1"), value.decode("latin-1")) for name, value in headers)
        return await self._session.request(
            method,
            url,
            headers=given,
            data=body or None,
            allow_redirects=False,
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()


@lru_cache(maxsize=256)
def url_of(base: str, path: bytes, query: bytes) -> URL:
    """Where a path of ours is with the provider whose base URL is `base`."""
    base = base.rstrip("/")
    under = path == _PREFIX or path.startswith(_PREFIX + b"/")
    target = base + _ascii(path[len(_PREFIX) :]) if under else base.removesuffix("/v1") + _ascii(path)
    if query:
        target += "?" + _ascii(query)
    return URL(target, encoded=True)


def checked_path(path: bytes) -> bytes:
    """The path, if it stays below the provider's base. Raises: InvalidInput."""
    lowered = path.lower().replace(b"%2e", b".").replace(b"%2f", b"/").replace(b"%5c", b"/")
    if not path.startswith(b"/") or b".." in lowered.replace(b"\\", b"/").split(b"/") or b"//" in path[:2]:
        raise InvalidInput("this path leads outside of the provider's API; call a path below /v1")
    return path


def _ascii(text: bytes) -> str:
    return text.decode("latin-1")
