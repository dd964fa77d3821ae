"""Which attribute says what: the names of every dialect, in one table with a version.

The first name that a span carries gives the value, so current names stand before older ones and exact ones
before general ones. `docs/reference/otlp.md` is made from this table.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

TABLE_VERSION: Final = 1


class Dialect(StrEnum):
    """Who writes such names."""

    GENAI = "OTel GenAI"
    GENAI_OLD = "OTel GenAI, older name"
    OPENINFERENCE = "OpenInference"
    OPENLLMETRY = "OpenLLMetry"
    LANGFUSE = "Langfuse"
    VERCEL = "Vercel AI SDK"
    GENERAL = "OTel, general"
    OWN = "PRX Evolution"


class Kind(StrEnum):
    """What a span stands for. Inference becomes a model call; a tool joins the call that asked for it."""

    INFERENCE = "inference"
    TOOL = "tool"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Name:
    """One attribute of one dialect."""

    dialect: Dialect
    key: str


@dataclass(frozen=True, slots=True)
class KindName:
    """An attribute that tells the kind of a span; a value not listed leaves the question to the next row."""

    dialect: Dialect
    key: str
    values: dict[str, Kind]


def _names(**by_dialect: str) -> tuple[Name, ...]:
    return tuple(
        Name(Dialect[dialect.upper()], key) for dialect, keys in by_dialect.items() for key in keys.split()
    )


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_OTHER_OPERATIONS = _words(
    "embeddings retrieval create_agent invoke_agent invoke_workflow plan agent_step create_memory "
    "update_memory upsert_memory search_memory delete_memory create_memory_store delete_memory_store"
)
_OTHER_KINDS = _words("CHAIN AGENT RETRIEVER RERANKER EMBEDDING GUARDRAIL EVALUATOR PROMPT")
_OTHER_OBSERVATIONS = _words("span event agent chain retriever evaluator guardrail embedding")
_VERCEL_CALLS = _words(
    "ai.generateText.doGenerate ai.streamText.doStream ai.generateObject.doGenerate ai.streamObject.doStream"
)
_VERCEL_WRAPPERS = _words(
    "ai.generateText ai.streamText ai.generateObject ai.streamObject ai.embed ai.embedMany"
)

KINDS: Final[tuple[KindName, ...]] = (
    KindName(
        Dialect.GENAI,
        "gen_ai.operation.name",
        dict.fromkeys(("chat", "generate_content", "text_completion"), Kind.INFERENCE)
        | {"execute_tool": Kind.TOOL}
        | dict.fromkeys(_OTHER_OPERATIONS, Kind.OTHER),
    ),
    KindName(
        Dialect.OPENINFERENCE,
        "openinference.span.kind",
        {"LLM": Kind.INFERENCE, "TOOL": Kind.TOOL} | dict.fromkeys(_OTHER_KINDS, Kind.OTHER),
    ),
    KindName(
        Dialect.LANGFUSE,
        "langfuse.observation.type",
        {"generation": Kind.INFERENCE, "tool": Kind.TOOL} | dict.fromkeys(_OTHER_OBSERVATIONS, Kind.OTHER),
    ),
    KindName(
        Dialect.OPENLLMETRY,
        "traceloop.span.kind",
        {"tool": Kind.TOOL} | dict.fromkeys(("workflow", "task", "agent"), Kind.OTHER),
    ),
    KindName(
        Dialect.OPENLLMETRY,
        "llm.request.type",
        dict.fromkeys(("chat", "completion"), Kind.INFERENCE)
        | dict.fromkeys(("embedding", "rerank"), Kind.OTHER),
    ),
    KindName(
        Dialect.VERCEL,
        "ai.operationId",
        dict.fromkeys(_VERCEL_CALLS, Kind.INFERENCE)
        | {"ai.toolCall": Kind.TOOL}
        | dict.fromkeys(_VERCEL_WRAPPERS, Kind.OTHER),
    ),
)
# Older instrumentations tell no operation: a span that names system and model is a model call.
IMPLIED: Final = ("gen_ai.system", "gen_ai.request.model")

FIELDS: Final[dict[str, tuple[Name, ...]]] = {
    "session": _names(
        own="prx.session",
        genai="gen_ai.conversation.id",
        openinference="session.id",
        langfuse="langfuse.session.id",
        openllmetry="traceloop.association.properties.session_id traceloop.association.properties.thread_id",
        vercel="ai.telemetry.metadata.sessionId",
    ),
    "user": _names(
        own="prx.user",
        general="enduser.id user.id enduser.pseudo.id",
        langfuse="langfuse.user.id",
        openllmetry="traceloop.association.properties.user_id",
        vercel="ai.telemetry.metadata.userId",
    ),
    "tenant": _names(own="prx.tenant"),
    "agent": _names(own="prx.agent"),
    "ref": _names(own="prx.ref"),
    "env": _names(
        own="prx.env",
        langfuse="langfuse.environment",
        general="deployment.environment.name deployment.environment",
    ),
    "channel": _names(
        own="prx.channel", langfuse="langfuse.trace.name", openllmetry="traceloop.workflow.name"
    ),
    "model": _names(
        genai="gen_ai.response.model gen_ai.request.model",
        openinference="llm.model_name",
        langfuse="langfuse.observation.model.name",
        vercel="ai.response.model ai.model.id",
    ),
    "provider": _names(
        genai="gen_ai.provider.name",
        genai_old="gen_ai.system",
        openinference="llm.provider llm.system",
        vercel="ai.model.provider",
    ),
    "streamed": _names(genai="gen_ai.request.stream", openllmetry="gen_ai.is_streaming llm.is_streaming"),
    "input": _names(
        genai="gen_ai.usage.input_tokens",
        genai_old="gen_ai.usage.prompt_tokens",
        openinference="llm.token_count.prompt",
        openllmetry="llm.usage.prompt_tokens",
        vercel="ai.usage.promptTokens ai.usage.inputTokens",
    ),
    "output": _names(
        genai="gen_ai.usage.output_tokens",
        genai_old="gen_ai.usage.completion_tokens",
        openinference="llm.token_count.completion",
        openllmetry="llm.usage.completion_tokens",
        vercel="ai.usage.completionTokens ai.usage.outputTokens",
    ),
    "cache_read": _names(
        genai="gen_ai.usage.cache_read.input_tokens",
        openinference="llm.token_count.prompt_details.cache_read",
        openllmetry="gen_ai.usage.cache_read_input_tokens",
        vercel="ai.usage.cachedInputTokens",
    ),
    "cache_write": _names(
        genai="gen_ai.usage.cache_write.input_tokens",
        genai_old="gen_ai.usage.cache_creation.input_tokens",
        openinference="llm.token_count.prompt_details.cache_write",
        openllmetry="gen_ai.usage.cache_creation_input_tokens",
    ),
    "reasoning": _names(
        genai="gen_ai.usage.reasoning.output_tokens",
        openinference="llm.token_count.completion_details.reasoning",
        openllmetry="gen_ai.usage.reasoning_tokens",
        vercel="ai.usage.reasoningTokens",
    ),
    "usage": _names(langfuse="langfuse.observation.usage_details"),
    "cost": _names(openinference="llm.cost.total", openllmetry="gen_ai.usage.cost"),
    "costs": _names(langfuse="langfuse.observation.cost_details"),
    "ttft_s": _names(
        genai="gen_ai.response.time_to_first_chunk", genai_old="gen_ai.server.time_to_first_token"
    ),
    "ttft_ms": _names(vercel="ai.response.msToFirstChunk"),
    "first_at": _names(langfuse="langfuse.observation.completion_start_time"),
    "error": _names(genai="error.type"),
    "response_id": _names(genai="gen_ai.response.id", vercel="ai.response.id"),
    "previous_response": _names(genai="gen_ai.request.previous_response.id"),
    "prompt_name": _names(genai="gen_ai.prompt.name", langfuse="langfuse.observation.prompt.name"),
    "prompt_version": _names(
        genai="gen_ai.prompt.version",
        langfuse="langfuse.observation.prompt.version",
        openinference="llm.prompt_template.version",
    ),
    "agent_name": _names(genai="gen_ai.agent.name"),
    "flag": _names(general="feature_flag.key"),
    "variant": _names(general="feature_flag.result.variant", genai_old="feature_flag.variant"),
    "tool_name": _names(
        genai="gen_ai.tool.name",
        openinference="tool.name",
        openllmetry="traceloop.entity.name",
        vercel="ai.toolCall.name",
    ),
    "tool_call_id": _names(
        genai="gen_ai.tool.call.id",
        openinference="tool_call.id tool.id",
        vercel="ai.toolCall.id",
    ),
    "tool_arguments": _names(
        genai="gen_ai.tool.call.arguments",
        langfuse="langfuse.observation.input",
        openinference="tool.parameters input.value",
        openllmetry="traceloop.entity.input",
        vercel="ai.toolCall.args",
    ),
    "tool_result": _names(
        genai="gen_ai.tool.call.result",
        langfuse="langfuse.observation.output",
        openinference="output.value",
        openllmetry="traceloop.entity.output",
        vercel="ai.toolCall.result",
    ),
}

# Content by form: JSON in one attribute, attributes with a number in their name, events of the span. The
# general ones come last: they repeat a whole request.
INPUT_JSON: Final = _names(genai="gen_ai.input.messages")
INPUT_NUMBERED: Final = _names(openllmetry="gen_ai.prompt llm.prompts", openinference="llm.input_messages")
INPUT_GENERAL: Final = _names(
    langfuse="langfuse.observation.input",
    vercel="ai.prompt.messages ai.prompt",
    openinference="input.value",
    openllmetry="traceloop.entity.input",
    genai_old="gen_ai.prompt",
)
SYSTEM: Final = _names(genai="gen_ai.system_instructions")
OUTPUT_JSON: Final = _names(genai="gen_ai.output.messages")
OUTPUT_NUMBERED: Final = _names(
    openllmetry="gen_ai.completion llm.completions", openinference="llm.output_messages"
)
OUTPUT_GENERAL: Final = _names(
    langfuse="langfuse.observation.output",
    vercel="ai.response.text",
    openinference="output.value",
    openllmetry="traceloop.entity.output",
    genai_old="gen_ai.completion",
)
OUTPUT_TOOLS: Final = _names(vercel="ai.response.toolCalls")
EVENTS_WITH_MESSAGES: Final = _names(
    genai="gen_ai.client.inference.operation.details",
    genai_old="gen_ai.content.prompt gen_ai.content.completion",
)
EVENTS_PER_MESSAGE: Final = _names(
    genai_old="gen_ai.system.message gen_ai.user.message gen_ai.assistant.message gen_ai.tool.message"
)
EVENTS_PER_CHOICE: Final = _names(genai_old="gen_ai.choice")
FIRST_TOKEN_EVENTS: Final = (
    Name(Dialect.OPENINFERENCE, "First Token Stream Event"),
    *_names(
        openllmetry="gen_ai.content.completion.chunk llm.content.completion.chunk",
        vercel="ai.stream.firstChunk",
    ),
)
EXCEPTION_EVENTS: Final = _names(general="exception", genai="gen_ai.client.operation.exception")
