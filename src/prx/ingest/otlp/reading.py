"""Single values of a span by the mapping table."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from prx.domain.records import Tokens
from prx.ingest.langfuse_shapes import decoded
from prx.ingest.otlp.span import Span
from prx.ingest.otlp.table import FIELDS, FIRST_TOKEN_EVENTS, IMPLIED, KINDS, Kind
from prx.ingest.plain import count_of, dict_at, name_of, number_of, time_of

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EARLIEST, _LATEST = 946_684_800 * 10**9, 4_102_444_800 * 10**9  # 2000 to 2100
_DETAILS = {
    "input": ("input", "prompt_tokens", "input_tokens"),
    "output": ("output", "completion_tokens", "output_tokens"),
    "cache_read": ("input_cached_tokens", "cache_read_input_tokens", "input_cache_read"),
    "cache_write": ("cache_creation_input_tokens", "input_cache_creation"),
    "reasoning": ("output_reasoning_tokens", "output_reasoning"),
}


def kind_of(span: Span) -> Kind:
    """What the span stands for, by the first attribute that tells."""
    for row in KINDS:
        told = span.attributes.get(row.key)
        if isinstance(told, str) and told in row.values:
            return row.values[told]
    return Kind.INFERENCE if all(span.attributes.get(key) for key in IMPLIED) else Kind.OTHER


def value(field: str, *holders: Mapping[str, Any]) -> Any:
    """The value under the first of the field's names that one of the holders carries; None without one."""
    for holder in holders:
        for name in FIELDS[field]:
            found = holder.get(name.key)
            if found not in (None, ""):
                return found
    return None


def word(field: str, *holders: Mapping[str, Any]) -> str | None:
    """The same, as a short text."""
    return name_of(value(field, *holders))


def tokens_of(span: Span) -> Tokens:
    """Token counts; cached and reasoning ones are told as parts of the totals."""
    counts = {name: count_of(value(name, span.attributes)) for name in _DETAILS}
    usage = decoded(value("usage", span.attributes))
    if isinstance(usage, dict):
        for name, keys in _DETAILS.items():
            if counts[name] is None:
                counts[name] = next((n for key in keys if (n := count_of(usage.get(key))) is not None), None)
    return Tokens(**counts)


def cost_of(span: Span) -> float | None:
    """What the span says that the call cost, US dollars."""
    told = number_of(value("cost", span.attributes))
    if told is not None:
        return told
    return number_of(dict_at({"costs": decoded(value("costs", span.attributes))}, "costs").get("total"))


def moment(nanoseconds: int) -> datetime | None:
    """A time of OTLP; None for one that was not told or cannot be."""
    if not _EARLIEST <= nanoseconds < _LATEST:
        return None
    return _EPOCH + timedelta(microseconds=nanoseconds // 1000)


def latency_ms(span: Span) -> float | None:
    """How long the span lasted, milliseconds."""
    return (span.end - span.start) / 1e6 if 0 < span.start <= span.end else None


def ttft_ms(span: Span) -> float | None:
    """Time to the first token, milliseconds: as it was told, else by the first event of the stream."""
    seconds = number_of(value("ttft_s", span.attributes))
    if seconds is not None:
        return seconds * 1000.0
    told = number_of(value("ttft_ms", span.attributes))
    if told is not None:
        return told
    started = moment(span.start)
    first = time_of(_unquoted(value("first_at", span.attributes)))
    if first is not None and started is not None and first >= started:
        return (first - started) / timedelta(milliseconds=1)
    names = {name.key for name in FIRST_TOKEN_EVENTS}
    times = [event.at for event in span.events if event.name in names and event.at >= span.start > 0]
    return (min(times) - span.start) / 1e6 if times else None


def _unquoted(told: Any) -> Any:
    # Langfuse writes the time as JSON, quotes and all.
    return told.strip('"') if isinstance(told, str) else told
