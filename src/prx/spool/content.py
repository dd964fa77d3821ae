"""What of a record may reach the disk: credentials never, bodies as the operator said."""

import hashlib
import math
from enum import StrEnum
from typing import Any

import msgspec

from prx.domain.codec import encode, plain
from prx.domain.records import Feedback, Interaction, PromptSeen, Record
from prx.spool.redact import CREDENTIALS, PERSONAL, Rule, may_hold_credentials, redact

# Keys by which records are joined: changing one would tear a session apart.
_IDENTIFIERS = frozenset(
    {"record_id", "session_id", "experiment_id", "at", "type", "user", "unit", "unit_source", "agent", "env"}
    | {"tenant", "ref", "variant", "assigned", "served", "terminal", "target", "target_kind", "version"}
)


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
    if isinstance(record, PromptSeen):
        return None if redact(record.text) != record.text else _encode(record)
    body = _encode(record)
    rules = CREDENTIALS + PERSONAL if content is Content.REDACTED else CREDENTIALS
    if content is Content.FULL and not may_hold_credentials(body.decode()):
        return body
    fields: dict[str, Any] = msgspec.json.decode(body)
    return encode(
        {
            key: _identifier(value) if key in _IDENTIFIERS else _redacted(value, rules)
            for key, value in fields.items()
        }
    )


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
    return record


def _encode(record: Record) -> bytes:
    try:
        return encode(record)
    except (UnicodeEncodeError, TypeError, ValueError, OverflowError, RecursionError):
        return encode(_encodable(plain(_plain_extra(record)), depth=0))


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


def _redacted(value: Any, rules: tuple[Rule, ...]) -> Any:
    if isinstance(value, str):
        return redact(value, rules)
    if isinstance(value, list):
        return [_redacted(item, rules) for item in value]
    if isinstance(value, dict):
        return {redact(key, rules): _redacted(item, rules) for key, item in value.items()}
    return value


def _identifier(value: Any) -> Any:
    """A key kept as it is, or its digest when it holds a credential: equal keys stay equal."""
    if not isinstance(value, str) or redact(value) == value:
        return value
    return f"redacted-{hashlib.blake2b(value.encode(), digest_size=16).hexdigest()}"
