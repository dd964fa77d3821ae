"""What the gateway does with a system prompt: recognises it, learns from it, serves its version."""

import logging
import queue
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from prx.domain.errors import StoreError
from prx.gateway.metrics import Metrics
from prx.gateway.prompts.learner import Kind, Learner, LearnRules
from prx.gateway.prompts.store import Learned, PromptFiles
from prx.gateway.prompts.template import Template, parse, slot_names
from prx.gateway.views import Body, SystemText, system_text, with_system_text
from prx.live.session import Session
from prx.spool.redact import CREDENTIALS, redact

_LOG = logging.getLogger("prx.gateway")
_WAITING = 1000
_KNOWN = 2048
_OBSERVED = 65_536
_REMEMBERED = 1000
_STILL_SENT = 0.2


@dataclass(frozen=True, slots=True)
class Managed:
    """An accepted prompt of one agent: its name, and the template that clients send now."""

    name: str
    template: Template
    text: str


@dataclass(frozen=True, slots=True)
class _Sent:
    agent: str
    text: str
    unit: str
    known: tuple[str, ...]
    at: datetime


class PromptBook:
    """Recognises on the hot path, learns on a thread of its own.

    Nothing is replaced but by a template that a person accepted, and only where it fits the whole system
    prompt. When clients send a changed text, it passes as sent from the first request on; once enough
    sessions have shown which of it are slots, it is offered to the agent as the prompt's new default.
    """

    def __init__(
        self,
        files: PromptFiles,
        metrics: Metrics,
        now: Callable[[], datetime],
        rules: LearnRules | None = None,
    ) -> None:
        self._files, self._metrics, self._now = files, metrics, now
        self._rules = rules or LearnRules()
        self._managed: dict[str, tuple[Managed, ...]] = {}
        self._stamp: tuple[tuple[int, int], ...] | None = None
        self._learned: dict[tuple[str, str], Learned] = {}
        self._learners: dict[str, Learner] = {}
        self._recognised: OrderedDict[tuple[str, str], tuple[Managed, dict[str, str]] | None] = OrderedDict()
        self._observed: OrderedDict[str, None] = OrderedDict()
        self._matched: dict[tuple[str, str], deque[datetime]] = {}
        self._sent: queue.Queue[_Sent | None] = queue.Queue(_WAITING)
        self._thread = threading.Thread(target=self._learn, name="prx-prompts", daemon=True)
        self._load()

    def start(self) -> None:
        """Begin to learn."""
        self._thread.start()

    def close(self) -> None:
        """Learn what is waiting, and stop."""
        if self._thread.is_alive():
            self._sent.put(None)
            self._thread.join(timeout=5)

    def look(self) -> None:
        """Take in what was accepted or removed since; called several times a second."""
        if self._files.stamp() != self._stamp:
            self._load()

    @property
    def agents(self) -> tuple[str, ...]:
        """Agents with accepted prompts."""
        return tuple(self._managed)

    def names(self, agent: str) -> tuple[str, ...]:
        """Names of an agent's accepted prompts."""
        return tuple(one.name for one in self._managed.get(agent, ()))

    def apply(self, session: Session, agent: str, user: str | None, view: Body, body: bytes) -> bytes:
        """See `prx.gateway.proxy.Prompts`."""
        found = system_text(view)
        if found is None:
            return body
        known = self._recognise(agent, found.text)
        if known is None:
            self._metrics.prompts["none"] += 1
            self._observe(session, agent, user, found.text)
            return body
        self._metrics.prompts["match"] += 1
        managed, values = known
        if self._first_of(session):
            self._matched.setdefault((agent, managed.name), deque(maxlen=_REMEMBERED)).append(self._now())
        text = session.prompt(managed.name, default=managed.text, **values)
        # A version written for other slots would show an empty one to the model.
        empty = slot_names(text)
        if text == found.text or (empty and empty - slot_names(found.text)):
            return body
        replaced = with_system_text(body, view, found, text)
        if replaced is body:
            return body
        _follow(view, found, text)
        self._metrics.prompts["replaced"] += 1
        return replaced

    def _recognise(self, agent: str, text: str) -> tuple[Managed, dict[str, str]] | None:
        managed = self._managed.get(agent)
        if not managed:
            return None
        key = (agent, text)
        if key in self._recognised:
            self._recognised.move_to_end(key)
            return self._recognised[key]
        found = None
        for one in managed:
            values = one.template.match(text)
            if values is not None:
                found = (one, values)
                break
        self._recognised[key] = found
        if len(self._recognised) > _KNOWN:
            self._recognised.popitem(last=False)
        return found

    def _observe(self, session: Session, agent: str, user: str | None, text: str) -> None:
        """Hand the first system prompt of a session to the learner; when it is busy, some are left out."""
        if not self._first_of(session):
            return
        known = tuple(one for one in (user, session.id) if one)
        try:
            self._sent.put_nowait(_Sent(agent, text, user or session.id, known, self._now()))
        except queue.Full:
            self._metrics.prompts["not_learned"] += 1

    def _first_of(self, session: Session) -> bool:
        if session.id in self._observed:
            return False
        self._observed[session.id] = None
        if len(self._observed) > _OBSERVED:
            self._observed.popitem(last=False)
        return True

    def _learn(self) -> None:
        while (sent := self._sent.get()) is not None:
            try:
                learner = self._learner(sent.agent)
                settled = learner.observe(sent.text, sent.unit, sent.at, sent.known)
                if settled is not None:
                    self._settle(sent.agent, learner, settled)
            except Exception as error:  # noqa: BLE001  learning must never end, and never matter to a request
                self._metrics.prompts["learning_failed"] += 1
                # The message may quote a prompt, which has no place in a log.
                _LOG.error("learning a prompt failed (%s); requests pass as they are", type(error).__name__)

    def _learner(self, agent: str) -> Learner:
        learner = self._learners.get(agent)
        if learner is None:
            learner = self._learners[agent] = Learner(self._rules)
            for one in self._learned.values():
                if one.agent == agent:
                    learner.adopt(parse(one.text, one.slots))
        return learner

    def _follows(self, agent: str, learner: Learner, kind: Kind) -> str | None:
        """The accepted prompt whose text clients changed to this kind: one that is alike, and that has
        all but vanished since; two kinds side by side are two prompts, or a slot not seen as one."""
        for one in self._managed.get(agent, ()):
            if learner.like(kind, one.template):
                since = kind.first_seen
                still = sum(at >= since for at in self._matched.get((agent, one.name), ()) if since)
                if still <= _STILL_SENT * kind.sent:
                    return one.name
        return None

    def _settle(self, agent: str, learner: Learner, kind: Kind) -> None:
        template = kind.template
        if redact(template.text, CREDENTIALS) != template.text:
            self._metrics.prompts["holds_credential"] += 1
            _LOG.warning("a system prompt holds a credential; it passes as it is and is not managed")
            return

        def named(known: tuple[Learned, ...]) -> Learned:
            taken = {one.name for one in known if one.agent == agent}
            taken |= {one.name for one in self._managed.get(agent, ())}
            names = ("system" if n == 1 else f"system-{n}" for n in range(1, len(taken) + 2))
            return Learned(
                agent=agent,
                name=next(name for name in names if name not in taken),
                text=template.text,
                slots=template.names,
                first_seen=kind.first_seen,
                follows=self._follows(agent, learner, kind),
            )

        self._files.learn(named)
        self._load()

    def _load(self) -> None:
        """Read both files; what cannot be read leaves everything as it was."""
        stamp = self._files.stamp()
        try:
            accepted, learned = self._files.accepted(), self._files.learned()
        except StoreError as error:
            if stamp != self._stamp:
                _LOG.error("prompts: %s; the last known stay", error)
            self._stamp = stamp
            return
        self._learned = {(one.agent, one.name): one for one in learned}
        managed: dict[str, tuple[Managed, ...]] = {}
        for one in accepted:
            changed = [n for n in learned if (n.agent, n.follows) == (one.agent, one.name)]
            # The newest text is what clients send; one that follows counts from when it was first seen.
            newest = max((n for n in changed if _later(n, one.at)), key=_since, default=None)
            text, slots = (one.text, one.slots) if newest is None else (newest.text, newest.slots)
            new = Managed(one.name, parse(text, slots), text)
            managed[one.agent] = (*managed.get(one.agent, ()), new)
        self._managed, self._stamp = managed, stamp
        self._recognised.clear()


def _later(learned: Learned, than: datetime) -> bool:
    return learned.first_seen is not None and learned.first_seen > than


def _since(learned: Learned) -> datetime:
    assert learned.first_seen is not None
    return learned.first_seen


def _follow(view: Body, found: SystemText, text: str) -> None:
    """Let the view, which is recorded, say what is sent."""
    if found.place is None:
        view.instructions = text
        return
    messages = view.messages if view.messages is not None else view.input
    message = messages[found.place]
    if found.part is None:
        message["content"] = text
    else:
        message["content"][found.part]["text"] = text
