"""ASGI in types, and what of the headers of HTTP passes from one connection to the other."""

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from functools import lru_cache
from typing import Any

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

# RFC 9110 section 7.6.1, and the older names that clients still send.
_HOP = frozenset(
    {b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection"}
    | {b"te", b"trailer", b"transfer-encoding", b"upgrade"}
)
_NOT_SENT_ON = _HOP | {b"host", b"content-length", b"cookie", b"expect", b"accept-encoding"}
# What a provider says about its own origin, which is not ours; cookies do not go back to it either.
_NOT_SENT_BACK = _HOP | {b"set-cookie", b"set-cookie2", b"clear-site-data", b"strict-transport-security"}
_NOT_SENT_BACK |= {b"alt-svc", b"nel", b"report-to", b"reporting-endpoints"}
_OWN = b"x-prx-"
# In the scope's state: closes the client's connection once what was sent is written.
CLOSE = "prx.close"
# By which providers know their clients.
CLIENT_KEYS = (b"authorization", b"x-api-key", b"api-key", b"x-goog-api-key")
_KEYS = frozenset((*CLIENT_KEYS, b"openai-organization", b"openai-project"))
_NONE: frozenset[bytes] = frozenset()
# What the record can read back; a client that wants another coding gets one of these or none.
_READABLE = (b"gzip", b"deflate")


def header(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> str | None:
    """The first value of a header as text; `name` in lower case."""
    for key, value in headers:
        if key == name:
            return value.decode("latin-1")
    return None


def sent_on(headers: Headers, *, streaming: bool, authorization: str | None) -> Headers:
    """Headers for the provider. Hop-by-hop ones, cookies and our own stay here.

    `authorization` None: the client's own key passes; else it takes its place, and "" sends none. A stream
    is asked for without compression, since its events are read as they pass.
    """
    dropped = _named_by_connection(headers)
    out: Headers = []
    coding = b"identity"
    for one in headers:
        name = one[0]
        if _passes(name):
            if name not in dropped:
                out.append(one)
        elif name == b"accept-encoding":
            coding = _coding(one[1])
    if authorization is not None:
        out = [one for one in out if one[0] not in _KEYS]
        if authorization:
            out.append((b"authorization", f"Bearer {authorization}".encode("latin-1")))
    out.append((b"accept-encoding", b"identity" if streaming else coding))
    return out


@lru_cache(maxsize=1024)
def _passes(name: bytes) -> bool:
    """Whether a request header passes."""
    return name not in _NOT_SENT_ON and not name.startswith(_OWN)


def sent_back(headers: Iterable[tuple[bytes, bytes]], *, length: bool) -> Headers:
    """Headers for the client; without `length` the body may differ from what the provider announced."""
    out: Headers = []
    hops: Headers = []
    for given, value in headers:
        name = _returning(given)
        if name is None:
            hops.append((given.lower(), value))
        elif length or name != b"content-length":
            out.append((name, value))
    dropped = _named_by_connection(hops)
    return [one for one in out if one[0] not in dropped] if dropped else out


@lru_cache(maxsize=1024)
def _returning(name: bytes) -> bytes | None:
    """The name of a response header in lower case; None where it does not pass."""
    name = name.lower()
    return None if name in _NOT_SENT_BACK or name.startswith(_OWN) else name


def _named_by_connection(headers: Iterable[tuple[bytes, bytes]]) -> frozenset[bytes]:
    named: frozenset[bytes] = _NONE
    for name, value in headers:
        if name == b"connection" and value not in (b"keep-alive", b"close"):
            named |= {word.strip().lower() for word in value.split(b",")}
    return named


@lru_cache(maxsize=256)
def _coding(value: bytes) -> bytes:
    offered = {word.split(b";")[0].strip() for word in value.lower().split(b",")}
    return b", ".join(name for name in _READABLE if name in offered) or b"identity"
