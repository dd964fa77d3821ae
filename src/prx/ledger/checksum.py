"""A checksum per row, so that a flipped bit on the disk is noticed before it decides anything."""

import zlib
from typing import Any

from prx.domain.codec import encode
from prx.domain.errors import StoreError

Row = tuple[Any, ...]


def with_checksum(row: Row) -> Row:
    """The row with its CRC-32 as last column."""
    return (*row, _checksum(row))


def damaged(what: str) -> StoreError:
    """The refusal to go on with bytes that changed on the disk."""
    return StoreError(
        f"{what} is damaged: its stored bytes changed; restore the ledger from a backup with `prx restore` "
        "(in PostgreSQL: pg_restore)"
    )


def checked(row: Row, what: str) -> Row:
    """The row without its last column. Raises: StoreError when that is not its checksum."""
    if _checksum(row[:-1]) != row[-1]:
        raise damaged(what)
    return row[:-1]


def _checksum(row: Row) -> int:
    return zlib.crc32(encode(row))
