"""The app's way in: sessions, prompts, calls and feedback, none of which ever raises into the app."""

import atexit
import math
import threading
import time
import weakref
from collections.abc import Callable
from datetime import UTC, datetime
from types import TracebackType
from typing import TypeVar

from prx.domain.errors import InvalidInput
from prx.domain.forking import renew_in_children
from prx.domain.ids import Ids, system_ids
from prx.domain.prices import Prices
from prx.domain.records import (
    DEFAULT_AGENT,
    PRODUCTION,
    Feedback,
    FeedbackName,
    Record,
    Terminal,
)
from prx.domain.serving import Serving
from prx.domain.times import utc_now
from prx.live.calls import Call
from prx.live.intent import classify as by_words
from prx.live.memories import Recaller, no_memories
from prx.live.runtime import Classify, Runtime
from prx.live.session import CURRENT, Scope, Session

T = TypeVar("T")
_WORDS = {"up": 1.0, "down": 0.0, "yes": 1.0, "no": 0.0, "true": 1.0, "false": 0.0}
_KNOWN = frozenset(name.value for name in FeedbackName)


class Evolution:
    """Records what an app does and serves what has been proven; one per process, shared by threads.

    Args: `serving`: champion and experiments of an agent, from memory (a ServingPoller). `sink`: takes each
        record, such as a spool writer's `append`. `flush`: brings what was taken to safety within the given
        seconds and says whether it did. `on_close`: runs once, after the last record. `recaller`: finds
        memories in the local store.
    """

    def __init__(
        self,
        serving: Callable[[str], Serving],
        sink: Callable[[Record], None],
        *,
        ids: Ids | None = None,
        now: Callable[[], datetime] = utc_now,
        clock: Callable[[], float] = time.perf_counter,
        prices: Prices | None = None,
        classify: Classify = by_words,
        flush: Callable[[float], bool] = lambda _deadline: True,
        on_close: Callable[[], None] = lambda: None,
        recaller: Recaller = no_memories,
    ) -> None:
        self._runtime = Runtime(
            serving,
            sink,
            ids or system_ids(),
            now,
            clock,
            prices or Prices(),
            classify,
            recaller=recaller,
        )
        self._flush, self._on_close = flush, on_close
        self._closed = False
        self._at_exit = _close_at_exit(self)

    @property
    def runtime(self) -> Runtime:
        """What all sessions of this Evolution share."""
        return self._runtime

    @property
    def faults(self) -> dict[str, int]:
        """Our own errors so far, by place; the app never saw them."""
        return self._runtime.faults.counts

    def guard(self, place: str, work: Callable[[], T]) -> T | None:
        """What `work` gives; None when it fails, which is counted and logged but never raised."""
        return self._runtime.faults.guard(place, work, None)

    def session(
        self,
        ref: str | None = None,
        *,
        session_id: str | None = None,
        user: str | None = None,
        agent: str = DEFAULT_AGENT,
        tenant: str | None = None,
        env: str = PRODUCTION,
        channel: str | None = None,
        intent: str | None = None,
    ) -> Session:
        """A conversation. `ref`: any key of the app's, for later feedback. `user`: keeps a person's
        sessions in one arm. `session_id`: continue a conversation that spans requests or processes; it
        must be unique in the whole deployment."""
        return Session(
            self._runtime,
            Scope(
                session_id=self._word(session_id),
                ref=self._word(ref),
                user=self._word(user),
                agent=self._word(agent) or DEFAULT_AGENT,
                tenant=self._word(tenant),
                env=PRODUCTION if (told := self._word(env)) is None else told,
                channel=self._word(channel),
                intent=self._word(intent),
            ),
        )

    def _word(self, value: object) -> str | None:
        # an object of the app's whose own __str__ fails counts as not given
        return self.guard("session argument", lambda: None if value is None else str(value))

    def current(self) -> Session | None:
        """The session of this context, if it is one of ours."""
        session = CURRENT.get()
        return session if session is not None and session.runtime is self._runtime else None

    def anonymous(self, agent: str = DEFAULT_AGENT) -> Session:
        """A session of its own for a call made outside any; not eligible for experiments."""
        return Session(self._runtime, Scope(agent=str(agent), anonymous=True))

    def feedback(
        self,
        *,
        name: str,
        value: float | bool | str,
        ref: str | None = None,
        session: Session | str | None = None,
        record: Call | str | None = None,
        at: datetime | None = None,
        source: str = "app",
        feedback_id: str | None = None,
        agent: str | None = None,
    ) -> bool:
        """Say how something went: of a `ref`, a `session` or a `record` (one of the three; none of them
        means the current session). True when it was taken. Known names take 0..1, or `up` and `down`;
        the same `feedback_id` twice changes nothing; the latest `at` wins. A time without a zone is
        this machine's."""

        def tell() -> bool:
            current = self.current()
            kind, target = _target(ref, session, record, current)
            self._runtime.sink(
                Feedback(
                    record_id=str(feedback_id) if feedback_id else self._runtime.new_id(),
                    at=_time(at, self._runtime.now()),
                    target_kind=kind,
                    target=target,
                    name=str(name),
                    value=_value(str(name), value),
                    source=str(source),
                    agent=agent or (session if isinstance(session, Session) else current or _NOBODY).agent,
                )
            )
            return True

        return self._runtime.faults.guard("feedback", tell, False)

    def flush(self, deadline: float = 5.0) -> bool:
        """Bring everything recorded so far to safety within `deadline` seconds; False when time ran out."""
        done: list[bool] = []

        def work() -> None:
            done.append(self._runtime.faults.guard("flush", lambda: self._flush(deadline), False))

        thread = threading.Thread(target=work, name="prx-flush", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            # The interpreter is going down and starts no more threads.
            work()
        else:
            thread.join(deadline)
        return bool(done and done[0])

    def close(self, deadline: float = 5.0) -> bool:
        """End the calls that are still open as cut, flush and let go; a second close does nothing."""
        if self._closed:
            return True
        self._closed = True
        atexit.unregister(self._at_exit)
        for call in list(self._runtime.open_calls.values()):
            call.finish(Terminal.SHUTDOWN_CUT)
        flushed = self.flush(deadline)
        self._runtime.faults.guard("close", self._on_close, None)
        return flushed

    def __enter__(self) -> "Evolution":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _after_fork(self) -> None:
        self._runtime.after_fork()


class _Nobody:
    agent = DEFAULT_AGENT


_NOBODY = _Nobody()


def _time(told: datetime | None, now: datetime) -> datetime:
    if told is None:
        return now
    if not isinstance(told, datetime):
        raise InvalidInput(f"feedback takes a datetime as `at`, not {told!r:.60}")
    return told if told.tzinfo is not None else told.astimezone(UTC)


def _target(
    ref: str | None, session: Session | str | None, record: Call | str | None, current: Session | None
) -> tuple[str, str]:
    given = [
        (kind, thing)
        for kind, thing in (("ref", ref), ("session", session), ("interaction", record))
        if thing is not None
    ]
    if len(given) > 1:
        raise InvalidInput("feedback is about one thing; give ref, session or record, not several")
    if not given:
        if current is None:
            raise InvalidInput("feedback outside a session needs ref=, session= or record=")
        return "session", current.id
    kind, thing = given[0]
    return kind, thing.id if isinstance(thing, Session | Call) else str(thing)


def _value(name: str, value: float | bool | str) -> float | str:
    if isinstance(value, str) and name in _KNOWN:
        value = _WORDS.get(value.strip().lower(), value)
    if isinstance(value, str):
        if name in _KNOWN:
            raise InvalidInput(f"feedback {name!r} takes a number from 0 to 1, or up and down, not {value!r}")
        return value
    number = float(value)
    if not math.isfinite(number) or (name in _KNOWN and not 0.0 <= number <= 1.0):
        raise InvalidInput(f"feedback {name!r} takes a finite number{' from 0 to 1' * (name in _KNOWN)}")
    return number


def _close_at_exit(evolution: Evolution) -> Callable[[], None]:
    """Register the last flush and the fresh start of forked children, without keeping it alive."""
    reference = weakref.ref(evolution)

    def at_exit() -> None:
        alive = reference()
        if alive is not None:
            alive.close()

    atexit.register(at_exit)
    renew_in_children(evolution._after_fork)
    return at_exit
