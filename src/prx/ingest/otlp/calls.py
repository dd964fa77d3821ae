"""One leaf inference span as the record of a model call, with the tools that it asked for."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from prx.domain.prices import Prices
from prx.domain.records import Interaction, Message, Terminal, ToolCall
from prx.fitness.tools import is_external, read_tool_result
from prx.ingest.drafting import Source
from prx.ingest.otlp.content import answer, request
from prx.ingest.otlp.reading import cost_of, latency_ms, moment, tokens_of, ttft_ms, value, word
from prx.ingest.otlp.span import Span
from prx.ingest.otlp.table import EXCEPTION_EVENTS, FIRST_TOKEN_EVENTS, TABLE_VERSION
from prx.ingest.plain import name_of, text_of
from prx.ingest.transcript import UNNAMED
from prx.live.intent import classify
from prx.live.shapes import last_user_text

_EXTERNAL_STATUS = frozenset({"401", "402", "403", "408", "409", "429", "499"})
_EXTERNAL_KINDS = frozenset(
    {"APIConnectionError", "APITimeoutError", "ConnectionError", "TimeoutError", "RateLimitError"}
    | {"AuthenticationError", "InternalServerError", "timeout", "PermissionDeniedError"}
)
_CANCELS = frozenset({"CancelledError", "KeyboardInterrupt", "GeneratorExit", "cancelled", "canceled"})
_KEPT = ("response_id", "previous_response", "prompt_name", "prompt_version", "agent_name", "flag", "variant")
_ERROR_TEXT = 500
_PRICES = Prices()


def interaction(span: Span, session_id: str, source: Source) -> Interaction:
    """The call that the span stands for. Its id comes from trace and span id alone, so that a span that is
    sent twice is stored once."""
    at, messages, said = moment(span.start), request(span), answer(span)
    terminal, error, external = _ending(span)
    provider, model = (word("provider", span.attributes) or "").lower(), word("model", span.attributes) or ""
    tokens, cost = tokens_of(span), cost_of(span)
    extra: dict[str, Any] = {"scope": span.scope, "table": TABLE_VERSION}
    extra |= {name: told for name in _KEPT if (told := word(name, span.attributes)) is not None}
    return Interaction(
        record_id=f"otlp/{span.trace}/{span.id}",
        at=at or source.now,
        time_known=at is not None,
        session_id=session_id,
        model=model,
        provider=provider,
        intent=str(_intent(messages, bool(said.tools))),
        messages=messages,
        response=said.text,
        tool_calls=said.tools,
        terminal=terminal,
        error=error,
        external_failure=external,
        streamed=_streamed(span),
        ttft_ms=ttft_ms(span),
        latency_ms=latency_ms(span),
        tokens=tokens,
        cost_usd=_PRICES.cost(provider, model, tokens) if cost is None else cost,
        ref=word("ref", span.attributes) or span.trace,
        source=source.name,
        extra=extra,
    )


def joined(calls: Sequence[Interaction], tools: Iterable[Span]) -> tuple[list[Interaction], int]:
    """The calls of one trace, oldest first, with what became of their tools: from the spans of the tools,
    else from the results that a later call was given. And how many tool spans no call had asked for."""
    asked = [list(call.tool_calls) for call in calls]
    alone = 0
    for span in sorted(tools, key=lambda one: one.start):
        ran = _tool(span)
        place = _asking(ran, asked, calls, span)
        if place is None:
            alone += 1
            continue
        one, index = place
        asked[one][index] = _completed(ran, asked[one][index])
    for call in calls:
        for message in call.messages:
            if message.role == "tool" and message.tool_call_id:
                _answered(asked, message)
    return [
        call if list(call.tool_calls) == found else msgspec.structs.replace(call, tool_calls=tuple(found))
        for call, found in zip(calls, asked, strict=True)
    ], alone


def _asking(
    ran: ToolCall, asked: list[list[ToolCall]], calls: Sequence[Interaction], span: Span
) -> tuple[int, int] | None:
    """Call and place of the request for the tool: the newest one before it, by id or else by name; clocks
    of two machines differ, so an id also counts without the order of times."""
    started, by_id = moment(span.start), None
    for one in range(len(asked) - 1, -1, -1):
        before = started is None or calls[one].at <= started
        for index, call in enumerate(asked[one]):
            if call.result is not None:
                continue
            both = ran.call_id is not None and call.call_id is not None
            if before and (ran.call_id == call.call_id if both else ran.name == call.name):
                return one, index
            if both and ran.call_id == call.call_id:
                by_id = one, index
    return by_id


def _answered(asked: list[list[ToolCall]], message: Message) -> None:
    for found in asked:
        for index, call in enumerate(found):
            if call.call_id == message.tool_call_id and call.result is None:
                reading = read_tool_result(message.content)
                found[index] = msgspec.structs.replace(
                    call, result=message.content, status=reading.status, external=reading.external
                )
                return


def _tool(span: Span) -> ToolCall:
    result, arguments = value("tool_result", span.attributes), value("tool_arguments", span.attributes)
    text = None if result is None else text_of(result)
    reading = read_tool_result(text or span.message, is_error=True if span.failed else None)
    return ToolCall(
        name=word("tool_name", span.attributes) or name_of(span.name) or UNNAMED,
        status=reading.status,
        call_id=word("tool_call_id", span.attributes),
        arguments=None if arguments is None else text_of(arguments),
        result=text if text is not None else span.message or "",
        latency_ms=latency_ms(span),
        external=reading.external,
    )


def _completed(ran: ToolCall, asked: ToolCall) -> ToolCall:
    return msgspec.structs.replace(
        ran, name=asked.name, call_id=asked.call_id or ran.call_id, arguments=asked.arguments or ran.arguments
    )


def _ending(span: Span) -> tuple[Terminal, str | None, bool]:
    """How the call ended, with what error, and whether for a reason outside of the agent."""
    kind = word("error", span.attributes)
    names = {name.key for name in EXCEPTION_EVENTS}
    raised = next((event.attributes for event in span.events if event.name in names), {})
    kind = kind or name_of(raised.get("exception.type"))
    if not span.failed and kind is None:
        return Terminal.COMPLETED, None, False
    why = text_of(raised.get("exception.message")) or span.message
    error = (f"{kind}: {why}" if kind and why else kind or why or "failed")[:_ERROR_TEXT]
    short = (kind or "").rsplit(".", 1)[-1]
    if short in _CANCELS:
        return Terminal.CLIENT_CANCELLED, error, True
    outage = short in _EXTERNAL_STATUS or (short.isdigit() and 500 <= int(short[:4]) < 600)
    return Terminal.UPSTREAM_ERROR, error, outage or short in _EXTERNAL_KINDS or is_external(error)


def _streamed(span: Span) -> bool:
    told = value("streamed", span.attributes)
    if isinstance(told, bool):
        return told
    names = {name.key for name in FIRST_TOKEN_EVENTS}
    return any(event.name in names for event in span.events) or ttft_ms(span) is not None


def _intent(messages: Sequence[Message], tools: bool) -> str:
    answers_tool = bool(messages) and messages[-1].role == "tool"
    return classify(last_user_text(messages), tools=tools, tool_result=answers_tool)
