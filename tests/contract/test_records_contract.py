"""What every record store keeps, whichever database is under it."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from prx.domain.errors import InvalidInput, StoreError
from prx.domain.records import (
    Assignment,
    Exposure,
    Feedback,
    Interaction,
    PromptSeen,
    Record,
    SessionEnd,
    SessionStart,
    Trace,
)
from prx.domain.scores import Arm, SessionScore
from prx.records import RecordStore

T0 = datetime(2026, 12, 1, 8, 0, tzinfo=UTC)


def at(minutes: float) -> datetime:
    return T0 + timedelta(minutes=minutes)


def start(session_id: str, minutes: float = 0, **fields: Any) -> SessionStart:
    return SessionStart(record_id=f"start-{session_id}", at=at(minutes), session_id=session_id, **fields)


def call(session_id: str, number: int, minutes: float, **fields: Any) -> Interaction:
    return Interaction(
        record_id=f"{session_id}-call-{number}",
        at=at(minutes),
        session_id=session_id,
        response="ok",
        **fields,
    )


def thumb(record_id: str, kind: str, target: str, minutes: float = 5, **fields: Any) -> Feedback:
    return Feedback(
        record_id=record_id,
        at=at(minutes),
        target_kind=kind,
        target=target,
        name="thumb",
        value=1.0,
        **fields,
    )


def assigned(session_id: str, experiment: str = "x1", minutes: float = 0) -> list[Record]:
    return [
        Assignment(
            record_id=f"as-{session_id}-{experiment}",
            at=at(minutes),
            experiment_id=experiment,
            unit="u",
            session_id=session_id,
            variant="treatment",
        ),
        Exposure(
            record_id=f"ex-{session_id}-{experiment}",
            at=at(minutes),
            experiment_id=experiment,
            session_id=session_id,
            assigned="treatment",
            served="treatment",
        ),
    ]


def ids(traces: Iterator[Trace]) -> list[str]:
    return [trace.start.session_id for trace in traces]


def test_a_record_sent_twice_is_stored_once(records: RecordStore) -> None:
    batch = [start("s1"), call("s1", 1, 1), start("s1")]
    assert records.append(batch) == 2
    assert records.append(batch) == 0
    assert records.append([*batch, call("s1", 2, 2)]) == 1
    assert records.append([]) == 0
    assert records.counts() == {"sessions": 1, "interactions": 2, "feedback": 0, "scores": 0}


def test_a_batch_with_a_record_that_could_not_be_read_back_is_refused_whole(records: RecordStore) -> None:
    wrong: Any = "slow"
    with pytest.raises(InvalidInput, match="'s1-call-1' has a field of the wrong type"):
        records.append([start("s1"), call("s1", 1, 1, latency_ms=wrong)])
    assert records.counts()["sessions"] == 0
    assert records.changed_sessions(after=0) == (0, ())


def test_the_first_content_of_an_id_stays(records: RecordStore) -> None:
    records.append([start("s1", agent="first")])
    records.append([start("s1", agent="second")])
    assert ids(records.traces(agent="first")) == ["s1"]
    assert ids(records.traces(agent="second")) == []


def test_a_trace_holds_everything_of_its_session_in_order_of_time(records: RecordStore) -> None:
    opening = start("s1", ref="order-7", user="ada")
    calls = [call("s1", n, n) for n in range(1, 4)]
    given = [
        thumb("f1", "session", "s1", 6),
        thumb("f0", "interaction", "s1-call-2", 7),
        thumb("f2", "ref", "order-7", 5),
    ]
    records.append(
        [*reversed(calls), *assigned("s1"), SessionEnd(record_id="end", at=at(9), session_id="s1")]
    )
    records.append([*given, call("s2", 1, 1), opening])
    trace = records.trace("s1")
    assert trace is not None
    assert trace.start == opening
    assert trace.interactions == tuple(calls)
    assert [one.record_id for one in trace.feedback] == ["f2", "f1", "f0"]
    assert [(*trace.assignments, *trace.exposures)] == [tuple(assigned("s1"))]
    assert trace.ended_at == at(9)
    assert records.trace("nobody") is None


@pytest.mark.parametrize("feedback_first", [True, False])
@pytest.mark.parametrize("kind", ["session", "interaction", "ref", "ref of the call"])
def test_feedback_finds_its_session_whichever_arrives_first(
    records: RecordStore, kind: str, feedback_first: bool
) -> None:
    target = {"session": "s1", "interaction": "s1-call-1", "ref": "R", "ref of the call": "r"}[kind]
    traffic: list[Record] = [start("s1", ref="R"), call("s1", 1, 1, ref="r")]
    given: list[Record] = [thumb("f", kind.split(maxsplit=1)[0], target)]
    first, second = (given, traffic) if feedback_first else (traffic, given)
    records.append(first)
    cursor, _ = records.changed_sessions(after=0)
    records.append(second)
    trace = records.trace("s1")
    assert trace is not None
    assert [one.record_id for one in trace.feedback] == ["f"]
    assert records.changed_sessions(after=cursor)[1] == ("s1",)


def test_feedback_by_ref_stays_within_its_agent(records: RecordStore) -> None:
    records.append(
        [start("s1", ref="R", agent="a"), start("s2", ref="R", agent="b"), thumb("f", "ref", "R", agent="b")]
    )
    first, second = records.trace("s1"), records.trace("s2")
    assert first is not None
    assert second is not None
    assert (len(first.feedback), len(second.feedback)) == (0, 1)


def test_feedback_for_nobody_waits_and_touches_nothing(records: RecordStore) -> None:
    assert records.append([thumb("f1", "ref", "later"), thumb("f2", "interaction", "later")]) == 2
    assert records.changed_sessions(after=0) == (0, ())
    assert records.counts()["sessions"] == 0
    assert list(records.traces()) == []


def test_a_session_without_a_start_is_inferred_from_its_first_call_until_the_start_arrives(
    records: RecordStore,
) -> None:
    records.append([call("s1", 2, 2, source="otlp"), call("s1", 1, 1, source="otlp")])
    trace = records.trace("s1")
    assert trace is not None
    assert trace.start == SessionStart(record_id="inferred:s1", at=at(1), session_id="s1", source="otlp")
    assert ids(records.traces(agent="default", env="production")) == ["s1"]
    told = start("s1", 3, agent="support", env="staging")
    records.append([told])
    found = list(records.traces(agent="support", env="staging", since=at(3)))
    assert [one.start for one in found] == [told]
    assert list(records.traces(agent="default")) == []


def test_feedback_alone_makes_no_session(records: RecordStore) -> None:
    records.append([thumb("f", "session", "ghost"), SessionEnd(record_id="e", at=at(1), session_id="ghost")])
    assert records.trace("ghost") is None
    assert list(records.traces()) == []
    assert records.changed_sessions(after=0)[1] == ("ghost",)


def test_traces_filter_by_scope_time_and_experiment(records: RecordStore) -> None:
    records.append(
        [start(f"s{n}", n, agent=f"a{n % 2}", env="production" if n < 4 else "test") for n in range(6)]
    )
    records.append([*assigned("s1"), *assigned("s3"), *assigned("s3", "x2"), assigned("s5", "x2")[1]])
    assert ids(records.traces()) == ["s0", "s1", "s2", "s3", "s4", "s5"]
    assert ids(records.traces(agent="a0", env="production")) == ["s0", "s2"]
    assert ids(records.traces(since=at(1), until=at(3))) == ["s1", "s2"]
    assert ids(records.traces(experiment_id="x1")) == ["s1", "s3"]
    assert ids(records.traces(experiment_id="x2", env="test")) == ["s5"]
    assert ids(records.traces(newest_first=True, limit=2)) == ["s5", "s4"]
    assert ids(records.traces(limit=0)) == []


def test_traces_of_many_sessions_come_in_one_order_whatever_the_page_size_inside(
    records: RecordStore,
) -> None:
    # equal times: the order must not depend on arrival
    names = [f"s{n:04}" for n in range(1200)]
    records.append([start(name, (n // 100)) for n, name in reversed(list(enumerate(names)))])
    assert ids(records.traces()) == names
    assert ids(records.traces(newest_first=True)) == names[::-1]
    assert ids(records.traces(limit=700)) == names[:700]
    assert ids(records.traces(since=at(2), until=at(9), agent="default")) == names[200:900]
    assert ids(records.traces(since=at(2), until=at(9), newest_first=True, limit=500)) == names[400:900][::-1]


def test_scores_of_many_sessions_come_in_one_order_whatever_the_page_size_inside(
    records: RecordStore,
) -> None:
    names = [f"s{n:05}" for n in range(4500)]
    records.put_scores(
        score(name, n // 100, closed=n % 2 == 0) for n, name in reversed(list(enumerate(names)))
    )
    assert [one.session_id for one in records.scores()] == names
    assert [one.session_id for one in records.scores(agent="a", since=at(1), until=at(44))] == names[100:4400]
    assert [one.session_id for one in records.scores(closed_only=True)] == names[::2]


def test_records_that_arrive_during_a_read_do_not_break_it(records: RecordStore) -> None:
    records.append([start(f"s{n:04}", n) for n in range(600)])
    reading = records.traces()
    first = next(reading).start.session_id
    records.append([start("late", 10_000), start("early", -1)])
    rest = ids(reading)
    assert first == "s0000"
    assert "early" not in rest
    assert [name for name in rest if name != "late"] == [f"s{n:04}" for n in range(1, 600)]


def test_one_interaction_is_found_by_id_and_other_records_are_not(records: RecordStore) -> None:
    made = call("s1", 1, 1, extra={"nested": {"é": [1, 2.5, None]}}, prompts={"system": "sha256:x"})
    records.append([made, start("s1")])
    assert records.interaction("s1-call-1") == made
    assert records.interaction("start-s1") is None
    assert records.interaction("nope") is None


def test_ids_hold_any_character_and_sort_by_it(records: RecordStore) -> None:
    names = ["a", "a\x00", "a\x00\x01", "a\x01", "a\x01\x00", "a\x02", "aé", "a\U0001f600"]
    records.append([start(name, ref=f"r{name}") for name in reversed(names)])
    records.append([thumb("f", "ref", "ra\x00\x01")])
    assert ids(records.traces()) == names
    assert [len(trace.feedback) for trace in records.traces()] == [0, 0, 1, 0, 0, 0, 0, 0]
    assert records.changed_sessions(after=0)[1][-1] == "a\x00\x01"


def test_prompts_seen_are_read_once_by_cursor(records: RecordStore) -> None:
    seen = [PromptSeen(record_id=f"p{n}", at=at(n), agent="a", name="system", text=str(n)) for n in range(5)]
    records.append([seen[0], start("s1"), *seen[1:3]])
    cursor, page = records.prompts_seen(after=0, limit=2)
    assert page == tuple(seen[:2])
    records.append([*seen, seen[0]])
    cursor, page = records.prompts_seen(after=cursor)
    assert page == tuple(seen[2:])
    assert records.prompts_seen(after=cursor) == (cursor, ())


def test_changed_sessions_are_told_once_after_a_cursor_and_again_when_touched_again(
    records: RecordStore,
) -> None:
    records.append([start(f"s{n}") for n in range(5)])
    cursor, page = records.changed_sessions(after=0, limit=3)
    assert page == ("s0", "s1", "s2")
    records.append([call("s1", 1, 1), call("s1", 2, 1), call("s4", 1, 1)])
    cursor, page = records.changed_sessions(after=cursor, limit=10)
    assert page == ("s3", "s1", "s4")
    assert records.changed_sessions(after=cursor) == (cursor, ())
    records.append([call("s1", 1, 1)])
    assert records.changed_sessions(after=cursor) == (cursor, ())
    assert set(records.changed_sessions(after=0)[1]) == {"s0", "s1", "s2", "s3", "s4"}


def score(session_id: str, minutes: float, **fields: Any) -> SessionScore:
    given: dict[str, Any] = {
        "agent": "a",
        "env": "production",
        "started_at": at(minutes),
        "closes_at": at(minutes + 30),
        "closed": False,
        "dimensions": {"task_completion": 0.5},
    }
    return SessionScore(session_id=session_id, **{**given, **fields})


def test_scores_are_replaced_by_session_and_filtered(records: RecordStore) -> None:
    records.put_scores(
        [
            score("s2", 2),
            score("s1", 1),
            score(
                "s3",
                3,
                arms=(
                    Arm(experiment_id="y", assigned="control"),
                    Arm(experiment_id="x", assigned="treatment"),
                ),
                version="v1.1",
            ),
        ]
    )
    records.put_scores(iter([score("s2", 2, closed=True, agent="b"), score("s4", 4, env="test")]))

    def found(**wanted: Any) -> list[str]:
        return [one.session_id for one in records.scores(**wanted)]

    assert found() == ["s1", "s2", "s3", "s4"]
    assert found(agent="a", env="production") == ["s1", "s3"]
    assert found(since=at(2), until=at(4)) == ["s2", "s3"]
    assert found(experiment_id="x", version="v1.1") == ["s3"]
    assert found(experiment_id="x", version="v1.0") == []
    assert found(closed_only=True) == ["s2"]
    assert list(records.scores(agent="b")) == [score("s2", 2, closed=True, agent="b")]
    assert records.counts()["scores"] == 4


def test_unclosed_sessions_are_those_whose_window_has_passed(records: RecordStore) -> None:
    records.put_scores([score("s2", 2), score("s1", 1), score("s3", 3), score("s0", 0, closed=True)])
    assert records.unclosed_sessions(closing_before=at(33)) == ("s1", "s2")
    assert records.unclosed_sessions(closing_before=at(40), limit=1) == ("s1",)


def test_cursors_are_kept_by_name(records: RecordStore) -> None:
    assert records.cursor("scorer") == 0
    records.set_cursor("scorer", 7)
    records.set_cursor("scorer", 9)
    records.set_cursor("other", 1)
    assert (records.cursor("scorer"), records.cursor("other")) == (9, 1)


def test_a_closed_store_says_so(records: RecordStore) -> None:
    records.close()
    with pytest.raises(StoreError, match="closed"):
        records.append([start("s1")])
    with pytest.raises(StoreError, match="closed"):
        records.trace("s1")
