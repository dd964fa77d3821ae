"""Every record store forgets in the same way, and stores nothing again that it forgot."""

from datetime import UTC, datetime, timedelta

import pytest

from prx.domain.erasure import Removed, Subject
from prx.domain.errors import InvalidInput
from prx.domain.names import bounded
from prx.domain.records import Feedback, Interaction, MemoryWritten, PromptSeen, Record, SessionStart
from prx.domain.scores import SessionScore
from prx.records import RecordStore

NOW = datetime(2026, 12, 1, 8, 0, tzinfo=UTC)
ADA = Subject(user="ada")


def start(key: str, user: str | None, *, tenant: str | None = None, at: datetime = NOW) -> SessionStart:
    return SessionStart(
        record_id=f"{key}-s", at=at, session_id=key, user=user, tenant=tenant, ref=f"ref-{key}"
    )


def feedback(record_id: str, kind: str, target: str, at: datetime) -> Feedback:
    return Feedback(record_id=record_id, at=at, target_kind=kind, target=target, name="n", value="x")


def whole(key: str, user: str | None, *, tenant: str | None = None, at: datetime = NOW) -> list[Record]:
    return [
        start(key, user, tenant=tenant, at=at),
        Interaction(record_id=f"{key}-i", at=at, session_id=key, model="m"),
        Feedback(
            record_id=f"{key}-f", at=at, target_kind="interaction", target=f"{key}-i", name="n", value="x"
        ),
        Feedback(record_id=f"{key}-r", at=at, target_kind="ref", target=f"ref-{key}", name="n", value="x"),
        Feedback(record_id=f"{key}-t", at=at, target_kind="session", target=key, name="n", value="x"),
    ]


def forget(records: RecordStore, subject: Subject = ADA, at: datetime = NOW) -> Removed:
    records.erasures.condemn(subject, records.erasures.sessions_of(subject), at)
    return records.erasures.carry_out()


def score(key: str) -> SessionScore:
    return SessionScore(
        session_id=key, agent="default", env="production", started_at=NOW, closes_at=NOW, closed=True,
        dimensions={},
    )  # fmt: skip


def test_an_erasure_takes_all_of_a_user_and_nothing_of_others(records: RecordStore) -> None:
    records.append([*whole("a1", "ada"), *whole("a2", "ada"), *whole("b1", "bob"), *whole("n1", None)])
    records.put_scores([score("a1"), score("b1")])
    others = [records.trace("b1"), records.trace("n1")]
    assert forget(records) == Removed(sessions=2, records=10, scores=1)
    assert [trace.start.session_id for trace in records.traces()] == ["b1", "n1"]
    assert [records.trace("b1"), records.trace("n1")] == others
    assert records.trace("a1") is None
    assert records.interaction("a1-i") is None
    assert [one.session_id for one in records.scores()] == ["b1"]
    assert records.counts() == {"sessions": 2, "interactions": 2, "feedback": 6, "scores": 1}
    assert forget(records) == Removed()


def test_what_was_erased_is_never_stored_again_whatever_comes_first(records: RecordStore) -> None:
    batch = whole("a1", "ada")
    records.append(batch)
    forget(records)
    assert records.append(list(reversed(batch))) == 0
    assert records.append(batch) == 0
    late = feedback("late", "interaction", "a1-i", NOW + timedelta(days=1))
    assert records.append([late]) == 0
    assert records.counts()["feedback"] == 0


def test_a_session_from_before_the_erasure_that_comes_in_pieces_goes_as_well(records: RecordStore) -> None:
    forget(records)
    before, parts = NOW - timedelta(hours=1), whole("a9", "ada", at=NOW - timedelta(hours=1))
    assert records.append(parts[1:]) == 4
    assert records.append([start("a9", "ada", at=before)]) == 0
    assert records.append([Interaction(record_id="later", at=NOW, session_id="a9")]) == 0
    records.erasures.carry_out()
    assert records.trace("a9") is None
    assert records.counts()["interactions"] == 0


def test_a_user_who_comes_back_is_recorded(records: RecordStore) -> None:
    records.append(whole("a1", "ada"))
    forget(records)
    later = NOW + timedelta(seconds=1)
    assert records.append(whole("a2", "ada", at=later)) == 5
    assert records.append([start("a3", "ada", at=NOW)]) == 0
    assert [trace.start.session_id for trace in records.traces()] == ["a2"]


@pytest.mark.parametrize(
    ("subject", "left"),
    [
        (Subject(user="ada", tenant="t1"), {"a2", "b1"}),
        (Subject(user="ada"), {"b1"}),
        (Subject(tenant="t1"), {"a2"}),
        (Subject(session="a2"), {"a1", "b1"}),
        (Subject(session="nothing"), {"a1", "a2", "b1"}),
    ],
)
def test_each_kind_of_subject_reaches_its_own_sessions(
    records: RecordStore, subject: Subject, left: set[str]
) -> None:
    given = [
        *whole("a1", "ada", tenant="t1"),
        *whole("a2", "ada", tenant="t2"),
        *whole("b1", "bob", tenant="t1"),
    ]
    records.append(given)
    forget(records, subject)
    assert {trace.start.session_id for trace in records.traces()} == left
    records.append(given)
    assert {trace.start.session_id for trace in records.traces()} == left


def test_a_memory_says_whose_it_is_without_a_session_start(records: RecordStore) -> None:
    records.append([MemoryWritten(record_id="m", at=NOW, session_id="s", text="x", user="ada")])
    assert records.erasures.sessions_of(ADA) == ("s",)
    forget(records)
    assert records.append([MemoryWritten(record_id="m2", at=NOW, session_id="s2", text="x", user="ada")]) == 0


def test_an_erasure_is_remembered_by_a_digest_and_told_as_done_once_it_is(records: RecordStore) -> None:
    made = records.erasures.condemn(ADA, (), NOW)
    assert (made.number, made.done, made.digest) == (1, False, records.erasures.digest(ADA))
    assert "ada" not in made.digest
    second = records.erasures.condemn(Subject(tenant="t"), (), NOW)
    records.erasures.finish(made.digest)
    assert [(one.number, one.done) for one in records.erasures.erasures()] == [(1, True), (2, False)]
    assert records.erasures.erasures(after=1) == (second,)


def test_a_default_of_a_prompt_is_emptied_and_its_reader_misses_nothing(records: RecordStore) -> None:
    def seen(key: str) -> PromptSeen:
        return PromptSeen(record_id=key, at=NOW, agent="a", name="n", text=key)

    records.append([seen("p1"), seen("p2")])
    after, _ = records.prompts_seen(after=0)
    assert records.erasures.blank_prompts(["p2", "nothing"]) == 1
    assert [one.text for one in records.prompts_seen(after=0)[1]] == ["p1"]
    assert records.append([seen("p2")]) == 0
    records.append([seen("p3")])
    assert [one.text for one in records.prompts_seen(after=after)[1]] == ["p3"]


def test_readers_by_cursor_go_on_after_an_erasure(records: RecordStore) -> None:
    records.append(whole("b1", "bob"))
    records.append(whole("a1", "ada"))
    after, _ = records.changed_sessions(after=0)
    forget(records)
    records.append(whole("b2", "bob"))
    assert records.changed_sessions(after=after)[1] == ("b2",)
    assert records.changed_sessions(after=0)[1] == ("b1", "b2")


def test_a_subject_must_be_named() -> None:
    with pytest.raises(InvalidInput, match="--user U"):
        Subject.of(user=None, tenant=None, session=None)
    with pytest.raises(InvalidInput, match="alone"):
        Subject.of(user="u", tenant=None, session="s")


@pytest.mark.parametrize(
    ("recorded", "told"),
    [
        ("Jose\u0301", "Jos\u00e9"),
        ("Jos\u00e9", "Jose\u0301"),
        ("u" * 300, "u" * 300),
        # As the gateway keeps a name of more than 256 characters.
        (bounded("u" * 300), "u" * 300),
    ],
)
def test_a_name_is_found_however_it_was_spelled_and_kept(
    records: RecordStore, recorded: str, told: str
) -> None:
    near = ["Jose", "Jos", "jos\u00e9", "u" * 299, "Jos\u00e9 "]
    batch = whole("s1", recorded, tenant=recorded)
    records.append([*batch, *(one for n, name in enumerate(near) for one in whole(f"n{n}", name))])
    assert forget(records, Subject(user=told)).sessions == 1
    assert records.append(batch) == 0
    records.append(whole(recorded, "bob"))
    assert forget(records, Subject(session=told)).sessions == 1
    records.append(whole("s2", "bob", tenant=recorded, at=NOW + timedelta(days=1)))
    assert forget(records, Subject(tenant=told), at=NOW + timedelta(days=1)).sessions == 1
    assert records.counts()["sessions"] == len(near)
