"""JSON as others write it. What is read here passes on whether we can read it or not, so what other readers
take is taken too: half of a surrogate pair, which JavaScript writes for a text that was cut, and NaN."""

import json
from typing import Generic, TypeVar

import msgspec

T = TypeVar("T", bound=msgspec.Struct)


class Reader(Generic[T]):
    """Reads JSON objects into a struct whose fields may hold anything."""

    def __init__(self, kind: type[T]) -> None:
        self._kind = kind
        self._decoder = msgspec.json.Decoder(kind)

    def decode(self, data: bytes) -> T:
        """The object. Raises: msgspec.DecodeError when it is none, UnicodeDecodeError, RecursionError."""
        try:
            return self._decoder.decode(data)
        except msgspec.DecodeError as error:
            loose = self._loose(data)
            if loose is None:
                raise error from None
            return loose

    def _loose(self, data: bytes) -> T | None:
        try:
            value = json.loads(data.decode())
        except ValueError:
            return None
        if not isinstance(value, dict):
            return None
        found = {}
        for field in msgspec.structs.fields(self._kind):
            if field.encode_name in value:
                one = value[field.encode_name]
                raw = field.type is msgspec.Raw
                found[field.name] = msgspec.Raw(json.dumps(one).encode()) if raw else one
        return self._kind(**found)
