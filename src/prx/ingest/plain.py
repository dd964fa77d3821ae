"""Safe reading of values whose shape nobody promised: each function returns a usable value or nothing."""

import hashlib
import json
import math
from datetime import UTC, datetime, timedelta
from typing import Any

from prx.domain.errors import EvolutionError
from prx.domain.times import parse_time

MAX_TEXT = 50_000
MAX_NAME = 300
_MOST = 10**12
_CALLS = frozenset({"tool_call", "tool_use", "function_call"})  # kept as tool calls, not as text
_SECONDS = (631_152_000.0, 4_102_444_800.0)  # 1990 to 2100: outside it a number is no time of a log


class Misfit(EvolutionError):
    """One line or item does not have the shape that its dialect needs; it is counted, never fatal."""


def dict_at(value: Any, key: str) -> dict[str, Any]:
    """The object under `key`, or an empty one."""
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def list_at(value: Any, key: str) -> list[Any]:
    """The array under `key`, or an empty one."""
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, list) else []


def dicts_at(value: Any, key: str) -> list[dict[str, Any]]:
    """The objects in the array under `key`; anything else in it is left out."""
    return [item for item in list_at(value, key) if isinstance(item, dict)]


def clean(text: str, limit: int = MAX_TEXT) -> str:
    """`text` cut to `limit` characters (the cut is marked), characters that UTF-8 cannot hold replaced."""
    if len(text) > limit:
        text = f"{text[:limit]}... [{len(text) - limit} characters cut at import]"
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def name_of(value: Any) -> str | None:
    """A short text such as a name or an id, from text or a number; None for anything else or nothing."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        word = clean(str(value).strip(), MAX_NAME)
    except ValueError:
        return None
    return word or None


def text_of(value: Any) -> str:
    """Content flattened to text: text as it is, parts of a message joined, everything else as JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list) and value and all(_is_part(part) for part in value):
        return clean("\n".join(text for part in value if (text := _part_text(part))))
    return clean(json_text(value))


def json_text(value: Any) -> str:
    """Canonical JSON of any decoded value. Raises: Misfit when it is nested too deep."""
    try:
        return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
    except (RecursionError, ValueError, TypeError) as error:
        raise Misfit(f"a value cannot be written as JSON ({type(error).__name__})") from error


def digest(*parts: Any) -> str:
    """32 hex digits that stay the same for the same content."""
    joined = "\x1f".join(part if isinstance(part, str) else json_text(part) for part in parts)
    return hashlib.sha256(joined.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def number_of(value: Any) -> float | None:
    """A finite number at or above 0, from a number or its text; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= _MOST and math.isfinite(value) else None


def count_of(value: Any) -> int | None:
    """A whole number from 0 on; None for anything else."""
    number = number_of(value)
    return int(number) if number is not None and number == int(number) else None


def share_of(value: Any) -> float | None:
    """A value in 0..1, from a number, its text or a truth value; None for anything else."""
    if isinstance(value, bool):
        return float(value)
    number = number_of(value)
    return number if number is not None and number <= 1 else None


def time_of(value: Any) -> datetime | None:
    """A time from ISO 8601 text, or from seconds or milliseconds since 1970; None for anything else."""
    if isinstance(value, str):
        try:
            at = parse_time(value)
        except (EvolutionError, OverflowError):
            number = number_of(value)
            return None if number is None else time_of(number)
        return at if _SECONDS[0] <= at.timestamp() <= _SECONDS[1] else None
    seconds = number_of(value)
    if seconds is None:
        return None
    if seconds > _SECONDS[1]:
        seconds /= 1000
    if not _SECONDS[0] <= seconds <= _SECONDS[1]:
        return None
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)


def _is_part(part: Any) -> bool:
    return isinstance(part, str) or (isinstance(part, dict) and isinstance(part.get("type"), str))


def _part_text(part: Any) -> str:
    if isinstance(part, str):
        return part
    for key in ("text", "content", "response", "refusal"):
        if isinstance(part.get(key), str):
            return str(part[key])
    return "" if part["type"] in _CALLS else f"[{part['type']}]"
