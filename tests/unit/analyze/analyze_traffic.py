"""Seeded traffic for the detectors: traces and scores built by hand, without the product's own scoring."""

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from prx.domain.codec import content_hash
from prx.domain.ids import Ids
from prx.domain.records import (
    Feedback,
    Interaction,
    Message,
    Recall,
    SessionStart,
    ToolCall,
    ToolStatus,
    Trace,
    UnitSource,
)
from prx.domain.scores import SessionScore

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
BEGIN = NOW - timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Asked:
    """One session of a story; `ok` None when nothing tells the outcome."""

    user: str | None
    intent: str | None = "billing"
    model: str = "alpha"
    ok: bool | None = True
    request: str = "hello"
    response: str = "reply"
    answer: str | None = None
    prompt: str | None = None
    cost: float | None = None
    latency: float | None = None
    tools: tuple[tuple[str, ToolStatus, float], ...] = ()
    recall: float | None = None
    after: timedelta = timedelta()
    dimensions: dict[str, float] = field(default_factory=dict)


def traffic(asked: Iterable[Asked], *, agent: str = "default") -> tuple[list[Trace], dict[str, SessionScore]]:
    """Traces and scores, sessions named s0000, s0001 and so on."""
    traces: list[Trace] = []
    scores: dict[str, SessionScore] = {}
    for n, item in enumerate(asked):
        session = f"s{n:04d}"
        at = BEGIN + item.after + timedelta(seconds=n)
        told = dict(item.dimensions)
        if item.ok is not None:
            told["task_completion"] = float(item.ok)
        feedback = ()
        if item.answer is not None:
            feedback = (
                Feedback(
                    record_id=f"f{n}",
                    at=at,
                    target_kind="session",
                    target=session,
                    name="correction",
                    value=item.answer,
                ),
            )
        traces.append(
            Trace(
                start=SessionStart(
                    record_id=f"r{n}",
                    at=at,
                    session_id=session,
                    agent=agent,
                    user=item.user,
                    unit=item.user,
                    unit_source=UnitSource.USER if item.user else UnitSource.NONE,
                ),
                interactions=(
                    Interaction(
                        record_id=f"i{n}",
                        at=at,
                        session_id=session,
                        model=item.model,
                        intent=item.intent,
                        messages=(Message(role="user", content=item.request),),
                        response=item.response,
                        latency_ms=item.latency,
                        cost_usd=item.cost,
                        tool_calls=tuple(
                            ToolCall(name=name, status=status, latency_ms=wait)
                            for name, status, wait in item.tools
                        ),
                        recalls=() if item.recall is None else (Recall(memory_id="m", score=item.recall),),
                        prompts={} if item.prompt is None else {"main": content_hash(item.prompt)},
                    ),
                ),
                feedback=feedback,
            )
        )
        scores[session] = SessionScore(
            session_id=session,
            agent=agent,
            env="production",
            started_at=at,
            closes_at=at,
            closed=True,
            dimensions=told,
            user=item.user,
            intent=item.intent,
            model=item.model,
            success=item.ok,
            cost_usd=item.cost,
        )
    return traces, scores


def fresh_ids(seed: int = 1) -> Ids:
    return Ids(random.Random(seed))
