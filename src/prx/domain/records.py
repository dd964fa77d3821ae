"""What is recorded of live traffic: append-only facts, one type each."""

from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec

DEFAULT_AGENT = "default"
PRODUCTION = "production"


class Terminal(StrEnum):
    """How a model call ended; every accepted request gets exactly one."""

    COMPLETED = "completed"
    UPSTREAM_ERROR = "upstream_error"
    CLIENT_CANCELLED = "client_cancelled"
    SHUTDOWN_CUT = "shutdown_cut"
    CRASHED = "crashed"


class ToolStatus(StrEnum):
    """Whether a tool call did its work; `unknown` when neither the tool nor the table says."""

    OK = "ok"
    FAILED = "failed"
    UNKNOWN = "unknown"


class UnitSource(StrEnum):
    """Where the randomised unit of a session came from; `none` is not eligible for experiments."""

    USER = "user"
    SESSION = "session"
    NONE = "none"


class Message(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One message of a request, its content flattened to text; `tool_calls` are those an assistant made."""

    role: str
    content: str = ""
    name: str | None = None
    tool_call_id: str | None = None
    tool_calls: tuple["ToolCall", ...] = ()


class ToolCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One tool call that the model made; `arguments` and `result` are data, never executed."""

    name: str
    status: ToolStatus = ToolStatus.UNKNOWN
    call_id: str | None = None
    arguments: str | None = None
    result: str | None = None
    latency_ms: float | None = None
    external: bool = False


class Tokens(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Token counts; cache and reasoning counts are subsets of input and output. None: not told."""

    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    reasoning: int | None = None

    @property
    def total(self) -> int | None:
        """Input plus output, or None when either is unknown."""
        if self.input is None or self.output is None:
            return None
        return self.input + self.output


class ModelScore(msgspec.Struct, frozen=True, kw_only=True):
    """Routing score of one candidate model; every term in 0..1."""

    model: str
    similarity: float
    capability: float
    elo: float
    cost: float
    latency: float
    total: float


class Routing(msgspec.Struct, frozen=True, kw_only=True):
    """Why a model was chosen: the terms of each candidate and the probability of the chosen one.

    `scores`: the candidates, the app's own default first, as they were when it chose. `arms`: probability
    of every model that could have been chosen; they add up to 1. `intent`: what was asked to be routed.
    `escalated`: a cheaper answer had `confidence` (0..1, by `verifier`) below the threshold and this call
    followed it; the propensity is then that of the first choice.
    """

    chosen: str
    propensity: float
    scores: tuple[ModelScore, ...] = ()
    explored: bool = False
    escalated: bool = False
    arms: dict[str, float] = {}
    intent: str | None = None
    confidence: float | None = None
    verifier: str = ""


class Recall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One memory entry given to the model; `relevant` None when nobody judged it."""

    memory_id: str
    score: float
    relevant: bool | None = None


class SessionStart(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="session_start"):
    """A conversation began; scope and unit are fixed here."""

    record_id: str
    at: datetime
    session_id: str
    agent: str = DEFAULT_AGENT
    env: str = PRODUCTION
    tenant: str | None = None
    user: str | None = None
    unit: str | None = None
    unit_source: UnitSource = UnitSource.NONE
    channel: str | None = None
    ref: str | None = None
    source: str = "sdk"


class Interaction(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="interaction"):
    """One model call with what is known of it at its end.

    `at` is the start of the call; latencies in milliseconds; `cost_usd` None when no price is known;
    `time_known` False when an import had to use its own time; `prompts` maps a prompt name to the
    content hash of the template served, `prompt_values` to what filled its placeholders; `intent` is the
    classified kind of request.
    """

    record_id: str
    at: datetime
    session_id: str
    model: str = ""
    provider: str = ""
    intent: str | None = None
    messages: tuple[Message, ...] = ()
    response: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    terminal: Terminal = Terminal.COMPLETED
    error: str | None = None
    external_failure: bool = False
    streamed: bool = False
    ttft_ms: float | None = None
    latency_ms: float | None = None
    tokens: Tokens = Tokens()
    cost_usd: float | None = None
    retry: bool = False
    routing: Routing | None = None
    recalls: tuple[Recall, ...] = ()
    prompts: dict[str, str] = {}
    prompt_values: dict[str, dict[str, str]] = {}
    version: str | None = None
    ref: str | None = None
    source: str = "sdk"
    time_known: bool = True
    extra: dict[str, Any] = {}


class Feedback(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="feedback"):
    """An explicit signal about a session, an interaction or an app's own reference.

    `target_kind` is session, interaction or ref. Names with a meaning for fitness (FeedbackName);
    other names are kept and shown. `value` is a number in 0..1 for the known names. `record_id` is the
    caller's id when it gave one: sending it twice changes nothing. The latest `at` wins.
    """

    record_id: str
    at: datetime
    target_kind: str
    target: str
    name: str
    value: float | str
    source: str = "app"
    agent: str = DEFAULT_AGENT


class FeedbackName(StrEnum):
    """Feedback names that fitness reads; `value` in 0..1."""

    THUMB = "thumb"
    TASK_OUTCOME = "task_outcome"
    RELEVANCE = "relevance"
    CORRECTION = "correction"
    MEMORY_RELEVANT = "memory_relevant"
    ACCEPTED = "accepted"


class SessionEnd(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="session_end"):
    """The session was told to be over."""

    record_id: str
    at: datetime
    session_id: str


class Assignment(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="assignment"):
    """A unit was put into an arm of an experiment; written before any outcome."""

    record_id: str
    at: datetime
    experiment_id: str
    unit: str
    session_id: str
    variant: str


class Exposure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="exposure"):
    """What a session of an assigned unit was really served; `served` may differ from `assigned`."""

    record_id: str
    at: datetime
    experiment_id: str
    session_id: str
    assigned: str
    served: str


class PromptSeen(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="prompt_seen"):
    """The app offered this default text for a named prompt; a new text makes a version of the agent."""

    record_id: str
    at: datetime
    agent: str
    name: str
    text: str


class MemoryWritten(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="memory_written"):
    """A session asked to remember `text`; the record's id is the memory's id.

    It carries its own scope, so that who may read it never depends on another record having arrived.
    `shared`: for every user of the tenant; else for its user alone, or for its session where no user is
    known. `subject`: what it is about; a later one on the same subject takes its place. `pinned`: never
    pruned.
    """

    record_id: str
    at: datetime
    session_id: str
    text: str
    agent: str = DEFAULT_AGENT
    env: str = PRODUCTION
    tenant: str | None = None
    user: str | None = None
    shared: bool = False
    kind: str = "note"
    subject: str | None = None
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    pinned: bool = False


class RecallLogged(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="recall_logged"):
    """A session recalled memories for `query`; `found` is what it was given, best first. Replays of logged
    queries prove memory changes."""

    record_id: str
    at: datetime
    session_id: str
    query: str
    found: tuple[Recall, ...] = ()
    state: str = ""


Record = (
    SessionStart
    | Interaction
    | Feedback
    | SessionEnd
    | Assignment
    | Exposure
    | PromptSeen
    | MemoryWritten
    | RecallLogged
)


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """Everything recorded of one session, each list in order of time."""

    start: SessionStart
    interactions: tuple[Interaction, ...] = ()
    feedback: tuple[Feedback, ...] = ()
    assignments: tuple[Assignment, ...] = ()
    exposures: tuple[Exposure, ...] = ()
    ended_at: datetime | None = None
    memories: tuple[MemoryWritten, ...] = ()
    recalls: tuple[RecallLogged, ...] = ()

    @property
    def last_at(self) -> datetime:
        """Time of the newest interaction, or of the start."""
        return max((i.at for i in self.interactions), default=self.start.at)
