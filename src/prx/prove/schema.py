"""The part of JSON Schema that answers need; an unknown keyword is refused, never passed over."""

from collections.abc import Mapping
from typing import Any

from prx.domain.errors import InvalidInput

_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "null": (type(None),),
}
_IGNORED = frozenset({"title", "description", "$schema", "$id", "default", "examples"})
_KNOWN = frozenset(
    {
        "type",
        "enum",
        "const",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "minItems",
        "maxItems",
        "minLength",
        "maxLength",
        "minimum",
        "maximum",
        "anyOf",
    }
)


def fits(value: Any, schema: Any) -> bool:
    """Whether a parsed JSON value fits `schema`. Raises: InvalidInput for a schema that is not understood."""
    if isinstance(schema, bool):
        return schema
    if not isinstance(schema, Mapping):
        raise InvalidInput("a JSON Schema is an object or a boolean")
    unknown = sorted(set(schema) - _KNOWN - _IGNORED)
    if unknown:
        raise InvalidInput(f"the schema uses {', '.join(unknown)}, which is not checked here; leave it out")
    kinds = schema.get("type")
    if kinds is not None and not any(
        _is(value, kind) for kind in ([kinds] if isinstance(kinds, str) else kinds)
    ):
        return False
    if "enum" in schema and not any(_same(value, item) for item in schema["enum"]):
        return False
    if "const" in schema and not _same(value, schema["const"]):
        return False
    if "anyOf" in schema and not any(fits(value, option) for option in schema["anyOf"]):
        return False
    return _object(value, schema) and _array(value, schema) and _size(value, schema)


def _is(value: Any, kind: str) -> bool:
    if kind not in _TYPES:
        raise InvalidInput(f"the schema names a type {kind!r} that JSON has not")
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[kind])


def _same(a: Any, b: Any) -> bool:
    return bool(a == b) and isinstance(a, bool) == isinstance(b, bool)


def _object(value: Any, schema: Mapping[str, Any]) -> bool:
    properties: Mapping[str, Any] = schema.get("properties", {})
    if not isinstance(value, dict):
        return True
    if any(name not in value for name in schema.get("required", ())):
        return False
    others = schema.get("additionalProperties", True)
    return all(fits(item, properties.get(name, others)) for name, item in value.items())


def _array(value: Any, schema: Mapping[str, Any]) -> bool:
    if not isinstance(value, list):
        return True
    if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
        return False
    return all(fits(item, schema.get("items", True)) for item in value)


def _size(value: Any, schema: Mapping[str, Any]) -> bool:
    if isinstance(value, str):
        return bool(schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)))
    if isinstance(value, int | float) and not isinstance(value, bool):
        return bool(schema.get("minimum", value) <= value <= schema.get("maximum", value))
    return True
