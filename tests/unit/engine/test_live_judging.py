"""Relevance of live sessions comes from a judged share, chosen without looking at arms."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest
from arranged import AGENT, Arranged, session

from prx.domain.errors import ModelUnavailable
from prx.domain.records import Interaction, Message
from prx.engine.context import Models
from prx.engine.engine import Engine
from prx.engine.judging import sampled
from prx.models.port import ChatReply, ChatRequest
from prx.settings import Settings


class Judge:
    """Gives full marks to `good` and half marks to anything else; `down` makes it fail."""

    name = "other-model"

    def __init__(self) -> None:
        self.asked = 0
        self.down = False

    def complete(self, request: ChatRequest) -> ChatReply:
        if self.down:
            raise ModelUnavailable("the judge is down; try later")
        self.asked += 1
        material = json.loads(request.messages[-1].content)
        mark = 4 if material["answer"] == "good" else 2
        marks = {"correct": mark, "complete": mark, "follows": mark, "clear": mark, "safe": True}
        return ChatReply(text=json.dumps({"id": material["id"], **marks}), model=self.name)


@pytest.fixture
def judged() -> tuple[Arranged, Judge]:
    settings = Settings()
    arranged = Arranged.new(replace(settings, judge=replace(settings.judge, live_share=0.5)))
    judge = Judge()
    arranged.context = replace(arranged.context, models=Models(judge=judge))
    arranged.engine = Engine(arranged.context)
    for k in range(80):
        for record in session(f"s{k}", arranged.now + timedelta(minutes=k)):
            if isinstance(record, Interaction):
                messages = (Message(role="user", content="hello"),)
                record = _with(record, messages, "good" if k % 2 else "poor")
            arranged.write([record])
    arranged.pass_hours(2)
    return arranged, judge


def _with(record: Interaction, messages: tuple[Message, ...], response: str) -> Interaction:
    import msgspec

    return msgspec.structs.replace(record, messages=messages, response=response)


def relevance(arranged: Arranged) -> dict[str, float]:
    scores = arranged.context.records.scores(agent=AGENT)
    return {
        s.session_id: s.dimensions["response_relevance"]
        for s in scores
        if "response_relevance" in s.dimensions
    }


def test_the_judged_share_gets_the_judges_scores_and_the_rest_stays_missing(
    judged: tuple[Arranged, Judge],
) -> None:
    arranged, judge = judged
    for _ in range(3):
        arranged.pass_hours(1)
        arranged.engine.advance(arranged.now)
    found = relevance(arranged)
    expected = {f"s{k}" for k in range(80) if sampled(f"s{k}/call", 0.5)}
    assert set(found) == expected
    assert all(value == (1.0 if int(key[1:]) % 2 else 0.5) for key, value in found.items())
    assert judge.asked == len(expected)


def test_a_judge_that_is_down_loses_nothing(judged: tuple[Arranged, Judge]) -> None:
    arranged, judge = judged
    judge.down = True
    report = arranged.engine.advance(arranged.now)
    assert any(step.what == "live_judge" and step.answer == "error" for step in report.steps)
    judge.down = False
    for _ in range(3):
        arranged.pass_hours(1)
        arranged.engine.advance(arranged.now)
    assert len(relevance(arranged)) == sum(sampled(f"s{k}/call", 0.5) for k in range(80))


def test_the_share_is_kept_over_many_ids() -> None:
    hits = sum(sampled(f"record-{k}", 0.3) for k in range(20_000))
    assert abs(hits / 20_000 - 0.3) < 4 * (0.3 * 0.7 / 20_000) ** 0.5
