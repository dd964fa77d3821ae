"""A feedback signal as it came over HTTP: checked, and made a record."""

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import msgspec

from prx.domain.errors import InvalidInput
from prx.domain.names import bounded
from prx.domain.records import DEFAULT_AGENT, Feedback, FeedbackName
from prx.gateway.identity import agent_of
from prx.gateway.replies import ApiError

LONGEST_TEXT = 512
LONGEST_VALUE = 4096
_WORDS = {"up": 1.0, "down": 0.0, "yes": 1.0, "no": 0.0, "true": 1.0, "false": 0.0}
_KNOWN = frozenset(name.value for name in FeedbackName)
_NAMES = ", ".join(sorted(_KNOWN))
_TARGETS = {"session": "session", "record": "interaction", "ref": "ref"}
_FIRST = datetime(2000, 1, 1, tzinfo=UTC)
_AHEAD = timedelta(days=1)


class GivenFeedback(msgspec.Struct, forbid_unknown_fields=True):
    """The body of `POST /api/v1/feedback`."""

    name: str
    value: float | bool | str
    session: str | None = None
    record: str | None = None
    ref: str | None = None
    id: str | None = None
    at: datetime | None = None
    source: str = "api"
    agent: str = DEFAULT_AGENT


def feedback_of(body: bytes, *, now: datetime, new_id: Callable[[], str]) -> tuple[str, Feedback]:
    """The signal's id, as given or new, and its record. Raises: ApiError."""
    given = _decoded(body)
    kind, target = _target(given)
    for field in ("name", "id", "source"):
        text = getattr(given, field)
        if text is not None and not 0 < len(text) <= LONGEST_TEXT:
            raise _bad_field(field, f"{field} has 1 to {LONGEST_TEXT} characters")
    try:
        agent = agent_of(None, given.agent or "-")
    except InvalidInput as error:
        raise _bad_field("agent", str(error)) from None
    try:
        value = feedback_value(given.name, given.value)
    except InvalidInput as error:
        raise ApiError(422, "invalid_value", str(error), {"known_names": _NAMES}) from None
    given_id = given.id or new_id()
    record = Feedback(
        # Under a prefix, so that no caller can take the id of another record.
        record_id=f"feedback/{given_id}",
        at=_time(given.at, now),
        target_kind=kind,
        target=target,
        name=given.name,
        value=value,
        source=given.source,
        agent=agent,
    )
    return given_id, record


def feedback_value(name: str, value: float | bool | str) -> float | str:
    """The value to record: 0..1 for the names that fitness reads, also told as up and down, yes and no.

    Raises: InvalidInput.
    """
    if isinstance(value, str) and name not in _KNOWN:
        if len(value) > LONGEST_VALUE:
            raise InvalidInput(f"a text value has at most {LONGEST_VALUE} characters")
        return value
    if isinstance(value, str):
        word = _WORDS.get(value.strip().lower())
        if word is None:
            raise InvalidInput(f"{name} takes a number from 0 to 1, or up and down")
        return word
    number = float(value)
    if not math.isfinite(number) or (name in _KNOWN and not 0.0 <= number <= 1.0):
        raise InvalidInput(f"{name} takes a finite number{' from 0 to 1' * (name in _KNOWN)}")
    return number


def _decoded(body: bytes) -> GivenFeedback:
    try:
        return msgspec.json.decode(body, type=GivenFeedback)
    except msgspec.ValidationError as error:
        raise ApiError(422, "invalid_field", str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ApiError(400, "invalid_json", "the body is not a JSON object") from None


def _target(given: GivenFeedback) -> tuple[str, str]:
    targets = [(kind, told) for name, kind in _TARGETS.items() if (told := getattr(given, name)) is not None]
    if len(targets) != 1 or not targets[0][1]:
        raise ApiError(422, "invalid_target", "feedback names exactly one of session, record and ref")
    kind, target = targets[0]
    # As the gateway keeps what a client named in a header, so that the two meet.
    return kind, bounded(target)


def _time(given: datetime | None, now: datetime) -> datetime:
    if given is None:
        return now
    if given.tzinfo is None:
        raise _bad_field("at", "at needs a time zone, such as a Z at its end")
    try:
        at = given.astimezone(UTC)
    except OverflowError:
        at = _FIRST - _AHEAD
    if not _FIRST <= at <= now + _AHEAD:
        # The latest value wins: one from the future would win for ever.
        raise _bad_field("at", "at lies between the year 2000 and a day from now")
    return at


def _bad_field(field: str, message: str) -> ApiError:
    return ApiError(422, "invalid_field", message, {"field": field})
