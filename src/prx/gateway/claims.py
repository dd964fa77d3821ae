"""Whose a named conversation is: two callers that choose the same name have two conversations."""

from collections import OrderedDict
from collections.abc import Iterable
from hashlib import blake2b

from prx.domain.names import bounded
from prx.gateway.tokens import Token
from prx.gateway.wire import CLIENT_KEYS

_KEYS = frozenset(CLIENT_KEYS)


def caller_of(headers: Iterable[tuple[bytes, bytes]], token: Token | None) -> str:
    """Who asks: the name of our token where tokens are asked for, else the keys meant for the provider.

    Tokens of the same name are one caller, so that a token can be exchanged for a new one.
    """
    if token is not None:
        return f"token\0{token.name}"
    return "\0".join(["keys", *(value.decode("latin-1") for name, value in headers if name in _KEYS)])


class Claims:
    """The callers of named conversations, as digests; the least recently used are forgotten.

    A name belongs to the caller and tenant that used it first. Whoever else uses it gets a conversation of
    their own under `NAME~DIGEST`, the same on every gateway and after a restart.
    """

    def __init__(self, kept: int = 65_536) -> None:
        self._owners: OrderedDict[str, tuple[bytes, str | None]] = OrderedDict()
        self._kept = kept

    def place(self, named: str, caller: str, tenant: str | None) -> str:
        """The id under which this caller's conversation of that name is kept."""
        mine = (blake2b(caller.encode("utf-8", "surrogatepass"), digest_size=16).digest(), tenant)
        while not _same(self._owners.setdefault(named, mine), mine):
            self._owners.move_to_end(named)
            named = _apart(named, mine)
        self._owners.move_to_end(named)
        if len(self._owners) > self._kept:
            self._owners.popitem(last=False)
        return named

    def known(self, named: str, caller: str) -> str:
        """The conversation that this caller means by a name: its own where it has one, else that name's."""
        mine = (blake2b(caller.encode("utf-8", "surrogatepass"), digest_size=16).digest(), None)
        own = _apart(named, mine)
        return own if _same(self._owners.get(own, (b"", None)), mine) else named


def _same(owner: tuple[bytes, str | None], other: tuple[bytes, str | None]) -> bool:
    """A caller that does not repeat the tenant goes on in that of its first request."""
    return owner[0] == other[0] and (None in (owner[1], other[1]) or owner[1] == other[1])


def _apart(named: str, mine: tuple[bytes, str | None]) -> str:
    text = "\0".join((named, mine[1] or "")).encode("utf-8", "surrogatepass")
    return bounded(f"{named}~{blake2b(text, key=mine[0], digest_size=8).hexdigest()}")
