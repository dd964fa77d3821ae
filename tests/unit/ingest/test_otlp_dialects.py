"""The same call, told in each dialect, becomes the same record."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from otlp_spans import START, TRACE, raw_span, span_id, spans

from prx.domain.records import Interaction, Message, Terminal, Tokens, ToolCall, ToolStatus
from prx.domain.times import from_micros
from prx.ingest.otlp.intake import Intake, Taken

NOW = datetime(2026, 12, 1, 9, tzinfo=UTC)
ASKED = (
    Message(role="system", content="Be kind."),
    Message(role="user", content="Where is it?"),
)
TOOL = ToolCall(name="look_up", call_id="call_1", arguments='{"q": 1}')
CHAT = [{"role": m.role, "content": m.content} for m in ASKED]
CALLED = {"id": "call_1", "type": "function", "function": {"name": "look_up", "arguments": '{"q": 1}'}}
PARTS = [{"role": m.role, "parts": [{"type": "text", "content": m.content}]} for m in ASKED]
ANSWER_PARTS = [
    {"type": "reasoning", "content": "Let me think."},
    {"type": "text", "content": "One moment."},
    {"type": "tool_call", "id": "call_1", "name": "look_up", "arguments": {"q": 1}},
]


def numbered(prefix: str, items: list[dict[str, Any]]) -> dict[str, Any]:
    return {f"{prefix}.{n}.{key}": told for n, item in enumerate(items) for key, told in item.items()}


GENAI = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "openai",
    "gen_ai.request.model": "gpt-4o",
    "gen_ai.response.model": "gpt-4o-2024-08-06",
    "gen_ai.request.stream": True,
    "gen_ai.response.time_to_first_chunk": 0.25,
    "gen_ai.usage.input_tokens": 100,
    "gen_ai.usage.output_tokens": 20,
    "gen_ai.usage.cache_read.input_tokens": 40,
    "gen_ai.usage.cache_write.input_tokens": 10,
    "gen_ai.usage.reasoning.output_tokens": 8,
    "gen_ai.input.messages": json.dumps(PARTS),
    "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": ANSWER_PARTS}]),
    "gen_ai.conversation.id": "conversation-7",
    "user.id": "ada",
}
GENAI_SYSTEM_APART = GENAI | {
    "gen_ai.input.messages": json.dumps(PARTS[1:]),
    "gen_ai.system_instructions": json.dumps([{"type": "text", "content": "Be kind."}]),
}
OPENINFERENCE = {
    "openinference.span.kind": "LLM",
    "llm.system": "openai",
    "llm.model_name": "gpt-4o-2024-08-06",
    "llm.token_count.prompt": 100,
    "llm.token_count.completion": 20,
    "llm.token_count.prompt_details.cache_read": 40,
    "llm.token_count.prompt_details.cache_write": 10,
    "llm.token_count.completion_details.reasoning": 8,
    **numbered("llm.input_messages", [{f"message.{k}": v for k, v in one.items()} for one in CHAT]),
    "llm.output_messages.0.message.role": "assistant",
    "llm.output_messages.0.message.content": "One moment.",
    "llm.output_messages.0.message.tool_calls.0.tool_call.id": "call_1",
    "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "look_up",
    "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": '{"q": 1}',
    "input.value": json.dumps({"messages": CHAT}),
    "session.id": "conversation-7",
    "user.id": "ada",
}
OPENLLMETRY = {
    "llm.request.type": "chat",
    "gen_ai.system": "OpenAI",
    "gen_ai.request.model": "gpt-4o",
    "gen_ai.response.model": "gpt-4o-2024-08-06",
    "llm.is_streaming": True,
    "gen_ai.usage.prompt_tokens": 100,
    "gen_ai.usage.completion_tokens": 20,
    "gen_ai.usage.cache_read_input_tokens": 40,
    "gen_ai.usage.cache_creation_input_tokens": 10,
    "gen_ai.usage.reasoning_tokens": 8,
    **numbered("gen_ai.prompt", CHAT),
    "gen_ai.completion.0.role": "assistant",
    "gen_ai.completion.0.content": "One moment.",
    "gen_ai.completion.0.tool_calls.0.id": "call_1",
    "gen_ai.completion.0.tool_calls.0.name": "look_up",
    "gen_ai.completion.0.tool_calls.0.arguments": '{"q": 1}',
    "traceloop.association.properties.session_id": "conversation-7",
    "traceloop.association.properties.user_id": "ada",
}
LANGFUSE = {
    "langfuse.observation.type": "generation",
    "langfuse.observation.model.name": "gpt-4o-2024-08-06",
    "gen_ai.system": "openai",
    "langfuse.observation.usage_details": json.dumps(
        {"input": 100, "output": 20, "input_cached_tokens": 40, "input_cache_creation": 10}
        | {"output_reasoning_tokens": 8}
    ),
    "langfuse.observation.completion_start_time": '"2026-12-01T08:00:00.250Z"',
    "langfuse.observation.input": json.dumps(CHAT),
    "langfuse.observation.output": json.dumps(
        {"role": "assistant", "content": "One moment.", "tool_calls": [CALLED]}
    ),
    "langfuse.session.id": "conversation-7",
    "langfuse.user.id": "ada",
}
OLD_EVENTS = {
    "gen_ai.operation.name": "chat",
    "gen_ai.system": "openai",
    "gen_ai.response.model": "gpt-4o-2024-08-06",
    "gen_ai.server.time_to_first_token": 0.25,
    "gen_ai.usage.input_tokens": 100,
    "gen_ai.usage.output_tokens": 20,
    "gen_ai.usage.cache_read.input_tokens": 40,
    "gen_ai.usage.cache_creation.input_tokens": 10,
    "gen_ai.usage.reasoning.output_tokens": 8,
    "session.id": "conversation-7",
    "enduser.id": "ada",
}
VERCEL = {
    "ai.operationId": "ai.streamText.doStream",
    "ai.model.provider": "openai",
    "ai.response.model": "gpt-4o-2024-08-06",
    "ai.response.msToFirstChunk": 250,
    "gen_ai.usage.input_tokens": 100,
    "ai.usage.outputTokens": 20,
    "ai.usage.cachedInputTokens": 40,
    "gen_ai.usage.cache_write.input_tokens": 10,
    "ai.usage.reasoningTokens": 8,
    "ai.prompt.messages": json.dumps(CHAT),
    "ai.response.text": "One moment.",
    "ai.response.toolCalls": json.dumps(
        [{"toolCallId": "call_1", "toolName": "look_up", "args": '{"q": 1}'}]
    ),
    "ai.telemetry.metadata.sessionId": "conversation-7",
    "ai.telemetry.metadata.userId": "ada",
}
EVENTS = [
    ("gen_ai.system.message", 0.0, {"content": "Be kind."}),
    ("gen_ai.user.message", 0.0, {"content": "Where is it?"}),
    ("gen_ai.choice", 1.0, {"message": json.dumps({"content": "One moment.", "tool_calls": [CALLED]})}),
]
DETAILS = {"gen_ai.input.messages": json.dumps(PARTS)}
DETAILS["gen_ai.output.messages"] = str(GENAI["gen_ai.output.messages"])
FIRST_TOKEN = [("First Token Stream Event", 0.25, {})]
CHUNKS = [("gen_ai.content.completion.chunk", 0.25, {}), ("gen_ai.content.completion.chunk", 0.5, {})]
DIALECTS = {
    "genai": (GENAI, []),
    "genai, instructions apart": (GENAI_SYSTEM_APART, []),
    "genai, content in an event": (
        {k: v for k, v in GENAI.items() if "messages" not in k},
        [("gen_ai.client.inference.operation.details", 1.0, DETAILS)],
    ),
    "genai up to 1.36": (OLD_EVENTS, EVENTS),
    "openinference": (OPENINFERENCE, FIRST_TOKEN),
    "openllmetry": (OPENLLMETRY, CHUNKS),
    "langfuse": (LANGFUSE, []),
    "vercel": (VERCEL, []),
}


def take(*raw: dict[str, Any], intake: Intake | None = None, resource: dict[str, Any] | None = None) -> Taken:
    return (intake or Intake()).take(spans(*raw, resource=resource), agent="default", now=NOW)


def calls(taken: Taken) -> list[Interaction]:
    return [record for record in taken.records if isinstance(record, Interaction)]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_call_reads_the_same_in_every_dialect(dialect: str) -> None:
    told, events = DIALECTS[dialect]
    taken = take(raw_span("call", told, events=events, lasts=2.0))
    start, call = taken.records
    assert (start.user, start.unit, start.ref) == ("ada", "ada", "conversation-7")  # type: ignore[union-attr]
    assert isinstance(call, Interaction)
    assert call.session_id == start.session_id  # type: ignore[union-attr]
    assert call.record_id == f"otlp/{TRACE}/{span_id('call')}"
    assert call.at == from_micros(START // 1000)
    assert (call.model, call.provider) == ("gpt-4o-2024-08-06", "openai")
    assert call.messages == ASKED
    assert call.response == "One moment."
    assert call.tool_calls == (TOOL,)
    assert call.tokens == Tokens(input=100, output=20, cache_read=40, cache_write=10, reasoning=8)
    assert (call.latency_ms, call.ttft_ms, call.streamed) == (2000.0, 250.0, True)
    assert call.terminal is Terminal.COMPLETED
    # Cached and reasoning tokens are parts of the totals: 60 plain, 40 cached, 20 out (gpt-4o's list price).
    assert call.cost_usd == pytest.approx((60 * 2.5 + 40 * 1.25 + 20 * 10.0) / 1e6)


def test_the_tokens_of_agents_and_chains_are_not_counted_again() -> None:
    usage = {"gen_ai.usage.input_tokens": 200, "gen_ai.usage.output_tokens": 40}
    agent = usage | {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.system": "x",
        "gen_ai.request.model": "m",
    }
    outer = OPENINFERENCE | {"llm.token_count.prompt": 999}
    taken = take(
        raw_span("agent", agent),
        raw_span("chain", {"openinference.span.kind": "CHAIN", "llm.token_count.prompt": 5}, parent="agent"),
        raw_span("outer", outer, parent="chain"),
        raw_span("between", {"traceloop.span.kind": "task"}, parent="outer"),
        raw_span("inner", GENAI, parent="between"),
        raw_span("other", GENAI, parent="agent", at=3),
        raw_span("embed", {"gen_ai.operation.name": "embeddings"}, parent="agent"),
    )
    assert [call.record_id[-16:] for call in calls(taken)] == [span_id("inner"), span_id("other")]
    assert taken.seen["wrapper"] == 1
    assert taken.seen["other"] == 4


def test_a_wrapper_that_comes_in_a_later_batch_is_known_by_its_calls() -> None:
    intake = Intake()
    assert len(calls(take(raw_span("inner", GENAI, parent="between"), intake=intake))) == 1
    assert take(raw_span("between", {}, parent="outer"), intake=intake).records == ()
    later = take(raw_span("outer", OPENINFERENCE), intake=intake)
    assert (later.records, later.seen["wrapper"]) == ((), 1)


def test_a_batch_that_is_sent_twice_gives_the_same_records() -> None:
    intake = Intake()
    batch = [raw_span("a", GENAI), raw_span("b", OPENINFERENCE, parent="a"), raw_span("c", LANGFUSE)]
    first, second = (take(*batch, intake=intake) for _ in range(2))
    assert first.records == second.records
    assert len({record.record_id for record in first.records}) == len(first.records)


def test_what_a_tool_did_joins_the_call_that_asked_for_it() -> None:
    ran = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look_up"}
    ran |= {"gen_ai.tool.call.id": "call_1", "gen_ai.tool.call.result": '{"found": true}'}
    failed = {"openinference.span.kind": "TOOL", "tool.name": "look_up", "output.value": "gone"}
    taken = take(
        raw_span("call", GENAI),
        raw_span("tool", ran, at=1.5, lasts=0.5),
        raw_span("again", GENAI | {"gen_ai.output.messages": GENAI["gen_ai.output.messages"]}, at=3),
        raw_span("tool2", failed, at=5, lasts=0.25, failed="no such row"),
        raw_span("lonely", {"traceloop.span.kind": "tool", "traceloop.entity.name": "other"}, at=6),
    )
    one, two = (call.tool_calls for call in calls(taken))
    assert one == (
        ToolCall(
            name="look_up",
            status=ToolStatus.OK,
            call_id="call_1",
            arguments='{"q": 1}',
            result='{"found": true}',
            latency_ms=500.0,
        ),
    )
    assert [(tool.status, tool.result, tool.latency_ms) for tool in two] == [
        (ToolStatus.FAILED, "gone", 250.0)
    ]
    assert taken.seen["tool_alone"] == 1


def test_the_result_of_a_tool_is_read_from_the_next_call_when_it_has_no_span() -> None:
    said = [
        *PARTS,
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "call_1", "result": "42"}]},
    ]
    nxt = GENAI | {"gen_ai.input.messages": json.dumps(said)}
    first, second = calls(take(raw_span("one", GENAI), raw_span("two", nxt, at=3)))
    assert (first.tool_calls[0].result, first.tool_calls[0].status) == ("42", ToolStatus.OK)
    assert second.messages[-1] == Message(role="tool", content="42", tool_call_id="call_1")
    assert second.intent == "tool"


@pytest.mark.parametrize(
    ("kind", "terminal", "external"),
    [
        ("openai.BadRequestError", Terminal.UPSTREAM_ERROR, False),
        ("400", Terminal.UPSTREAM_ERROR, False),
        ("429", Terminal.UPSTREAM_ERROR, True),
        ("503", Terminal.UPSTREAM_ERROR, True),
        ("openai.APITimeoutError", Terminal.UPSTREAM_ERROR, True),
        ("asyncio.exceptions.CancelledError", Terminal.CLIENT_CANCELLED, True),
    ],
)
def test_a_failure_is_told_with_whose_fault_it_was(kind: str, terminal: Terminal, external: bool) -> None:
    raised = [("exception", 1.0, {"exception.type": kind, "exception.message": "it went wrong"})]
    for told, events in (({"error.type": kind}, []), ({}, raised)):
        (call,) = calls(take(raw_span("call", GENAI | told, failed="it went wrong", events=events)))
        assert (call.terminal, call.external_failure) == (terminal, external)
        assert call.error == f"{kind}: it went wrong"


def test_session_and_user_are_found_on_the_trace_and_an_unnamed_trace_is_no_unit() -> None:
    bare = {k: v for k, v in GENAI.items() if k not in ("gen_ai.conversation.id", "user.id")}
    root = raw_span("root", {"langfuse.session.id": "s-1", "langfuse.user.id": "ada"})
    named, _ = take(root, raw_span("call", bare, parent="root")).records
    assert (named.ref, named.unit) == ("s-1", "ada")  # type: ignore[union-attr]
    alone, _ = take(raw_span("call", bare)).records
    assert (alone.ref, alone.unit, alone.unit_source) == (TRACE, None, "none")  # type: ignore[union-attr]


def test_the_process_says_agent_and_environment_and_other_agents_have_other_sessions() -> None:
    staging = {"deployment.environment.name": "staging", "prx.agent": "support"}
    start, call = take(raw_span("call", GENAI), resource=staging).records
    assert (start.env, start.agent) == ("staging", "support")  # type: ignore[union-attr]
    other, _ = take(raw_span("call", GENAI), resource={"deployment.environment": "Prod"}).records
    assert (other.env, other.agent) == ("production", "default")  # type: ignore[union-attr]
    assert other.session_id != call.session_id  # type: ignore[union-attr]


def test_agents_do_not_come_without_end_and_a_bad_name_is_said() -> None:
    intake = Intake(most_agents=3)
    batch = [raw_span(f"c{n}", GENAI | {"prx.agent": f"a{n}"}, trace=f"{n + 1:032x}") for n in range(5)]
    taken = take(*batch, intake=intake)
    assert (len(calls(taken)), taken.rejected) == (2, 3)
    assert "agents" in taken.why
    assert "letters" in take(raw_span("x", GENAI | {"prx.agent": "../x"})).why


def test_spans_without_valid_ids_are_rejected_and_the_others_taken() -> None:
    logs = raw_span("log", GENAI, trace="0" * 32)
    short = raw_span("short", GENAI, trace="abc")
    taken = take(logs, short, raw_span("call", GENAI))
    assert (taken.rejected, len(calls(taken))) == (2, 1)
    assert "id" in taken.why


def test_a_span_without_times_is_recorded_with_the_time_of_its_arrival() -> None:
    raw = raw_span("call", GENAI) | {"startTimeUnixNano": "0", "endTimeUnixNano": "0"}
    (call,) = calls(take(raw))
    assert (call.at, call.time_known, call.latency_ms) == (NOW, False, None)


def test_content_that_was_not_captured_leaves_the_numbers() -> None:
    told = {k: v for k, v in GENAI.items() if "messages" not in k}
    (call,) = calls(take(raw_span("call", told)))
    assert (call.messages, call.response, call.tokens.input) == ((), None, 100)


def test_hostile_shapes_cost_no_batch() -> None:
    odd: dict[str, Any] = {
        "gen_ai.input.messages": '[[[["x"]]]]',
        "gen_ai.output.messages": "{not json",
        "gen_ai.usage.input_tokens": "many",
        "gen_ai.usage.output_tokens": -5,
        "gen_ai.prompt.0": "flat",
        "gen_ai.prompt.0.content": "and deep",
        "llm.input_messages.9999999999999999999999.message.role": "user",
        "llm.input_messages.x.message.role": "user",
        "langfuse.observation.usage_details": "[1]",
        "langfuse.observation.cost_details": '{"total": "NaN"}',
        "gen_ai.response.time_to_first_chunk": float("inf"),
    }
    raw = raw_span(
        "call", {"gen_ai.operation.name": "chat"} | {k: v for k, v in odd.items() if v != float("inf")}
    )
    (call,) = calls(take(raw, raw_span("loop", GENAI, parent="loop")))[:1]
    assert (call.tokens, call.cost_usd) == (Tokens(), None)
