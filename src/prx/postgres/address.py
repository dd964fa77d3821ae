"""Where a PostgreSQL database is, and how to name it without its password."""

from dataclasses import dataclass, field
from urllib.parse import quote

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from prx.domain.errors import StoreError

_DEFAULTS = {
    "connect_timeout": "10",
    "application_name": "prx",
    # a cut-off server is noticed within about a minute instead of after hours
    "keepalives_idle": "20",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",
}


@dataclass(frozen=True, slots=True)
class Address:
    """`conninfo` opens the database and may hold a password; `shown` names it in messages and `public` is
    a URL for other programs, both without password."""

    conninfo: str = field(repr=False)
    shown: str
    public: str = ""

    @classmethod
    def of(cls, url: str) -> "Address":
        """The address that a `postgresql://` URL stands for.

        Raises: StoreError, which never repeats the text: a mistyped URL may hold the password anywhere.
        """
        if not url.startswith(("postgresql://", "postgres://")):
            raise StoreError(
                "the address of the PostgreSQL store must begin with postgresql://, as in "
                "postgresql://user@host:5432/name; set [self_evolution.store] url"
            )
        try:
            given = {name: str(value) for name, value in conninfo_to_dict(url).items()}
            _ = [int(port) for port in given.get("port", "5432").split(",") if port]
        except (psycopg.ProgrammingError, ValueError):
            raise StoreError(
                "the address in [self_evolution.store] url cannot be read as postgresql://user:password@host:"
                "port/name; write special characters of the password as %XX"
            ) from None
        conninfo = make_conninfo("", **{**_DEFAULTS, **given})
        named = _named(given)
        return cls(conninfo, f"PostgreSQL {named}", f"postgresql://{named.replace('local socket', '')}")


def _named(given: dict[str, str]) -> str:
    user = f"{quote(given['user'])}@" if given.get("user") else ""
    hosts = given.get("host") or given.get("hostaddr") or ""
    port = f":{given['port']}" if given.get("port") else ""
    return f"{user}{hosts or 'local socket'}{port}/{given.get('dbname', '')}"
