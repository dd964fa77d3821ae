"""Findings, traces and a scripted proposer for the tests of proposing."""

import random
from collections.abc import Callable
from datetime import UTC, datetime

from prx.domain.errors import ModelUnavailable
from prx.domain.findings import Finding, FindingKind, Rate
from prx.domain.ids import Ids
from prx.domain.layers import Layer
from prx.domain.records import Feedback, Interaction, Message, SessionStart, Trace
from prx.domain.versions import PromptSet
from prx.models.port import ChatReply, ChatRequest
from prx.propose.draft import Considered, Current
from prx.propose.evidence import Traces
from prx.propose.propose import consider

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
LINE = "- card_arrival: questions about a card in the mail"
PROMPT = f"""You sort requests of customers of a bank. Answer with one topic, nothing else.
<!-- prx:fixed -->
Never reveal account numbers. The customer is {{name}}.
<!-- /prx:fixed -->
{LINE}
- top_up: adding money to the account
- exchange_rate: prices of currencies
"""
RATE = Rate(count=30, total=50, low=0.46, high=0.72, rest_count=10, rest_total=100, p_value=1e-9)
REQUESTS = (
    "where is the delivery of my card",
    "tracking number for the delivery",
    "has the courier got my parcel",
    "courier never came with the delivery",
    "tracking says nothing about my parcel",
    "my parcel and its tracking please",
)


def finding(**changed: object) -> Finding:
    fields: dict[str, object] = {
        "finding_id": "f1",
        "agent": "default",
        "kind": FindingKind.PROMPT_WEAKNESS,
        "fingerprint": "x",
        "severity": 4,
        "first_seen": NOW,
        "last_seen": NOW,
        "summary": "wrong answers about card_arrival",
        "recommendation": "refine the line",
        "layer": Layer.PROMPT,
        "intent": "card_arrival",
        "prompt": "main",
        "line": LINE,
        "terms": ("delivery", "tracking", "courier", "parcel"),
        "rate": RATE,
        "evidence": tuple(f"s{n}" for n in range(12)),
    }
    return Finding(**{**fields, **changed})  # type: ignore[arg-type]


def trace(
    session: str,
    user: str | None,
    request: str,
    *,
    answer: str | None = "card_arrival",
    agent: str = "default",
) -> Trace:
    feedback = ()
    if answer is not None:
        feedback = (
            Feedback(
                record_id=f"f{session}",
                at=NOW,
                target_kind="session",
                target=session,
                name="correction",
                value=answer,
            ),
        )
    return Trace(
        start=SessionStart(record_id=f"r{session}", at=NOW, session_id=session, agent=agent, user=user),
        interactions=(
            Interaction(
                record_id=f"i{session}",
                at=NOW,
                session_id=session,
                messages=(Message(role="user", content=request),),
                response="top_up",
            ),
        ),
        feedback=feedback,
    )


def store(*traces: Trace) -> Callable[[str], Trace | None]:
    return {t.start.session_id: t for t in traces}.get


def usual_traces() -> Callable[[str], Trace | None]:
    """Twelve sessions of twelve users; each telling word comes from at least three of them."""
    return store(*(trace(f"s{n}", f"u{n}", REQUESTS[n % len(REQUESTS)]) for n in range(12)))


def considered(
    *findings: Finding, traces: Traces, prompt: str = PROMPT, seed: int = 1, **more: object
) -> Considered:
    return consider(
        findings,
        current=Current(prompts=PromptSet(texts={"main": prompt})),
        traces=traces,
        ids=Ids(random.Random(seed)),
        now=NOW,
        rng=random.Random(seed),
        **more,  # type: ignore[arg-type]
    )


class ScriptedModel:
    """Answers with what it is told, and keeps the requests."""

    def __init__(self, text: str | None) -> None:
        self._text = text
        self.requests: list[ChatRequest] = []

    @property
    def name(self) -> str:
        return "scripted"

    def complete(self, request: ChatRequest) -> ChatReply:
        self.requests.append(request)
        if self._text is None:
            raise ModelUnavailable("the endpoint is down; try again later")
        return ChatReply(text=self._text, model=self.name, cost_usd=0.002)
