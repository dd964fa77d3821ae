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
        public = _public(given)
        return cls(conninfo, f"PostgreSQL {public.removeprefix('postgresql://')}", public)


def _public(given: dict[str, str]) -> str:
    user = f"{quote(given['user'])}@" if given.get("user") else ""
    hosts = (given.get("host") or given.get("hostaddr") or "").split(",")
    ports = given.get("port", "").split(",")
    ports = ports if len(ports) == len(hosts) else ports[:1] * len(hosts)
    socket = f"?host={quote(hosts[0])}" if hosts[0].startswith("/") else ""
    pairs = (
        f"{'' if socket else f'[{host}]' if ':' in host else host}{f':{port}' if port else ''}"
        for host, port in zip(hosts, ports, strict=True)
    )
    return f"postgresql://{user}{','.join(pairs)}/{quote(given.get('dbname', ''))}{socket}"
