"""Stored form of domain records: canonical JSON, and its hash."""

import hashlib
from typing import Any, TypeVar

import msgspec

from prx.domain.errors import StoreError

T = TypeVar("T")
_ENCODER = msgspec.json.Encoder(order="sorted")


def encode(record: Any) -> bytes:
    """UTF-8 JSON with sorted keys and no spaces; equal records give equal bytes."""
    return _ENCODER.encode(record)


def decode(body: bytes | str, kind: type[T]) -> T:
    """Record of type `kind` from its stored form. Raises: StoreError naming what does not fit."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        name = getattr(kind, "__name__", str(kind))
        raise StoreError(
            f"a stored {name} cannot be read ({error}); restore the store from a backup or run `prx doctor`"
        ) from error


def plain(record: Any) -> Any:
    """The record as dicts, lists, strings and numbers, for JSON answers."""
    return msgspec.to_builtins(record)


def content_hash(content: Any) -> str:
    """SHA-256 of the canonical JSON, as `sha256:<hex>`."""
    return f"sha256:{hashlib.sha256(encode(content)).hexdigest()}"
