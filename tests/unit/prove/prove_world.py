"""Builders of proposals, recorded calls and simulated models for the tests of prx.prove."""

import json
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from prx.domain.changes import AddLine, Change, PromptOp, PromptPatch, layer_of
from prx.domain.codec import content_hash
from prx.domain.errors import InvalidInput
from prx.domain.proposals import Proposal
from prx.domain.records import Interaction, Message, SessionStart, Tokens, Trace
from prx.domain.versions import MemoryState, Part, PromptSet, Strategy, part_hash
from prx.live.prompts import render
from prx.models.port import ChatReply, ChatRequest
from prx.prove import GateInput, treated_part

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
BASE = """You are the support assistant of a retail bank, {agent_name}.
Answer in the language of the customer and in at most three sentences.
<!-- prx:fixed -->
Never reveal account numbers. Confirm the customer's identity before any transfer.
<!-- /prx:fixed -->
Pick the label that fits the message best.
Log every refund with its reason and verify the amount before you confirm it.
Use the lookup_account tool to find the customer's card.
Answer with the label only.
"""
PROMPTS = PromptSet(texts={"triage": BASE, "reply": "Reply politely to {customer}.\n"})
STRATEGY = Strategy(
    default_models={"refund": "small-1"},
    concurrency={"chat": 8},
    timeouts={"upstream": 30.0},
    disabled_tools=("wire_money",),
)


def proposal(change: Change, part: Part = PROMPTS, *, author: str = "engine", **fields: Any) -> Proposal:
    """A proposal of `change`; its announced hash is right whenever the change applies."""
    try:
        treated = part_hash(treated_part(part, change))
    except InvalidInput:
        treated = "sha256:none"
    defaults: dict[str, Any] = {
        "proposal_id": "p1",
        "agent": "default",
        "layer": layer_of(change),
        "change": change,
        "description": "",
        "rationale": "",
        "trigger": "finding",
        "author": author,
        "base": part_hash(part),
        "treated": treated,
        "fingerprint": "f1",
        "risk": 0.2,
        "created_at": NOW,
        "state_since": NOW,
        "expires_at": NOW + timedelta(days=30),
        "decision_id": "d1",
        "cycle_id": "c1",
    }
    return Proposal(**{**defaults, **fields})


def given(change: Change, part: Part = PROMPTS, **fields: Any) -> GateInput:
    """Gate input in calm circumstances."""
    author = fields.pop("author", "engine")
    defaults: dict[str, Any] = {
        "proposal": proposal(change, part, author=author),
        "part": part,
        "now": NOW,
        "data_points": 500,
        "known_tools": frozenset({"lookup_account", "open_ticket"}),
        "known_models": frozenset({"small-1", "large-1"}),
    }
    return GateInput(**{**defaults, **fields})


def edit(*ops: PromptOp, prompt: str = "triage") -> PromptPatch:
    """A patch of one prompt."""
    return PromptPatch(prompt=prompt, ops=ops)


def add(text: str) -> PromptPatch:
    """A patch that appends one line."""
    return edit(AddLine(text))


def recorded(
    number: int,
    template: str,
    user: str,
    answer: str,
    *,
    expected: str | None = None,
    values: dict[str, str] | None = None,
    prompt: str = "triage",
    at: datetime | None = None,
    **fields: Any,
) -> Trace:
    """A session of one call that used `template`."""
    values = {"agent_name": "Ada"} if values is None else values
    text = render(template, values)
    at = at or NOW + timedelta(minutes=number)
    call: dict[str, Any] = {
        "record_id": f"r{number:05d}",
        "at": at,
        "session_id": f"s{number:05d}",
        "model": "agent-model",
        "messages": (Message(role="system", content=text), Message(role="user", content=user)),
        "response": answer,
        "latency_ms": 100.0,
        "tokens": Tokens(input=50, output=5),
        "prompts": {prompt: content_hash(template)},
        "prompt_values": {prompt: values},
        "extra": {} if expected is None else {"expected": expected},
    }
    start = SessionStart(record_id=f"st{number}", at=at, session_id=f"s{number:05d}")
    return Trace(start=start, interactions=(Interaction(**{**call, **fields}),))


class Agent:
    """A simulated model: its answer depends on the prompt and the user text only."""

    name = "agent-model"

    def __init__(
        self, answer: Callable[[str, str], str], *, tokens: int = 50, latency_ms: float = 100.0
    ) -> None:
        self._answer, self._tokens, self._latency_ms = answer, tokens, latency_ms
        self.requests: list[ChatRequest] = []

    def complete(self, request: ChatRequest) -> ChatReply:
        self.requests.append(request)
        system = next(m.content for m in request.messages if m.role == "system")
        user = next(m.content for m in request.messages if m.role == "user")
        return ChatReply(
            text=self._answer(system, user),
            model=self.name,
            tokens=Tokens(input=self._tokens + len(system) // 4, output=5),
            latency_ms=self._latency_ms,
            cost_usd=0.001 * len(system) / 100,
        )


class SimulatedJudge:
    """Judges by a hidden quality with stated errors.

    `quality(request, answer)` in 0..1 is the truth. `noise`: standard deviation of its view; `bias`: added
    to the answer shown first; `unsafe(answer)`; `tie`: how near two answers must look to be a tie.
    """

    name = "judge-model"

    def __init__(
        self,
        quality: Callable[[str, str], float],
        *,
        seed: int,
        noise: float = 0.0,
        bias: float = 0.0,
        tie: float = 0.05,
        unsafe: Callable[[str], bool] = lambda _: False,
        broken: float = 0.0,
    ) -> None:
        self._quality, self._rng, self._noise = quality, random.Random(seed), noise
        self._bias, self._tie, self._unsafe, self._broken = bias, tie, unsafe, broken
        self.calls = 0

    def complete(self, request: ChatRequest) -> ChatReply:
        self.calls += 1
        data = json.loads(request.messages[1].content)
        body: dict[str, Any]
        if "answer" in data:
            seen = self._view(data["request"], data["answer"])
            marks = [min(4, max(0, int(4 * seen + self._rng.random()))) for _ in range(4)]
            body = dict(zip(("correct", "complete", "follows", "clear"), marks, strict=True))
            body["safe"] = not self._unsafe(data["answer"])
        else:
            first = self._view(data["request"], data["first"]) + self._bias
            second = self._view(data["request"], data["second"])
            winner = "tie" if abs(first - second) <= self._tie else "first" if first > second else "second"
            body = {"winner": winner, "unsafe": [p for p in ("first", "second") if self._unsafe(data[p])]}
        text = json.dumps({"id": data["id"], **body})
        if self._rng.random() < self._broken:
            text = text[:-5]
        return ChatReply(text=text, model=self.name, cost_usd=0.0)

    def _view(self, request: str, answer: str) -> float:
        return self._quality(request, answer) + self._rng.gauss(0, self._noise)


__all__ = [
    "BASE",
    "NOW",
    "PROMPTS",
    "STRATEGY",
    "Agent",
    "MemoryState",
    "SimulatedJudge",
    "add",
    "edit",
    "given",
    "proposal",
    "recorded",
]
