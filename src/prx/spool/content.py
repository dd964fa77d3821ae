"""What of a record may reach the disk: credentials never, bodies as the operator said."""

import hashlib
import math
from enum import StrEnum
from functools import lru_cache
from typing import Any

import msgspec

from prx.domain.codec import decode, encode, plain
from prx.domain.records import Feedback, Interaction, MemoryWritten, PromptSeen, RecallLogged, Record
from prx.spool.redact import CREDENTIALS, PERSONAL, redact, suspicious

# Keys by which records are joined: changing one would tear a session apart.
_IDENTIFIERS = frozenset(
    {"record_id", "session_id", "experiment_id", "at", "type", "user", "unit", "unit_source", "agent", "env"}
    | {"tenant", "ref", "variant", "assigned", "served", "terminal", "target", "target_kind", "version"}
    | {"memory_id", "state", "valid_from", "valid_to"}
)
_REMEMBERED = 16_384  # characters; longer texts are read again each time


class Content(StrEnum):
    """`full`: text without credentials; `redacted`: without personal data too; `none`: no text."""

    FULL = "full"
    REDACTED = "redacted"
    NONE = "none"


def payload(record: Record, content: Content) -> bytes | None:
    """Canonical JSON of what may be stored of the record.

    None for a prompt default that holds a credential: with the credential cut out, another text than the
    app's own would be managed and served.
    """
    if content is Content.NONE:
        record = envelope(record)
    personal = content is Content.REDACTED
    if not personal:
        body = _encoded(record)
        # Most records hold nothing that even resembles a credential: one pass over the bytes tells.
        if body is not None and not suspicious(body):
            return body
    if isinstance(record, PromptSeen):
        if _clean(record.text, False) != record.text:
            return None
        personal = False
    cleaned = {
        key: _identifier(value) if key in _IDENTIFIERS else _redacted(value, personal)
        for key, value in _fields(record).items()
    }
    try:
        return encode(cleaned)
    except (UnicodeEncodeError, TypeError, ValueError, OverflowError, RecursionError):
        return encode(_encodable(cleaned, depth=0))


def _encoded(record: Record) -> bytes | None:
    try:
        return encode(record)
    except (UnicodeEncodeError, TypeError, ValueError, OverflowError, RecursionError):
        return None


def stored_form(record: Record, content: Content) -> Record | None:
    """The record as `payload` lets it reach the disk, for a way in that does not go through the spool."""
    body = payload(record, content)
    return None if body is None else decode(body, Record)  # type: ignore[arg-type]


def envelope(record: Record) -> Record:
    """The record without bodies: who, when, which model, how it ended, counts and times stay."""
    if isinstance(record, Interaction):
        return msgspec.structs.replace(
            record,
            messages=tuple(msgspec.structs.replace(m, content="") for m in record.messages),
            response=None,
            tool_calls=tuple(
                msgspec.structs.replace(c, arguments=None, result=None) for c in record.tool_calls
            ),
            error=record.error.split(":", 1)[0] if record.error else record.error,
            prompt_values={},
            extra={key: value for key, value in record.extra.items() if isinstance(value, int | float)},
        )
    if isinstance(record, Feedback) and isinstance(record.value, str):
        return msgspec.structs.replace(record, value="[not recorded]")
    if isinstance(record, MemoryWritten):
        return msgspec.structs.replace(record, text="", subject=None)
    if isinstance(record, RecallLogged):
        return msgspec.structs.replace(record, query="")
    return record


def _fields(record: Record) -> dict[str, Any]:
    """The record as JSON will hold it."""
    fields: dict[str, Any]
    try:
        fields = plain(record)
    except (TypeError, ValueError, OverflowError, RecursionError):
        fields = plain(_plain_extra(record))
    return fields


def _plain_extra(record: Record) -> Record:
    if isinstance(record, Interaction):
        return msgspec.structs.replace(record, extra=_encodable(record.extra, depth=0))
    return record


def _encodable(value: Any, depth: int) -> Any:
    """The value as JSON can hold it; what an app hands over must never cost a record."""
    if depth > 50:
        return "[too deep]"
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_encodable(str(k), depth + 1): _encodable(v, depth + 1) for k, v in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_encodable(item, depth + 1) for item in value]
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**63 else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return _encodable(str(value), depth + 1)


def _redacted(value: Any, personal: bool) -> Any:
    if isinstance(value, str):
        # The same system prompt and history come with every call of a conversation.
        return _clean(value, personal) if len(value) <= _REMEMBERED else _clean.__wrapped__(value, personal)
    if isinstance(value, list | tuple):
        return [_redacted(item, personal) for item in value]
    if isinstance(value, dict):
        return {_redacted(key, personal): _redacted(item, personal) for key, item in value.items()}
    return value


@lru_cache(maxsize=1024)
def _clean(text: str, personal: bool) -> str:
    return redact(text, CREDENTIALS + PERSONAL if personal else CREDENTIALS)


def _identifier(value: Any) -> Any:
    """A key kept as it is, or its digest when it holds a credential: equal keys stay equal."""
    if not isinstance(value, str) or _clean(value, False) == value:
        return value
    digest = hashlib.blake2b(value.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return f"redacted-{digest}"
