"""Who may call the gateway: tokens known by their digest only, each with scopes."""

import hashlib
import hmac
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from prx.domain.errors import SettingsError

_DIGEST = re.compile(r"(?:sha256:)?([0-9a-f]{64})")


class Scope(StrEnum):
    """What a token may do. `admin` may do everything."""

    PROXY = "proxy"
    INGEST = "ingest"
    READ = "read"
    APPROVE = "approve"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Token:
    """One token: a name for people, the SHA-256 of the token, and its scopes."""

    name: str
    digest: str
    scopes: frozenset[Scope]

    def may(self, scope: Scope) -> bool:
        """Whether it has the scope."""
        return scope in self.scopes or Scope.ADMIN in self.scopes


class Tokens:
    """The tokens of a gateway, looked up by digest; the digest is compared in constant time. `problem`: why
    those in force may not be those that the operator wants; empty when they are."""

    def __init__(self, tokens: Iterable[Token] = ()) -> None:
        self._by_digest = {token.digest: token for token in tokens}
        self.problem = ""

    def __bool__(self) -> bool:
        return bool(self._by_digest)

    def look(self) -> None:
        """Take in what changed since; nothing does here."""

    def _take(self, other: "Tokens") -> None:
        self._by_digest = other._by_digest

    def any_for(self, scope: Scope) -> bool:
        """Whether some token has this scope."""
        return any(token.may(scope) for token in self._by_digest.values())

    def find(self, presented: str | None) -> Token | None:
        """The token that was presented, or None."""
        if not presented:
            return None
        digest = hashlib.sha256(presented.encode("utf-8", "surrogatepass")).hexdigest()
        token = self._by_digest.get(digest)
        return token if token is not None and hmac.compare_digest(token.digest, digest) else None

    def allows(self, presented: str | None, scope: Scope) -> bool:
        """Whether the presented token has the scope."""
        token = self.find(presented)
        return token is not None and token.may(scope)


def bearer(authorization: str | None) -> str | None:
    """The token of an Authorization header; None when there is none."""
    kind, _, value = (authorization or "").partition(" ")
    return value.strip() or None if kind.lower() == "bearer" else None


def parse_tokens(text: str, source: str) -> Tokens:
    """Tokens from lines `NAME SCOPE[,SCOPE...] SHA256`; `#` starts a comment.

    Raises: SettingsError with file and line; the text of a line is not repeated, as it may hold a secret.
    """
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split("#", 1)[0].split()
        if not words:
            continue
        digest = _DIGEST.fullmatch(words[2].lower()) if len(words) == 3 else None
        if digest is None:
            raise SettingsError(
                f"{source}, line {number}: expected NAME SCOPES DIGEST, the digest being the SHA-256 of a "
                "token in hexadecimal (printf %s TOKEN | sha256sum), never the token itself"
            )
        try:
            scopes = frozenset(Scope(word) for word in words[1].split(","))
        except ValueError as error:
            known = ", ".join(scope.value for scope in Scope)
            raise SettingsError(f"{source}, line {number}: {error}; known scopes: {known}") from None
        if digest[1] == hashlib.sha256(b"").hexdigest():
            raise SettingsError(f"{source}, line {number}: this is the digest of an empty token")
        found.append(Token(words[0], digest[1], scopes))
    return Tokens(found)
