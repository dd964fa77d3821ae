"""The app of the demo: an agent that routes messages through the SDK, and the people who react to it."""

import random
from collections.abc import Sequence
from datetime import datetime, timedelta

from prx.demo.world.bank import (
    FOLLOW_UPS,
    LABELS,
    NOTED_TOPIC,
    NOTES,
    PROMPT,
    PROMPT_NAME,
    note_about,
    topic_of,
)
from prx.demo.world.customers import Visit
from prx.demo.world.flavours import CHAT, EMAIL, World
from prx.demo.world.reader import SimulatedModels
from prx.demo.world.steady import SteadyIds
from prx.domain.memory import Recalled
from prx.domain.records import DEFAULT_AGENT, Message, Record
from prx.domain.serving import Serving
from prx.live.calls import Call
from prx.live.evolution import Evolution
from prx.live.memories import Recaller, no_memories
from prx.live.session import Session
from prx.models.port import ChatReply, ChatRequest

AGENT = DEFAULT_AGENT


def default_model(world: World, channel: str) -> str:
    """The model that the app itself takes for a channel: chat must be cheap, a phone call must be right."""
    place = {CHAT: 0, EMAIL: 1}.get(channel, 2)
    return world.models[min(place, len(world.models) - 1)].name


def request_of(model: str, system: str, text: str, known: Sequence[str] = ()) -> ChatRequest:
    """What is sent to a model, and all that it sees: prompt, memories, message."""
    told = (Message(role="system", content="\n".join(f"Known: {one}" for one in known)),) if known else ()
    messages = (Message(role="system", content=system), *told, Message(role="user", content=text))
    return ChatRequest(model=model, messages=messages)


class Desk:
    """Serves visits; records go into `buffer` until they are taken. `prompt` is the app's own text."""

    def __init__(
        self,
        world: World,
        seed: int,
        models: SimulatedModels,
        start: datetime,
        recaller: Recaller = no_memories,
    ) -> None:
        self.prompt = PROMPT
        self.serving = Serving(agent=AGENT)
        self.buffer: list[Record] = []
        self._world, self._models, self._start, self._clock = world, models, start, start
        self._rng = random.Random(f"people/{seed}")
        self.evolution = Evolution(
            lambda _agent: self.serving,
            self.buffer.append,
            ids=SteadyIds(random.Random(f"records/{seed}"), start),
            now=lambda: self._clock,
            clock=lambda: 0.0,
            recaller=recaller,
        )

    def serve(self, visit: Visit, at: datetime) -> bool | None:
        """One session: prompt, route, model call, ticket, and what people say afterwards.

        True when the right desk got it, None when the provider failed.
        """
        self._clock = at
        topic = topic_of(visit.text)
        label = None
        with self.evolution.session(user=visit.user, channel=visit.channel, intent=topic) as session:
            system = session.prompt(PROMPT_NAME, default=self.prompt)
            model = session.route(topic, default=default_model(self._world, visit.channel))
            found = self._recalled(session, visit.text)
            request = request_of(model, system, visit.text, [one.text for one in found])
            with session.call(model=model, provider="simulated", messages=request.messages) as call:
                if self._down(at):
                    call.fail("503 service unavailable", status=503)
                else:
                    label = self._answer(call, self._models.complete(request))
        if label is None:
            return None
        if found and visit.follow_up and self._world.remembers:
            of_use = any(visit.label in one.text for one in found)
            if self._rng.random() < self._world.remembers.judged:
                self.evolution.feedback(
                    record=call, name="memory_relevant", value=float(of_use), at=self._clock
                )
        self._react(session, visit, label)
        return label == visit.label

    def take(self, until: datetime) -> list[Record]:
        """Records that exist by `until`."""
        ready = [record for record in self.buffer if record.at <= until]
        self.buffer[:] = [record for record in self.buffer if record.at > until]
        return ready

    def clerks(self, at: datetime) -> None:
        """Clerks write shared notes down for the assistant, for the hour that begins at `at`."""
        remembers = self._world.remembers
        if remembers is None or self._rng.random() >= remembers.notes / 24:
            return
        self._clock = at
        label = self._rng.choice(sorted(NOTES))
        with self.evolution.session(user="clerk", channel="notes", env="production") as session:
            session.remember(note_about(label, self._rng.randrange(100)), shared=True)

    def _recalled(self, session: Session, text: str) -> list[Recalled]:
        """Memories for a message: of the last case for who asks again, and notes where clerks write some."""
        if self._world.remembers is None:
            return []
        if text in FOLLOW_UPS:
            return session.recall("last case", k=1)
        return session.recall(text, k=1) if topic_of(text) == NOTED_TOPIC else []

    def _down(self, at: datetime) -> bool:
        outage = self._world.outage
        if outage is None:
            return False
        hours = [(at - self._start) / timedelta(hours=1) - day * 24 for day in outage.days]
        return any(0 <= since < outage.hours for since in hours) and self._rng.random() < outage.share

    def _answer(self, call: Call, reply: ChatReply) -> str:
        outside = self._rng.random() < self._world.people.tool_outage
        ticket = {
            "name": "open_ticket",
            "status": "ok" if reply.text in LABELS and not outside else "failed",
            "arguments": f'{{"desk": "{reply.text}"}}',
            "latency_ms": 30.0,
            "external": outside,
        }
        call.reply(
            text=reply.text,
            tokens=reply.tokens,
            tool_calls=(ticket,),
            ttft_ms=reply.ttft_ms,
            latency_ms=reply.latency_ms,
            cost_usd=reply.cost_usd,
        )
        return reply.text

    def _react(self, session: Session, visit: Visit, label: str) -> None:
        people, rng = self._world.people, self._rng
        right = label == visit.label
        if self._world.remembers and not visit.hostile and not visit.follow_up:
            session.remember(f"last case {visit.label}", subject="last case")
        told, thumb, mood = rng.random(), rng.random(), rng.random()
        self._clock += timedelta(minutes=rng.uniform(2, 30))
        if visit.hostile:
            self._say(session.id, "task_outcome", float(label == visit.told))
            if label != visit.told:
                self._say(session.id, "expected", visit.told)
            return
        if told >= people.outcome and label in LABELS:
            return
        self._say(session.id, "task_outcome", float(right))
        if not right:
            self._say(session.id, "expected", visit.told)
        if thumb < people.thumb:
            self._say(session.id, "thumb", float(mood < people.happy[0 if right else 1]))

    def _say(self, session_id: str, name: str, value: float | str) -> None:
        self.evolution.feedback(session=session_id, name=name, value=value, source="desk", at=self._clock)
