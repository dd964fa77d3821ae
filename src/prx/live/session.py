"""One conversation of an app: what it is served, the calls made in it, its start and end."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache, partial
from types import TracebackType
from typing import Any, TypeVar

from prx.domain.codec import content_hash
from prx.domain.experiments import TREATMENT
from prx.domain.layers import Layer
from prx.domain.memory import Reader, Recalled
from prx.domain.records import (
    DEFAULT_AGENT,
    PRODUCTION,
    Message,
    Recall,
    SessionEnd,
    SessionStart,
    UnitSource,
)
from prx.domain.routing import ModelFacts
from prx.domain.serving import ServedHoldback, Serving
from prx.live.arms import Arms, served_arm
from prx.live.assign import unit_of
from prx.live.automix import escalated_answer
from prx.live.calls import Call, CallFacts
from prx.live.memories import SessionMemories
from prx.live.prompts import placeholders, render
from prx.live.runtime import Runtime
from prx.live.shapes import last_user_text, messages_of
from prx.live.steering import Steering

CURRENT: ContextVar["Session | None"] = ContextVar("prx_session", default=None)
OTHER = "default"
T = TypeVar("T")

text_hash = lru_cache(maxsize=1024)(content_hash)


@dataclass(frozen=True, slots=True)
class Scope:
    """Who and what a session belongs to. `session_id` None: a new conversation."""

    session_id: str | None = None
    ref: str | None = None
    user: str | None = None
    agent: str = DEFAULT_AGENT
    tenant: str | None = None
    env: str = PRODUCTION
    channel: str | None = None
    intent: str | None = None
    anonymous: bool = False


@dataclass(frozen=True, slots=True)
class _Served:
    """A prompt as it was served: hash of the template, the values, and what came out, without blanks
    around it."""

    template_hash: str
    values: dict[str, str]
    text: str


class Session:
    """A conversation, as a context manager (also `async with`); wrapped clients find it by context.

    A session with a `session_id` of the app's own continues over several blocks and processes: its start
    is recorded once, and it ends when `end()` is called or when it has been idle. Nothing here raises into
    the app, except what the app's own code raised inside the block.
    """

    def __init__(self, runtime: Runtime, scope: Scope) -> None:
        self._runtime, self._scope = runtime, scope
        self.id = str(scope.session_id) if scope.session_id else runtime.new_id()
        self._arms = Arms(runtime, self.id, None if scope.anonymous else self.id, scope.user, scope.env)
        self._memories = SessionMemories(
            Reader(agent=scope.agent, env=scope.env, tenant=scope.tenant, user=scope.user, session_id=self.id)
        )
        self._prompts: dict[str, _Served] = {}
        self._steering = Steering(runtime, self._arms, scope.agent, self.id)
        self._started = self._ended = False
        self._apart = False
        self._tokens: list[Token[Session | None]] = []

    @property
    def agent(self) -> str:
        """Agent whose prompts and strategy are served."""
        return self._scope.agent

    @property
    def runtime(self) -> Runtime:
        """What this session shares with the other sessions of its Evolution."""
        return self._runtime

    def start(self) -> None:
        """Record the start; entering the block or the first use does it too."""
        if self._started:
            return
        self._started = True
        scope = self._scope
        unit, source = unit_of("auto", session_id=None if scope.anonymous else self.id, user=scope.user)
        record_id = f"start/{self.id}" if scope.session_id else self._runtime.new_id()
        self._runtime.emit(
            SessionStart(
                record_id=record_id,
                at=self._runtime.now(),
                session_id=self.id,
                agent=scope.agent,
                env=scope.env,
                tenant=scope.tenant,
                user=scope.user,
                unit=None if scope.anonymous else unit,
                unit_source=UnitSource.NONE if scope.anonymous else source,
                channel=scope.channel,
                ref=scope.ref,
                source=self._runtime.source,
            )
        )

    def end(self) -> None:
        """Record that the conversation is over; a second call does nothing."""
        if self._started and not self._ended:
            self._ended = True
            record_id = f"end/{self.id}" if self._scope.session_id else self._runtime.new_id()
            self._runtime.emit(SessionEnd(record_id=record_id, at=self._runtime.now(), session_id=self.id))

    def leave(self) -> None:
        """A block or turn is over: the session ends, unless it goes on under an id of the app's own."""
        if not self._scope.session_id:
            self.end()

    def prompt(self, name: str, /, *, default: str, **values: object) -> str:
        """Text of the prompt `name` for this session, its `{placeholders}` filled from `values`.

        `default` is the app's own text: it is served until the ledger knows the prompt, and again, at
        once, when the developer changes it.
        """
        text = self._runtime.faults.guard("prompt", lambda: self._prompt(name, default, values), None)
        if text is not None:
            return text
        return self._runtime.faults.guard("render", lambda: render(default, values), default)

    def route(
        self,
        intent: str | None = None,
        *,
        default: str,
        models: Sequence[ModelFacts | str] = (),
        tokens: int | None = None,
        similar: Mapping[str, float] | None = None,
    ) -> str:
        """Model to use for a request of this intent; `default` when the strategy has no say.

        `models`: those that the app can call, by name or with facts of its own; without them only a default
        model of the strategy applies. `tokens`: estimated size of the request. `similar`: how well each
        model did on like requests, 0..1.
        """
        wanted = intent or self._scope.intent
        return self._steer(
            "route", lambda: self._steering.route(wanted, default, models, tokens, similar or {}), default
        )

    def escalate(self, answer: str, *, to: str, question: str = "") -> str | None:
        """`to` when `answer`, of the model that `route` named, should be asked again of it; else None. At
        most once for a routed request."""
        return self._steer("escalate", lambda: self._steering.escalate(question, answer, to), None)

    def automix(
        self,
        ask: Callable[[str], str],
        *,
        cheap: str,
        premium: str,
        question: str = "",
        intent: str | None = None,
    ) -> str:
        """The answer of `ask(model)`: the routed model first, and once more the premium one when a cheap
        answer looks unsure. What the first call raises is raised; a failing premium call keeps the first
        answer."""
        model = self.route(intent, default=cheap, models=(cheap, premium))
        answer = ask(model)
        better = self.escalate(answer, to=premium, question=question) if model == cheap else None
        return answer if better is None else escalated_answer(answer, lambda: ask(premium))[0]

    def timeout(self, name: str, *, default: float) -> float:
        """Seconds to wait for the model or tool `name`."""
        return self._steer("timeout", lambda: self._steering.timeout(name, default), default)

    def concurrency(self, *, default: int) -> int:
        """Calls at a time on this session's channel."""
        channel = self._scope.channel or "default"
        return self._steer("concurrency", lambda: self._steering.concurrency(channel, default), default)

    def tools(self, offered: Sequence[str]) -> list[str]:
        """Those of the offered tools that the strategy leaves on, in the same order."""
        return self._steer("tools", lambda: self._steering.tools(offered), list(offered))

    def remember(
        self,
        text: str,
        *,
        shared: bool = False,
        kind: str = "note",
        subject: str | None = None,
        valid_from: datetime | None = None,
        valid_to: datetime | None = None,
        pinned: bool = False,
    ) -> str | None:
        """Remember a text for this session's user (for this session alone where none is known), or with
        `shared` for every user of the tenant; it can be recalled once the engine has taken it in.

        `subject`: what it is about; the entry on it that became valid last is the current one. `pinned`:
        never pruned. Returns the id of the memory, None when it was not taken (counted in `faults`).
        """

        def write() -> str:
            self.start()
            record_id = self._runtime.new_id()
            written = self._memories.written(
                record_id,
                text,
                at=self._runtime.now(),
                shared=shared,
                kind=kind,
                subject=subject,
                valid_from=valid_from,
                valid_to=valid_to,
                pinned=pinned,
            )
            self._runtime.emit(written)
            return record_id

        return self._runtime.faults.guard("remember", write, None)

    def recall(self, query: str, k: int = 5) -> list[Recalled]:
        """At most `k` memories for the query, best first, each (memory_id, text, score in 0..1).

        Empty when nothing fits, and when the memory cannot be read (counted in `faults`). What was recalled
        is recorded with the next call; feedback `memory_relevant` on that call says whether it was of use.
        """

        def find() -> list[Recalled]:
            self.start()
            runtime = self._runtime
            serving = runtime.served(self.agent)
            kept = self._arms.previous(serving, Layer.MEMORY, lambda _held: True)
            state = serving.memory if kept is None else kept.plan.previous
            found, logged = self._memories.recalled(
                runtime.recaller, query, k, at=runtime.now(), state=state, ids=runtime.ids
            )
            runtime.emit(logged)
            return found

        return self._runtime.faults.guard("recall", find, [])

    def call(
        self,
        *,
        model: str = "",
        messages: Any = (),
        provider: str = "",
        intent: str | None = None,
        tools: bool = False,
        streamed: bool = False,
        retry: bool = False,
        ref: str | None = None,
        recalls: Iterable[Recall] = (),
        started_at: datetime | None = None,
    ) -> Call:
        """A model call to be recorded: `with session.call(...) as call: ...; call.reply(...)`.

        `messages`: a text, or messages as mappings, objects or Message. `retry`: the user asked again.
        `started_at`: when it began, where it is told afterwards.
        """
        self.start()
        now = started_at or self._runtime.now()
        model, provider = str(model or ""), str(provider or "")

        def facts() -> CallFacts:
            said = messages_of(messages)
            prompts = self._used_prompts(said)
            routing = self._steering.routing
            routed = routing if routing and routing.chosen == model else None
            return CallFacts(
                session_id=self.id,
                at=now,
                model=model,
                provider=provider,
                intent=self._intent(intent or (routed.intent if routed else None), said, tools=tools),
                messages=said,
                streamed=streamed,
                retry=retry,
                routing=routed,
                recalls=self._memories.take(tuple(recalls)),
                prompts={name: served.template_hash for name, served in prompts.items()},
                prompt_values={name: served.values for name, served in prompts.items() if served.values},
                version=None if self._apart else self._runtime.served(self.agent).version,
                ref=None if ref is None else str(ref),
            )

        self._arms.begun = True
        known = self._runtime.faults.guard("call", facts, None)
        if known is None:
            known = CallFacts(session_id=self.id, at=now, model=model, provider=provider)
        return Call(self._runtime, known)

    @contextmanager
    def here(self) -> Iterator["Session"]:
        """Make this the current session of another thread for a block, without starting or ending it."""
        self._enter()
        try:
            yield self
        finally:
            self._leave()

    def _prompt(self, name: str, default: str, values: Mapping[str, object]) -> str:
        self.start()
        serving = self._runtime.served(self.agent)
        template = self._template(serving, name, default)
        text = render(template, values)
        holes = placeholders(template)
        filled = {key: str(value) for key, value in values.items() if key in holes}
        self._prompts[name] = _Served(text_hash(template), filled, text.strip())
        return text

    def _template(self, serving: Serving, name: str, default: str) -> str:
        known = self._stood_for(serving, name, default)
        champion = serving.prompts.get(name)
        own = champion is None or not known
        self._apart = self._apart or (own and champion is not None)
        chosen = default if champion is None or own else champion
        # An experiment that cannot be worked out is no reason to serve anything but the champion.
        work = partial(self._in_arms, serving, name, chosen, own=own)
        return self._runtime.faults.guard("experiment", work, chosen)

    def _in_arms(self, serving: Serving, name: str, chosen: str, *, own: bool) -> str:
        """The text of the arms that this session is in, `chosen` outside of all."""
        champion = serving.prompts.get(name)
        arms = self._arms.running(
            serving, Layer.PROMPT, lambda e: e.prompts is not None and name in e.prompts, may_enter=not own
        )
        kept = self._arms.previous(
            serving, Layer.PROMPT, lambda h: not own and _kept_text(h, name) not in (None, champion)
        )
        if kept is not None:
            return _kept_text(kept, name) or chosen
        for experiment, assigned in arms:
            served = OTHER if own else served_arm(assigned, killed=serving.killed)
            self._arms.expose(experiment, assigned, served)
            if served == TREATMENT and experiment.prompts is not None:
                chosen = experiment.prompts[name]
        return chosen

    def _stood_for(self, serving: Serving, name: str, default: str) -> bool:
        """Whether the champion may stand for the app's own text; else it is served as sent, and reported."""
        if not default:
            return True
        digest, earlier = text_hash(default), serving.earlier.get(name, ())
        stands = digest in serving.baselines.get(name, ())
        if earlier and (stands or digest in earlier):
            self._runtime.sight_prompt(self.agent, name, default, digest)
        elif not stands:
            self._runtime.report_prompt(self.agent, name, default, digest)
        return stands

    def _steer(self, place: str, work: Callable[[], T], fallback: T) -> T:
        def started() -> T:
            self.start()
            return work()

        return self._runtime.faults.guard(place, started, fallback)

    def _used_prompts(self, messages: tuple[Message, ...]) -> dict[str, _Served]:
        """Prompts whose text stands in the messages; all of the session when none is found as it was."""
        found = {
            name: served
            for name, served in self._prompts.items()
            if any(served.text in message.content for message in messages)
        }
        return found or self._prompts

    def _intent(self, told: str | None, messages: tuple[Message, ...], *, tools: bool) -> str:
        given = told or self._scope.intent
        if given:
            return given
        tool_result = bool(messages) and messages[-1].role == "tool"
        return str(self._runtime.classify(last_user_text(messages), tools=tools, tool_result=tool_result))

    def _enter(self) -> None:
        self._tokens.append(CURRENT.set(self))

    def _leave(self) -> None:
        try:
            CURRENT.reset(self._tokens.pop())
        except (ValueError, IndexError):
            # Left in another context than entered, as async generators do: that context has no session.
            CURRENT.set(None)

    def __enter__(self) -> "Session":
        self.start()
        self._enter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()
        self.leave()

    async def __aenter__(self) -> "Session":
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)


def _kept_text(held: ServedHoldback, name: str) -> str | None:
    """The previous text of a prompt; None where there was none."""
    return None if held.prompts is None else held.prompts.get(name)
