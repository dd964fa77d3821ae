"""However records arrive, the traces are the same."""

import random
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

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
from prx.records import RecordStore, open_memory, open_sqlite

T0 = datetime(2026, 12, 1, 8, 0, tzinfo=UTC)
SESSIONS = ["s1", "s2", "s3"]


def traffic(rng: random.Random) -> list[Record]:
    """Records with equal times, missing starts, shared references and feedback to nobody."""
    made: list[Record] = []
    for number in range(rng.randrange(1, 25)):
        at, session = T0 + timedelta(minutes=rng.randrange(5)), rng.choice(SESSIONS)
        ref = rng.choice([None, "r1", "r2"])
        name, agent = f"id{number}", rng.choice(["default", "a"])
        kind = rng.randrange(8)
        if kind == 0:
            made.append(SessionStart(record_id=name, at=at, session_id=session, agent=agent, ref=ref))
        elif kind in (1, 2):
            made.append(Interaction(record_id=name, at=at, session_id=session, ref=ref))
        elif kind in (3, 4):
            target_kind = rng.choice(["session", "interaction", "ref"])
            target = {"session": session, "ref": "r1", "interaction": f"id{rng.randrange(25)}"}[target_kind]
            made.append(
                Feedback(
                    record_id=name,
                    at=at,
                    target_kind=target_kind,
                    target=target,
                    name="thumb",
                    value=1.0,
                    agent=agent,
                )
            )
        elif kind == 5:
            made.append(SessionEnd(record_id=name, at=at, session_id=session))
        elif kind == 6:
            made.append(
                Assignment(
                    record_id=name, at=at, experiment_id="x", unit="u", session_id=session, variant="control"
                )
            )
            made.append(
                Exposure(
                    record_id=f"{name}e",
                    at=at,
                    experiment_id="x",
                    session_id=session,
                    assigned="control",
                    served="control",
                )
            )
        else:
            made.append(PromptSeen(record_id=name, at=at, agent=agent, name="p", text=str(number)))
    return made


def shuffled(rng: random.Random, records: list[Record]) -> list[list[Record]]:
    """The same records in another order, in random batches, each at least once."""
    sent = [*records, *rng.choices(records, k=len(records) // 2)]
    rng.shuffle(sent)
    batches = list[list[Record]]()
    while sent:
        size = rng.randrange(1, 6)
        batches.append(sent[:size])
        sent = sent[size:]
    return batches


def follow(store: RecordStore, batches: list[list[Record]]) -> dict[str, Trace | None]:
    """Append, and keep traces as a reader does who only reads what is told to have changed."""
    known: dict[str, Trace | None] = {}
    cursor = 0
    for batch in batches:
        store.append(batch)
        cursor, changed = store.changed_sessions(after=cursor)
        known |= {session: store.trace(session) for session in changed}
    return {session: trace for session, trace in known.items() if trace is not None}


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32 - 1))
def test_any_order_any_batching_and_sending_twice_give_the_same_traces(seed: int) -> None:
    rng = random.Random(seed)
    records = traffic(rng)
    wanted = open_memory()
    wanted.append(records)
    expected = {session: trace for session in SESSIONS if (trace := wanted.trace(session)) is not None}
    with tempfile.TemporaryDirectory() as folder:
        for store in (open_memory(), open_sqlite(Path(folder) / "records.sqlite")):
            batches = shuffled(rng, records)
            assert follow(store, batches) == expected
            assert list(store.traces()) == list(wanted.traces())
            assert list(store.traces(experiment_id="x", agent="a")) == list(
                wanted.traces(experiment_id="x", agent="a")
            )
            assert store.counts() == wanted.counts()
            seen = store.prompts_seen(after=0)[1]
            assert sorted(one.record_id for one in seen) == sorted(
                one.record_id for one in records if isinstance(one, PromptSeen)
            )
            store.close()


def test_of_two_starts_the_earlier_counts_whichever_arrives_first() -> None:
    early = SessionStart(record_id="b", at=T0, session_id="s1", agent="early")
    late = SessionStart(record_id="a", at=T0 + timedelta(seconds=1), session_id="s1", agent="late")
    for order in ([early, late], [late, early]):
        store = open_memory()
        for record in order:
            store.append([record])
        assert [trace.start for trace in store.traces(agent="early")] == [early]
