"""Judging a share of live traffic: where the relevance of sessions comes from."""

import hashlib
import random
from collections.abc import Iterator

from prx.domain.errors import ModelUnavailable
from prx.domain.records import Feedback, FeedbackName, Interaction, Terminal, Trace
from prx.engine.turn import Turn
from prx.models.meter import BudgetSpent, PriceUnknown
from prx.prove.asking import Asker
from prx.prove.port import Unscored
from prx.prove.tasks import conversation, expected_answer

_BATCH = 200


def judge_live(turn: Turn) -> int:
    """Score sampled interactions that arrived since the last run; returns how many were scored.

    Which ones is a keyed hash of the record id, so both arms of an experiment are sampled alike. Stops,
    and goes on next time, when the budget is spent, the judge is down, or a run's share is done.
    """
    model = turn.context.models.judge
    if model is None:
        return 0
    given = turn.settings.judge
    asker = Asker(model, random.Random(turn.context.ids.secret()))
    name = f"judge/{turn.agent}"
    position, judged = turn.context.records.cursor(name), 0
    while True:
        cursor, sessions = turn.context.records.changed_sessions(after=position, limit=_BATCH)
        if not sessions:
            return judged
        for session_id in sessions:
            trace = turn.context.records.trace(session_id)
            if trace is None or trace.start.agent != turn.agent:
                continue
            for interaction in _unjudged(trace, given.live_share, model.name):
                if judged >= given.live_per_tick:
                    return judged
                try:
                    judged += _judge(turn, asker, trace, interaction)
                except (ModelUnavailable, BudgetSpent, PriceUnknown) as error:
                    turn.report.add("live_judge", model.name, "error", str(error))
                    return judged
        turn.context.records.set_cursor(name, cursor)
        position = cursor


def sampled(record_id: str, share: float) -> bool:
    """Whether an interaction belongs to the judged share, 0..1. Keyed BLAKE2b of its id."""
    digest = hashlib.blake2b(record_id.encode(), key=b"prx.judge", digest_size=8).digest()
    return int.from_bytes(digest, "big") < share * 2**64


def _unjudged(trace: Trace, share: float, judge: str) -> Iterator[Interaction]:
    done = {f.target for f in trace.feedback if f.source == f"judge:{judge}"}
    for interaction in trace.interactions:
        answered = interaction.terminal is Terminal.COMPLETED and (interaction.response or "").strip()
        if answered and interaction.record_id not in done and sampled(interaction.record_id, share):
            yield interaction


def _judge(turn: Turn, asker: Asker, trace: Trace, interaction: Interaction) -> int:
    reference = expected_answer(trace, interaction)
    rated = asker.score(conversation(interaction.messages), interaction.response or "", reference)
    if isinstance(rated, Unscored):
        turn.report.add("live_judge", interaction.record_id, "error", rated.why)
        return 0
    told = Feedback(
        record_id=f"relevance/{asker.judge.name}/{interaction.record_id}",
        at=turn.now,
        target_kind="interaction",
        target=interaction.record_id,
        name=FeedbackName.RELEVANCE,
        value=rated.score,
        source=f"judge:{asker.judge.name}",
        agent=turn.agent,
    )
    turn.context.records.append([told])
    return 1
