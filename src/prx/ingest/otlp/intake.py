"""Spans as they arrive, batch by batch, to records: leaves are told from wrappers, each counted once."""

import re
import threading
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from prx.domain.records import DEFAULT_AGENT, PRODUCTION, Interaction, Record, SessionStart, UnitSource
from prx.ingest.drafting import Source, start_record
from prx.ingest.otlp.calls import interaction, joined
from prx.ingest.otlp.reading import kind_of, moment, word
from prx.ingest.otlp.span import Span
from prx.ingest.otlp.table import Kind
from prx.ingest.plain import Misfit

NAME = "otlp"
_AGENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_DEEPEST = 200
_SCOPE = ("session", "user", "tenant", "env", "channel", "agent")
_PRODUCTION = frozenset({"production", "prod", "default", "live"})

_Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Taken:
    """What became of a batch: its records, and how many spans were rejected, with the first reason.

    `seen` counts spans: `call`, `wrapper` (an inference span above another one), `tool`, `tool_alone` (no
    call of this batch had asked for it), `other`.
    """

    records: tuple[Record, ...] = ()
    rejected: int = 0
    why: str = ""
    seen: Counter[str] = field(default_factory=Counter)


class _Recent(OrderedDict[Any, Any]):
    """The last `kept` things that were put."""

    def __init__(self, kept: int) -> None:
        super().__init__()
        self._kept = kept

    def put(self, key: Any, value: Any) -> None:
        """Remember it, and forget the oldest beyond the bound."""
        self[key] = value
        self.move_to_end(key)
        if len(self) > self._kept:
            self.popitem(last=False)


class Intake:
    """Remembers, bounded, what later batches need: which span stands above which, and what a trace said of
    its session. Exporters send a span when it ends, so children come before or with their parents.

    Threads may share it. Nothing survives a restart: a wrapper whose calls came before it counts as a call.
    """

    def __init__(
        self, *, spans_kept: int = 200_000, traces_kept: int = 20_000, most_agents: int = 200
    ) -> None:
        self._parents, self._above = _Recent(spans_kept), _Recent(spans_kept)
        self._scopes = _Recent(traces_kept)
        self._agents: set[str] = {DEFAULT_AGENT}
        self._most_agents = most_agents
        self._lock = threading.Lock()

    def take(self, spans: Iterable[Span], *, agent: str, now: datetime) -> Taken:
        """The records of a batch; the same batch gives the same records again.

        Args: `agent`: for whom the batch was sent, where its spans name none. `now`: for spans without time.
        """
        with self._lock:
            return self._take(list(spans), agent, now)

    def _take(self, spans: list[Span], agent: str, now: datetime) -> Taken:
        valid = [span for span in spans if span.valid]
        problems = ["the trace or span id is not valid"] * (len(spans) - len(valid))
        kinds = {(s.trace, s.id): kind_of(s) for s in valid}
        self._note(valid, kinds)
        seen: Counter[str] = Counter()
        leaves: dict[str, list[Span]] = defaultdict(list)
        tools: dict[str, list[Span]] = defaultdict(list)
        for span in sorted(valid, key=lambda one: one.start):
            key = (span.trace, span.id)
            kind = kinds[key]
            wraps = kind is Kind.INFERENCE and key in self._above
            seen["wrapper" if wraps else "call" if kind is Kind.INFERENCE else kind.value] += 1
            if kind is Kind.INFERENCE and not wraps:
                leaves[span.trace].append(span)
            elif kind is Kind.TOOL:
                tools[span.trace].append(span)
        records: list[Record] = []
        for trace, found in leaves.items():
            try:
                one, alone = self._trace(trace, found, tools.pop(trace, []), agent, now)
            except Misfit as error:
                problems += [str(error)] * len(found)
                continue
            seen["tool_alone"] += alone
            records += one
        seen["tool_alone"] += sum(map(len, tools.values()))
        return Taken(tuple(records), len(problems), problems[0] if problems else "", seen)

    def _note(self, spans: Sequence[Span], kinds: dict[_Key, Kind]) -> None:
        for span in spans:
            self._parents.put((span.trace, span.id), span.parent)
            told = {name: found for name in _SCOPE if (found := word(name, span.attributes)) is not None}
            known = self._scopes.get(span.trace, {})
            # The first that says it wins, so that a trace does not change its session half-way.
            self._scopes.put(span.trace, {**told, **known})
        for span in spans:
            key = (span.trace, span.id)
            if kinds[key] is Kind.INFERENCE or key in self._above:
                self._mark_above(span)

    def _mark_above(self, span: Span) -> None:
        parent, steps = span.parent, 0
        while parent and steps < _DEEPEST:
            self._above.put((span.trace, parent), None)
            parent, steps = self._parents.get((span.trace, parent), ""), steps + 1

    def _trace(
        self, trace: str, leaves: list[Span], tools: list[Span], agent: str, now: datetime
    ) -> tuple[list[Record], int]:
        scopes = [self._scope(span, agent) for span in leaves]
        calls: list[Interaction] = []
        starts: dict[str, SessionStart] = {}
        for span, scope in zip(leaves, scopes, strict=True):
            source = Source(NAME, scope["agent"], now)
            session_id = source.session_id(scope.get("session") or trace)
            calls.append(interaction(span, session_id, source))
            starts.setdefault(session_id, _start(source, session_id, scope, trace, moment(span.start) or now))
        with_tools, alone = joined(calls, tools)
        return [*starts.values(), *with_tools], alone

    def _scope(self, span: Span, agent: str) -> dict[str, str]:
        """Who and what the span's session belongs to: its own word, else its trace's, else its process's."""
        told = dict(self._scopes.get(span.trace, {}))
        for name in _SCOPE:
            own = word(name, span.attributes, {}) or told.get(name) or word(name, span.resource)
            if own is not None:
                told[name] = own
        told["agent"] = self._agent(told.get("agent") or agent)
        return told

    def _agent(self, name: str) -> str:
        if name not in self._agents:
            if not _AGENT.fullmatch(name):
                raise Misfit("an agent's name has 1 to 64 letters, digits, dots, dashes and underscores")
            if len(self._agents) >= self._most_agents:
                # Names must not come without end: each agent costs the engine work.
                raise Misfit(f"more than {self._most_agents} agents were named")
            self._agents.add(name)
        return name


def _start(source: Source, session_id: str, scope: dict[str, str], trace: str, at: datetime) -> SessionStart:
    """The session's start. One that nobody named is a trace of its own, and no unit of an experiment."""
    env = scope.get("env") or PRODUCTION
    start = start_record(
        source,
        session_id=session_id,
        at=at,
        user=scope.get("user"),
        env=PRODUCTION if env.lower() in _PRODUCTION else env,
        tenant=scope.get("tenant"),
        channel=scope.get("channel"),
        ref=scope.get("session") or trace,
    )
    if start.user is None and "session" not in scope:
        return msgspec.structs.replace(start, unit=None, unit_source=UnitSource.NONE)
    return start
