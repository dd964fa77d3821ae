"""What a session's user brought into it, and what was answered: the texts that an erasure looks for."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from prx.domain.records import Interaction, Trace

_OF_THE_APP = frozenset({"system", "developer"})


def texts_of(trace: Trace) -> Iterator[tuple[str, datetime]]:
    """Every text of the session with its time. System prompts are the app's own and are left out; what was
    filled into their placeholders is not."""
    start = trace.start
    for name in filter(None, (start.user, start.ref)):
        yield name, start.at
    for call in trace.interactions:
        for text in _of_call(call):
            yield text, call.at
    for given in trace.feedback:
        if isinstance(given.value, str):
            yield given.value, given.at
    for written in trace.memories:
        yield written.text, written.at
        yield written.subject or "", written.at
    for asked in trace.recalls:
        yield asked.query, asked.at


def system_texts(trace: Trace) -> Iterator[tuple[str, datetime]]:
    """System prompts that the session's calls carried, each with the time of its call."""
    for call in trace.interactions:
        for message in call.messages:
            if message.role in _OF_THE_APP:
                yield message.content, call.at


def ids_of(trace: Trace) -> Iterator[str]:
    """Ids by which the session or anything in it is named elsewhere."""
    yield trace.start.session_id
    if trace.start.ref:
        yield trace.start.ref
    yield from (call.record_id for call in trace.interactions)
    yield from (given.record_id for given in trace.feedback)
    yield from (written.record_id for written in trace.memories)
    yield from (asked.record_id for asked in trace.recalls)


def shared_names(trace: Trace) -> Iterator[str]:
    """Names in the session that are everybody's: models, tools, prompts, versions."""
    yield trace.start.agent
    for call in trace.interactions:
        yield from filter(None, (call.model, call.provider, call.intent, call.version, *call.prompts))
        yield from (tool.name for tool in call.tool_calls)


def _of_call(call: Interaction) -> Iterator[str]:
    for message in call.messages:
        if message.role not in _OF_THE_APP:
            yield message.content
            yield from filter(None, (made.arguments for made in message.tool_calls))
    yield from filter(None, (call.response, call.error))
    for tool in call.tool_calls:
        yield from filter(None, (tool.arguments, tool.result))
    for values in call.prompt_values.values():
        yield from values.values()
    yield from _strings(call.extra)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _strings(inner)
