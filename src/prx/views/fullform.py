"""Records as plain values with every field present, for JSON answers."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import Any

import msgspec

from prx.domain.layers import Layer
from prx.domain.times import show_time


def full(value: Any) -> Any:
    """Dicts, lists, texts and numbers; a field that holds nothing is null, times are ISO 8601 in UTC."""
    if isinstance(value, msgspec.Struct):
        return {name: full(getattr(value, name)) for name in value.__struct_fields__}
    if is_dataclass(value) and not isinstance(value, type):
        return {part.name: full(getattr(value, part.name)) for part in fields(value)}
    if isinstance(value, Layer):
        return value.value
    if isinstance(value, datetime):
        return show_time(value)
    if isinstance(value, Mapping):
        return {str(name): full(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [full(inner) for inner in value]
    return msgspec.to_builtins(value)
