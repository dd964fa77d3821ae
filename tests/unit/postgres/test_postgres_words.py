"""Addresses and failures of PostgreSQL in words; no server is needed."""

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict

from prx.domain.errors import StoreError
from prx.postgres import Address
from prx.postgres.failures import StoreBusy, StoreGone, StoreRefused, explained, is_lost
from prx.postgres.texts import stored, told

SHOWN = "PostgreSQL me@db:5432/state"

FAILURES: list[tuple[psycopg.Error, type[StoreError], str]] = [
    (errors.DiskFull("no space"), StoreError, r"its disk is full; nothing of this transaction was written"),
    (errors.ReadOnlySqlTransaction("ro"), StoreError, r"is read-only .*at the primary"),
    (errors.LockNotAvailable("lock"), StoreBusy, r"is locked: .* over 7 s; nothing was changed"),
    (errors.UniqueViolation("dup"), StoreRefused, r"refused a row \(dup\); nothing was changed"),
    (errors.RaiseException("audit rows"), StoreRefused, r"refused a row \(audit rows\)"),
    (errors.TooManyConnections("full"), StoreError, r"has no connection free; nothing was written"),
    (errors.InsufficientPrivilege("no"), StoreError, r"does not let this user do that; grant"),
    (errors.SerializationFailure("again"), StoreError, r"try again"),
    (errors.DataCorrupted("page"), StoreError, r"reports damaged data; nothing was changed; restore"),
    (errors.AdminShutdown("stop"), StoreGone, r"went away; nothing of this transaction was written"),
    (errors.CannotConnectNow("the database system is starting up"), StoreGone, r"is starting or stopping"),
    (
        psycopg.OperationalError('connection failed: FATAL:  password authentication failed for user "me"'),
        StoreGone,
        r"refused user or password; check .*store\] url",
    ),
    (
        psycopg.OperationalError("FATAL:  sorry, too many clients already"),
        StoreGone,
        r"has no connection free; nothing was written; raise max_connections",
    ),
    (psycopg.OperationalError("no pg_hba.conf entry for host"), StoreGone, r"pg_hba\.conf"),
    (psycopg.OperationalError('database "state" does not exist'), StoreGone, r"createdb"),
    (psycopg.OperationalError("Connection refused"), StoreGone, r"check that the server runs"),
    (errors.SyntaxError("bad"), StoreError, r"refused a statement: bad; run `prx doctor`"),
]


@pytest.mark.parametrize(("error", "kind", "said"), FAILURES)
def test_a_failure_names_the_database_the_reason_and_the_next_step(
    error: psycopg.Error, kind: type[StoreError], said: str
) -> None:
    found = explained(error, SHOWN, waited=7)
    assert type(found) is kind
    with pytest.raises(kind, match=rf"^{SHOWN} .*{said}"):
        raise found


def test_only_a_lost_connection_is_tried_again_on_a_fresh_one() -> None:
    lost = [errors.AdminShutdown("x"), errors.CrashShutdown("x"), psycopg.OperationalError("gone")]
    kept = [errors.DiskFull("x"), errors.UniqueViolation("x"), errors.LockNotAvailable("x")]
    assert [is_lost(error) for error in lost + kept] == [True] * 3 + [False] * 3


@pytest.mark.parametrize(
    ("url", "public"),
    [
        ("postgresql://me:pass@db:5433/state", "postgresql://me@db:5433/state"),
        ("postgres://db/state?sslmode=require", "postgresql://db/state"),
        ("postgresql://me:pass@/state?host=/run/pg", "postgresql://me@/state?host=/run/pg"),
        ("postgresql://me:p%40ss@one,two/state", "postgresql://me@one,two/state"),
        ("postgresql://me:pass@one:1,two:2/state", "postgresql://me@one:1,two:2/state"),
        ("postgresql://me:pass@[::1]:5433/state", "postgresql://me@[::1]:5433/state"),
    ],
)
def test_an_address_is_shown_without_its_password_and_can_be_used_as_shown(url: str, public: str) -> None:
    address = Address.of(url)
    assert (address.public, address.shown) == (public, f"PostgreSQL {public.removeprefix('postgresql://')}")
    assert "pass" not in repr(address)
    given, shown = conninfo_to_dict(url), conninfo_to_dict(address.public)
    assert {name: given[name] for name in shown} == shown
    assert conninfo_to_dict(address.conninfo).items() >= given.items()


def test_what_the_operator_says_of_the_connection_wins_over_our_defaults() -> None:
    told_of = conninfo_to_dict(Address.of("postgresql://db/state?connect_timeout=3").conninfo)
    assert (told_of["connect_timeout"], told_of["application_name"]) == ("3", "prx")


@given(st.text(), st.text())
def test_every_text_comes_back_and_keeps_its_place_in_the_order(one: str, other: str) -> None:
    assert "\x00" not in stored(one)
    assert told(stored(one)) == one
    assert (stored(one) < stored(other)) is (one < other)
