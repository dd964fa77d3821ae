"""Texts that PostgreSQL cannot hold as they are.

A `text` of PostgreSQL never holds the character 0, and ids given by an app may. It is written as 1 1 and the
character 1 as 1 2: no two texts become the same, and their order stays.
"""

from psycopg import Connection
from psycopg.abc import Buffer
from psycopg.types.string import StrDumper, TextLoader


def stored(text: str) -> str:
    """The text as PostgreSQL holds it."""
    if "\x00" not in text and "\x01" not in text:
        return text
    return text.replace("\x01", "\x01\x02").replace("\x00", "\x01\x01")


def told(text: str) -> str:
    """The text that was meant."""
    return text.replace("\x01\x01", "\x00").replace("\x01\x02", "\x01") if "\x01" in text else text


class _Dumper(StrDumper):
    def dump(self, obj: str) -> Buffer | None:
        return super().dump(stored(obj))


class _Loader(TextLoader):
    def load(self, data: Buffer) -> str:
        found = super().load(data)
        return told(found if isinstance(found, str) else bytes(found).decode())


def adapt(connection: "Connection[tuple[object, ...]]") -> None:
    """Let every text pass through `stored` and `told` on this connection."""
    connection.adapters.register_dumper(str, _Dumper)
    connection.adapters.register_loader("text", _Loader)
