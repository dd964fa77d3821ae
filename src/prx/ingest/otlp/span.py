"""One span of OpenTelemetry, whichever encoding it came in."""

from dataclasses import dataclass, field
from typing import Any

from prx.domain.errors import EvolutionError

MOST_SPANS = 20_000
_TRACE, _SPAN = 32, 16
_HEX = frozenset("0123456789abcdef")


class Malformed(EvolutionError):
    """A body that is no export request; sending it again would change nothing."""


class MissingDecoder(EvolutionError):
    """Protobuf came, and the package that reads it is not installed."""


@dataclass(frozen=True, slots=True)
class SpanEvent:
    """Something that happened inside a span; `at` in nanoseconds since 1970."""

    name: str
    at: int
    attributes: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Span:
    """`trace` and `id` in lower-case hexadecimal, `parent` empty for a root; times in nanoseconds since
    1970, 0 when they were not told; `resource` and `scope` are those of the process that sent it."""

    trace: str
    id: str
    parent: str = ""
    name: str = ""
    start: int = 0
    end: int = 0
    attributes: dict[str, Any] = field(default_factory=dict)
    events: tuple[SpanEvent, ...] = ()
    failed: bool = False
    message: str = ""
    resource: dict[str, Any] = field(default_factory=dict)
    scope: str = ""

    @property
    def valid(self) -> bool:
        """Whether both ids are what OpenTelemetry calls valid; log records sent here have none."""
        return _is_id(self.trace, _TRACE) and _is_id(self.id, _SPAN)


def _is_id(text: str, length: int) -> bool:
    return len(text) == length and _HEX.issuperset(text) and text.strip("0") != ""
