"""Which record a person means: the whole id, or an end of it that fits one record only."""

from typing import Any, TypeVar

from prx.domain.errors import InvalidInput, NotFound
from prx.ledger.kinds import filing, key_of
from prx.ledger.port import View

T = TypeVar("T")
SHORT = 8
_LEAST = 4


def short(record_id: str | None) -> str:
    """The last characters of an id: the first ones are its time, and alike in records of one cycle."""
    return record_id[-SHORT:] if record_id else ""


def identify(view: View, kind: type[T], text: str) -> T:
    """The record whose id is `text`, or begins or ends with it (4 characters or more).

    Raises: NotFound with the command that lists what there is; InvalidInput when several ids fit.
    """
    wanted = text.strip()
    found = view.maybe(kind, wanted)
    if found is not None:
        return found
    fitting = [one for one in view.find(kind) if _fits(key_of(one), wanted)]
    if len(fitting) == 1:
        return fitting[0]
    name, listing = filing(kind).name, filing(kind).listing
    if fitting:
        ids = ", ".join(key_of(one) for one in fitting[:5])
        raise InvalidInput(f"{len(fitting)} {name}s fit {text!r}: {ids}; give more of the id")
    raise NotFound(f"no {name} is called {text!r}; `{listing}` lists what there is")


def _fits(key: Any, wanted: str) -> bool:
    return len(wanted) >= _LEAST and (str(key).startswith(wanted) or str(key).endswith(wanted))
