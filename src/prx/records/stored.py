"""Stored form of records: their JSON, and the columns by which they are found."""

from typing import Any

import msgspec

from prx.domain.codec import encode
from prx.domain.errors import InvalidInput, StoreError
from prx.domain.records import Record
from prx.domain.scores import SessionScore
from prx.domain.times import to_micros
from prx.records.assembly import session_of

_RECORDS = msgspec.json.Decoder(Record)
_SCORES = msgspec.json.Decoder(SessionScore)


def kind_of(record: Record) -> str:
    """The record's tag, such as `interaction`."""
    return str(record.__struct_config__.tag)


def checked(record: Record) -> str:
    """JSON of a record that can be read back. Raises: InvalidInput for a field of another type than declared,
    since one such row would stop every later read."""
    body = encode(record)
    try:
        _RECORDS.decode(body)
    except msgspec.DecodeError as error:
        raise InvalidInput(
            f"record {record.record_id!r} has a field of the wrong type, its batch was not stored: {error}"
        ) from error
    return body.decode()


def record_row(record: Record) -> tuple[Any, ...]:
    """Columns of the statement `append`."""
    return (
        record.record_id,
        kind_of(record),
        session_of(record),
        to_micros(record.at),
        checked(record),
    )


def score_row(score: SessionScore) -> tuple[Any, ...]:
    """Columns of the statement `put_score`."""
    return (
        score.session_id,
        score.agent,
        score.env,
        to_micros(score.started_at),
        to_micros(score.closes_at),
        int(score.closed),
        score.version,
        encode(score).decode(),
    )


def read_record(body: str) -> Record:
    """Record from its JSON. Raises: StoreError."""
    try:
        return _RECORDS.decode(body)
    except msgspec.DecodeError as error:
        raise _unreadable("record", error) from error


def read_score(body: str) -> SessionScore:
    """Score from its JSON. Raises: StoreError."""
    try:
        return _SCORES.decode(body)
    except msgspec.DecodeError as error:
        raise _unreadable("score", error) from error


def _unreadable(what: str, error: Exception) -> StoreError:
    return StoreError(
        f"a stored {what} cannot be read ({error}); restore the records from a backup or run `prx doctor`"
    )
