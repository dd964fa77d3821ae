"""The reference page of what is read from traces, made from the mapping table."""

from collections.abc import Mapping

from prx.ingest.otlp import table
from prx.ingest.otlp.span import MOST_SPANS

HEAD = f"""# Traces of OpenTelemetry

The gateway takes `POST /v1/traces` (OTLP/HTTP, protobuf or JSON, gzip or none). Point an exporter at it:

    OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://127.0.0.1:3120/v1/traces
    OTEL_EXPORTER_OTLP_TRACES_HEADERS="authorization=Bearer TOKEN"

Protobuf needs the extra `otlp` (`pip install 'prx-evolution[otlp]'`); JSON needs nothing. Where tokens are
configured, the token needs scope `ingest`. The agent is that of the path (`/a/NAME/v1/traces`), of the
header `X-PRX-Agent`, or of the attribute `prx.agent`.

- **Leaf inference spans only.** A span that stands for a model call becomes one interaction, unless another
  such span stands below it: agents, chains and wrappers repeat the tokens of their children. A wrapper is
  known by the spans below it that came before or with it, which is the order in which exporters send; one
  that comes before its calls, or after a restart in between, is counted as a call.
- **Once.** The record's id is made of trace id and span id: what is exported again is stored once.
- **Tools.** A tool's span joins the call that asked for it, by call id, else by name, when both come in one
  request; else the result is read from what the next call was given.
- **Sessions.** The session is the one that the span names, else the one that its trace names, else the
  trace. A session that nobody named is no unit of an experiment. Feedback finds a call by `ref`, which is the
  trace id or the attribute `prx.ref`, and a session by its own name.
- **Analysis and offline evolution** use what came in this way. It takes part in no live experiment, since we
  served no variant; variants, prompt names and versions that a span tells are kept with the record.
- **Answers.** 200, with the number of rejected spans where some could not be taken; 400, 413 and 415 for what
  no repetition mends; 503 with `Retry-After` while the spool has no room or too many requests wait. A request
  has at most 16 MiB, 64 MiB unpacked, {MOST_SPANS:,} spans.

This is version {table.TABLE_VERSION} of the table; every record names the version that read it."""
CONTENT = {
    "request, JSON in one attribute": table.INPUT_JSON,
    "request, numbered attributes": table.INPUT_NUMBERED,
    "request, general": table.INPUT_GENERAL,
    "system instructions": table.SYSTEM,
    "answer, JSON in one attribute": table.OUTPUT_JSON,
    "answer, numbered attributes": table.OUTPUT_NUMBERED,
    "answer, general": table.OUTPUT_GENERAL,
    "tools in the answer": table.OUTPUT_TOOLS,
    "event with whole messages": table.EVENTS_WITH_MESSAGES,
    "event per message": table.EVENTS_PER_MESSAGE,
    "event with the answer": table.EVENTS_PER_CHOICE,
    "event at the first token": table.FIRST_TOKEN_EVENTS,
    "event of an error": table.EXCEPTION_EVENTS,
}


def otlp_page() -> str:
    """The whole page: which attribute says what, in order of precedence."""
    implied = " and ".join(f"`{key}`" for key in table.IMPLIED)
    kinds = "\n".join(f"| `{row.key}` | {row.dialect} | {_values(row)} |" for row in table.KINDS)
    return "\n\n".join(
        (
            HEAD,
            "## What a span stands for",
            "The first row that knows the value decides. A span that no row knows is a model call when it "
            f"carries {implied}.",
            f"| Attribute | Dialect | Values |\n|---|---|---|\n{kinds}",
            "## Values",
            "The first attribute that a span carries gives the value.",
            _names(table.FIELDS),
            "## Content",
            "The first form that gives something is taken.",
            _names(CONTENT) + "\n",
        )
    )


def _values(row: table.KindName) -> str:
    kinds = dict.fromkeys(row.values.values())
    return "; ".join(
        f"{kind}: " + ", ".join(f"`{told}`" for told, meant in row.values.items() if meant is kind)
        for kind in kinds
    )


def _names(groups: Mapping[str, tuple[table.Name, ...]]) -> str:
    rows = "\n".join(
        f"| {field} | " + ", ".join(f"`{name.key}` ({name.dialect})" for name in names) + " |"
        for field, names in groups.items()
    )
    return f"| Value | Attributes |\n|---|---|\n{rows}"
