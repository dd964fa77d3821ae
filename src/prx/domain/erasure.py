"""What an erasure is asked to reach, and under which names it is remembered without naming anybody."""

from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b

from prx.domain.codec import encode
from prx.domain.errors import InvalidInput
from prx.domain.names import bounded, composed
from prx.domain.records import Feedback, MemoryWritten, PromptSeen, Record, SessionStart

USER, TENANT, SESSION, INTERACTION, REF = "user", "tenant", "session", "interaction", "ref"


@dataclass(frozen=True, slots=True)
class Subject:
    """Whose recorded texts go: a user (of every tenant, or of one), a whole tenant, or one session."""

    user: str | None = None
    tenant: str | None = None
    session: str | None = None

    @classmethod
    def of(cls, *, user: str | None, tenant: str | None, session: str | None) -> "Subject":
        """The subject that these name. Raises: InvalidInput for none, or for a session with others."""
        if session is not None and (user is not None or tenant is not None):
            raise InvalidInput("a session belongs to one user already; give --session alone")
        if session is None and user is None and tenant is None:
            raise InvalidInput("nothing was named; give --user U, --tenant T, both, or --session S")
        return cls(user, tenant, session)

    @property
    def key(self) -> "Key":
        """Under which it is remembered."""
        if self.session is not None:
            return Key(SESSION, (self.session,))
        if self.user is not None:
            return Key(USER, (self.user,) if self.tenant is None else (self.user, self.tenant))
        return Key(TENANT, (self.tenant or "",))

    @property
    def kind(self) -> str:
        """What it is, in a word."""
        return self.key.kind

    def owns(self, record: Record) -> bool:
        """Whether the record says by itself that it belongs to the subject."""
        if isinstance(record, SessionStart | MemoryWritten):
            return any(key == self.key for key in keys_of(record))
        named = getattr(record, "session_id", None)
        return self.session is not None and named is not None and Key(SESSION, (named,)) == self.key


@dataclass(frozen=True, slots=True)
class Key:
    """What a tombstone stands on: its kind, and the values that are stored as a digest only.

    Names that Unicode calls equal are equal, and a very long one is its digest, as the gateway keeps it.
    """

    kind: str
    values: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(bounded(composed(value)) for value in self.values))

    def digest(self, salt: str) -> str:
        """Keyed BLAKE2b, 16 bytes in hex: equal keys can be told, and nothing can be read from it."""
        return blake2b(encode([self.kind, *self.values]), key=salt.encode()[:64], digest_size=16).hexdigest()

    @property
    def lasting(self) -> bool:
        """Whether it also holds for what is recorded after the erasure. A user may come back, a session and
        a call do not."""
        return self.kind in (SESSION, INTERACTION)


@dataclass(frozen=True, slots=True)
class Removed:
    """What one erasure took from a record store."""

    sessions: int = 0
    records: int = 0
    scores: int = 0

    def __add__(self, other: "Removed") -> "Removed":
        return Removed(
            self.sessions + other.sessions, self.records + other.records, self.scores + other.scores
        )


@dataclass(frozen=True, slots=True)
class Erasure:
    """An erasure that a record store knows: its number, when it was asked for, and whether all of it was
    carried out; `digest` stands for its subject."""

    number: int
    digest: str
    at: datetime
    done: bool


def keys_of(record: Record) -> tuple[Key, ...]:
    """Every tombstone that would refuse the record."""
    if isinstance(record, PromptSeen):
        return ()
    if isinstance(record, Feedback):
        kinds = {SESSION: SESSION, INTERACTION: INTERACTION, REF: REF}
        kind = kinds.get(record.target_kind)
        return () if kind is None else (Key(kind, (record.target,)),)
    keys = [Key(SESSION, (record.session_id,))]
    if isinstance(record, SessionStart | MemoryWritten):
        if record.user is not None:
            keys.append(Key(USER, (record.user,)))
            if record.tenant is not None:
                keys.append(Key(USER, (record.user, record.tenant)))
        if record.tenant is not None:
            keys.append(Key(TENANT, (record.tenant,)))
    return tuple(keys)
