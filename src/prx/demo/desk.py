"""The app of the demo: an agent that routes messages through the SDK, and the people who react to it."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from prx.demo.bank import LABELS, PROMPT, PROMPT_NAME, Visit
from prx.demo.simulated import SimulatedModel
from prx.domain.ids import Ids
from prx.domain.records import Message, Record
from prx.domain.serving import Serving
from prx.live.evolution import Evolution
from prx.models.port import ChatRequest

AGENT = "default"


@dataclass(frozen=True, slots=True)
class People:
    """How often people react: shares of visits, 0..1."""

    outcome: float = 0.85
    tells_label: float = 0.6
    thumb: float = 0.15


@dataclass(slots=True)
class Desk:
    """Serves visits; records go into `buffer`, which the story hands to the store."""

    rng: random.Random
    model: SimulatedModel
    ids: Ids
    people: People = People()
    prompt: str = PROMPT
    clock: datetime = field(default_factory=lambda: datetime.fromisoformat("2026-01-05T00:00:00+00:00"))
    serving: Serving = field(default_factory=lambda: Serving(agent=AGENT))
    buffer: list[Record] = field(default_factory=list)
    evolution: Evolution = field(init=False)

    def __post_init__(self) -> None:
        sink: Callable[[Record], None] = self.buffer.append
        self.evolution = Evolution(
            lambda _agent: self.serving, sink, ids=self.ids, now=lambda: self.clock, clock=lambda: 0.0
        )

    def serve(self, visit: Visit, at: datetime) -> bool:
        """One session: prompt, model call, ticket, and what people say afterwards. True when right."""
        self.clock = at
        with self.evolution.session(user=visit.user, channel="chat") as session:
            system = session.prompt(PROMPT_NAME, default=self.prompt)
            messages = (Message(role="system", content=system), Message(role="user", content=visit.text))
            with session.call(model=self.model.name, provider="simulated", messages=messages) as call:
                reply = self.model.complete(ChatRequest(model=self.model.name, messages=messages))
                label = reply.text
                ticket = {
                    "name": "open_ticket",
                    "status": "ok" if label in LABELS else "failed",
                    "arguments": f'{{"desk": "{label}"}}',
                    "latency_ms": 30.0,
                }
                call.reply(
                    text=label,
                    tokens=reply.tokens,
                    tool_calls=(ticket,),
                    ttft_ms=reply.ttft_ms,
                    latency_ms=reply.latency_ms,
                    cost_usd=reply.cost_usd,
                )
        right = label == visit.label
        self._react(session.id, visit, right)
        return right

    def _react(self, session_id: str, visit: Visit, right: bool) -> None:
        people, rng = self.people, self.rng
        told, wrong, thumb = rng.random(), rng.random(), rng.random()
        happy = rng.random() < (0.9 if right else 0.15)
        self.clock += timedelta(minutes=rng.uniform(2, 30))
        if told < people.outcome:
            self._say(session_id, "task_outcome", float(right))
        if not right and wrong < people.tells_label:
            self._say(session_id, "expected", visit.label)
        if thumb < people.thumb:
            self._say(session_id, "thumb", float(happy))

    def _say(self, session_id: str, name: str, value: float | str) -> None:
        self.evolution.feedback(session=session_id, name=name, value=value, source="desk", at=self.clock)
