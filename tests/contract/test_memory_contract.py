"""What every memory store must do."""

import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prx.domain.changes import MemoryAdd
from prx.domain.errors import ModelUnavailable
from prx.domain.memory import (
    SHARED,
    Ask,
    EntryStatus,
    InForce,
    LoggedQuery,
    MemoryEntry,
    Reader,
    Scope,
    SessionMemory,
    Use,
    derived_entry,
)
from prx.memory import MemoryStore, open_memory, open_sqlite

NOW = datetime(2026, 3, 2, tzinfo=UTC)
ANNA = Reader(tenant="acme", user="anna", session_id="s-anna")


@pytest.fixture(params=["process", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MemoryStore]:
    opened: MemoryStore = (
        open_memory() if request.param == "process" else open_sqlite(tmp_path / "memory.sqlite")
    )
    yield opened
    opened.close()


def entry(memory_id: str, text: str, *, reader: Reader = ANNA, **more: object) -> MemoryEntry:
    given: dict[str, object] = {"created_at": NOW, "valid_from": NOW, "scope": reader.scopes[-1]} | more
    return MemoryEntry(memory_id=memory_id, text=text, **given)  # type: ignore[arg-type]


def wrote(store: MemoryStore, *entries: MemoryEntry, session_id: str = "w", reader: Reader = ANNA) -> int:
    return store.learn([SessionMemory(session_id=session_id, reader=reader, entries=entries)])


def ids(store: MemoryStore, query: str, *, reader: Reader = ANNA, k: int = 10, **more: object) -> list[str]:
    force = more.pop("force", InForce())
    at = more.pop("at", NOW)
    ask = Ask(reader=reader, query=query, at=at, k=k)  # type: ignore[arg-type]
    return [one.memory_id for one in store.recall(ask, force)]  # type: ignore[arg-type]


def test_the_entry_that_fits_best_comes_first_and_others_stay_out(store: MemoryStore) -> None:
    wrote(
        store,
        entry("port", "The staging database listens on port 5433"),
        entry("team", "The database team meets on Tuesdays"),
        entry("cat", "The office cat is called Miro"),
    )
    assert ids(store, "which port has the staging database?") == ["port", "team"]
    assert ids(store, "the of and") == []
    assert ids(store, "database", k=0) == []


def test_endings_do_not_hide_an_entry(store: MemoryStore) -> None:
    wrote(store, entry("m", "Cached responses are deleted when policies change"))
    assert ids(store, "caching response deletes policy") == ["m"]


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("退款需要十四天", "退款要多久"),
        ("返金には14日かかります", "返金はいつ"),
        ("환불은 14일 걸립니다", "환불은 언제"),
        ("Возврат денег занимает 14 дней", "когда возврат денег"),
        ("La devolución tarda 14 días", "¿cuánto tarda la devolución?"),
    ],
)
def test_recall_works_in_every_language_of_the_product(store: MemoryStore, text: str, query: str) -> None:
    wrote(store, entry("m", text), entry("other", "nothing to see here"))
    assert ids(store, query) == ["m"]


def test_scores_are_shares_and_do_not_depend_on_what_other_scopes_hold(store: MemoryStore) -> None:
    wrote(store, entry("m", "the staging port is 5433"), entry("n", "port of Hamburg"))
    ask = Ask(reader=ANNA, query="staging port", at=NOW)
    before = store.recall(ask, InForce())
    bob = Reader(tenant="acme", user="bob")
    wrote(store, *(entry(f"b{n}", "staging port staging", reader=bob) for n in range(40)), session_id="w2")
    assert store.recall(ask, InForce()) == before
    assert all(0 < one.score <= 1 for one in before)


def test_writing_again_changes_nothing(store: MemoryStore) -> None:
    assert wrote(store, entry("m", "first text about ports")) == 1
    assert wrote(store, entry("m", "second text about ports")) == 0
    assert [one.text for one in store.entries("default", force=InForce(), at=NOW)] == [
        "first text about ports"
    ]


def test_one_of_nine_restatements_is_given_and_near_numbers_are_no_restatements(store: MemoryStore) -> None:
    restated = [
        entry(f"r{n}", "Ticket 4711 was closed by Maria after the release" + "." * n) for n in range(9)
    ]
    wrote(store, *restated, entry("near", "Ticket 4712 was closed by Maria after the release"))
    found = ids(store, "Maria ticket release closed")
    assert len(found) == 2
    assert "near" in found


def test_a_contradiction_is_given_beside_what_it_contradicts(store: MemoryStore) -> None:
    wrote(store, entry("yes", "Refunds are possible here"), entry("no", "Refunds are not possible here"))
    assert sorted(ids(store, "refunds possible")) == ["no", "yes"]


def test_an_archived_entry_and_a_derived_one_not_in_force_are_not_recalled(store: MemoryStore) -> None:
    wrote(store, entry("a", "parcel rules one"), entry("b", "parcel rules two"))
    add = MemoryAdd(memory_id="sum", text="parcel rules one and two", derived_from=("a", "b"))
    summary = derived_entry(add, store.known(["a", "b"]))
    assert summary is not None
    store.derive([summary])
    assert sorted(ids(store, "parcel rules")) == ["a", "b"]
    force = InForce({"sum": add}, frozenset({"a", "b"}))
    assert ids(store, "parcel rules", force=force) == ["sum"]
    told = {one.memory_id: one.status for one in store.entries("default", force=force, at=NOW)}
    assert told == {"a": EntryStatus.ARCHIVED, "b": EntryStatus.ARCHIVED, "sum": EntryStatus.ACTIVE}
    assert [one.memory_id for one in store.entries("default", force=InForce(), at=NOW)] == ["a", "b"]


def test_the_latest_valid_entry_on_a_subject_is_current_whatever_arrived_last(store: MemoryStore) -> None:
    later, earlier = NOW + timedelta(days=2), NOW - timedelta(days=2)
    wrote(store, entry("new", "the port is 5433", subject="port", valid_from=NOW))
    wrote(store, entry("old", "the port is 5432", subject="port", valid_from=earlier), session_id="w2")
    wrote(store, entry("next", "the port is 5434", subject="port", valid_from=later), session_id="w3")
    assert ids(store, "which port") == ["new"]
    assert ids(store, "which port", at=earlier) == ["old"]
    assert ids(store, "which port", at=later) == ["next"]
    told = {one.memory_id: one.status for one in store.entries("default", force=InForce(), at=NOW)}
    assert told["old"] is EntryStatus.SUPERSEDED
    assert told["new"] is EntryStatus.ACTIVE


def test_the_same_subject_of_another_user_supersedes_nothing(store: MemoryStore) -> None:
    wrote(store, entry("anna", "the port is 5432", subject="port"))
    bob = Reader(tenant="acme", user="bob")
    later = entry("bob", "the port is 5433", reader=bob, subject="port", valid_from=NOW + timedelta(hours=1))
    wrote(store, later, session_id="w2", reader=bob)
    assert ids(store, "which port", at=NOW + timedelta(days=1)) == ["anna"]


def test_an_entry_whose_time_is_over_or_has_not_begun_is_not_recalled(store: MemoryStore) -> None:
    hour = timedelta(hours=1)
    wrote(
        store,
        entry("over", "sale ends today", valid_from=NOW - hour, valid_to=NOW),
        entry("soon", "sale begins tomorrow", valid_from=NOW + hour),
    )
    assert ids(store, "sale") == []
    assert ids(store, "sale", at=NOW - hour) == ["over"]


def test_shared_entries_reach_every_user_of_the_tenant_and_nobody_else(store: MemoryStore) -> None:
    shared = Scope(tenant="acme", owner=SHARED)
    wrote(store, entry("m", "the wiki moved", scope=shared))
    assert ids(store, "wiki", reader=Reader(tenant="acme", user="bob")) == ["m"]
    assert ids(store, "wiki", reader=Reader(tenant="acme")) == ["m"]
    for stranger in (Reader(), Reader(tenant="other"), Reader(tenant="acme", env="test")):
        assert ids(store, "wiki", reader=stranger) == []


def test_a_session_without_a_user_reads_its_own_notes_only(store: MemoryStore) -> None:
    one, two = Reader(session_id="s1"), Reader(session_id="s2")
    wrote(store, entry("m", "my draft about ports", reader=one))
    assert ids(store, "ports", reader=one) == ["m"]
    assert ids(store, "ports", reader=two) == []
    assert ids(store, "ports", reader=Reader()) == []


def test_a_session_named_like_a_user_does_not_get_that_users_notes(store: MemoryStore) -> None:
    wrote(store, entry("m", "the wiki moved", reader=Reader(user="anna")))
    for liar in ("anna", "user:anna", 'x") OR ("m', "anna' OR '1'='1"):
        assert ids(store, "wiki", reader=Reader(session_id=liar)) == []
        assert ids(store, "wiki", reader=Reader(tenant="user:anna", user=liar)) == []


def test_no_query_text_widens_what_is_readable_or_breaks_the_search(store: MemoryStore) -> None:
    wrote(store, entry("m", "secret scope of anna"))
    bob = Reader(tenant="acme", user="bob")
    for query in (
        'scope : s*"',
        "secret OR scope:",
        "NEAR(secret)",
        '"',
        "{",
        "anna'; DROP TABLE entry;--",
        "*",
    ):
        assert ids(store, query, reader=bob) == []
    assert ids(store, "secret scope") == ["m"]


def test_confirmed_use_counts_once_a_session_and_is_replaced_when_read_again(store: MemoryStore) -> None:
    wrote(store, entry("m", "ports"))
    use = Use(memory_id="m", retrieved=3, confirmed=True, alone=True, last_used=NOW)
    for session_id in ("u1", "u2", "u2"):
        store.learn([SessionMemory(session_id=session_id, reader=ANNA, uses=(use,))])
    (told,) = store.entries("default", force=InForce(), at=NOW)
    assert (told.retrieved, told.confirmed, told.alone, told.last_used) == (6, 2, 2, NOW)
    worse = Use(memory_id="m", retrieved=1, contradicted=True)
    store.learn([SessionMemory(session_id="u2", reader=ANNA, uses=(worse,))])
    (told,) = store.entries("default", force=InForce(), at=NOW)
    assert (told.retrieved, told.confirmed, told.contradicted) == (4, 1, 1)


def test_use_told_by_a_session_that_may_not_read_the_entry_does_not_count(store: MemoryStore) -> None:
    wrote(store, entry("m", "ports"))
    use = Use(memory_id="m", retrieved=9, confirmed=True)
    store.learn([SessionMemory(session_id="x", reader=Reader(tenant="other", user="anna"), uses=(use,))])
    (told,) = store.entries("default", force=InForce(), at=NOW)
    assert (told.retrieved, told.confirmed) == (0, 0)


def test_confirmed_use_lifts_an_entry_among_equals_and_never_past_a_better_fit(store: MemoryStore) -> None:
    wrote(store, entry("a", "parcel rules alpha"), entry("b", "parcel rules bravo"))
    wrote(store, entry("fit", "parcel rules for express parcel customs"), session_id="w2")
    use = Use(memory_id="b", retrieved=1, confirmed=True)
    store.learn([SessionMemory(session_id=f"u{n}", reader=ANNA, uses=(use,)) for n in range(50)])
    assert ids(store, "rules alpha bravo")[0] == "b"
    assert ids(store, "parcel express customs")[0] == "fit"


def test_logged_queries_come_newest_first_and_belong_to_their_agent(store: MemoryStore) -> None:
    def query(n: int) -> LoggedQuery:
        at = NOW + timedelta(minutes=n)
        return LoggedQuery(
            query_id=f"q{n}", reader=ANNA, query=f"port {n}", at=at, evidence=("m",), confirmed=False
        )

    store.learn([SessionMemory(session_id="u", reader=ANNA, queries=tuple(query(n) for n in range(5)))])
    assert [one.query_id for one in store.queries("default", limit=3)] == ["q4", "q3", "q2"]
    assert store.queries("other", limit=3) == ()
    store.learn([SessionMemory(session_id="u", reader=ANNA, queries=(query(9),))])
    assert store.queries("default", limit=3) == (query(9),)


def test_the_cursor_is_kept(store: MemoryStore) -> None:
    assert store.cursor() == 0
    store.set_cursor(7)
    assert store.cursor() == 7


def test_both_stores_give_the_same_order_and_scores(tmp_path: Path) -> None:
    rng = random.Random(5)
    vocabulary = [f"word{n}" for n in range(30)] + ["退款", "port", "портал"]
    both: tuple[MemoryStore, MemoryStore] = (open_memory(), open_sqlite(tmp_path / "m.sqlite"))
    texts = [" ".join(rng.choices(vocabulary, k=rng.randint(3, 12))) for _ in range(150)]
    for store in both:
        wrote(store, *(entry(f"m{n}", text) for n, text in enumerate(texts)))
    for _ in range(40):
        ask = Ask(reader=ANNA, query=" ".join(rng.choices(vocabulary, k=3)), at=NOW, k=10)
        assert both[0].recall(ask, InForce()) == both[1].recall(ask, InForce())
    both[1].close()


class _Vectors:
    """Words to directions; `down` refuses."""

    def __init__(self, down: bool = False) -> None:
        self.down = down

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        if self.down:
            raise ModelUnavailable("the embedder does not answer")
        return [[1.0, 0.0] if "quick" in text or "fast" in text else [0.0, 1.0] for text in texts]


def test_an_embedder_reorders_and_its_absence_changes_only_the_order() -> None:
    texts = {"a": "slow delivery of parcels", "b": "fast delivery of parcels"}
    found = {}
    for name, embedder in (("none", None), ("down", _Vectors(down=True)), ("up", _Vectors())):
        store = open_memory(embedder)
        wrote(store, *(entry(key, text) for key, text in texts.items()))
        found[name] = ids(store, "quick delivery")
    assert found["none"] == found["down"] == ["a", "b"]
    assert found["up"] == ["b", "a"]


_NAMES = st.sampled_from([None, "a", "b", "a b", "", "shared", "user:a"])
_READERS = st.builds(
    Reader,
    agent=st.sampled_from(["default", "other"]),
    env=st.sampled_from(["production", "test"]),
    tenant=_NAMES,
    user=_NAMES,
    session_id=_NAMES,
)


def _may_read(owner: Reader, reader: Reader, *, shared: bool) -> bool:
    """The rule in other words than the code's."""
    if (owner.agent, owner.env, owner.tenant) != (reader.agent, reader.env, reader.tenant):
        return False
    if shared:
        return True
    if owner.user is not None or reader.user is not None:
        return owner.user == reader.user
    return owner.session_id is not None and owner.session_id == reader.session_id


@settings(max_examples=60, deadline=None)
@given(
    writes=st.lists(st.tuples(_READERS, st.booleans()), min_size=1, max_size=12),
    readers=st.lists(_READERS, min_size=1, max_size=8),
    sqlite=st.booleans(),
)
def test_no_operation_lets_a_reader_see_what_is_not_its_own(
    writes: list[tuple[Reader, bool]],
    readers: list[Reader],
    sqlite: bool,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    store: MemoryStore = (
        open_sqlite(tmp_path_factory.mktemp("leak") / "m.sqlite") if sqlite else open_memory()
    )
    for n, (owner, shared) in enumerate(writes):
        # distinct numbers, so that nothing is left out as a restatement
        scope = Scope(agent=owner.agent, env=owner.env, tenant=owner.tenant, owner=SHARED)
        own = (
            owner.scopes[-1]
            if len(owner.scopes) > 1
            else Scope(agent=owner.agent, env=owner.env, tenant=owner.tenant, owner="nobody")
        )
        wrote(store, entry(f"m{n}", f"note {n} secret", scope=scope if shared else own), session_id=f"w{n}")
    for reader in readers:
        expected = {
            f"m{n}" for n, (owner, shared) in enumerate(writes) if _may_read(owner, reader, shared=shared)
        }
        assert set(ids(store, "secret note", reader=reader, k=50)) == expected
    store.close()


def test_forgetting_takes_what_sessions_wrote_and_everything_derived_from_it(store: MemoryStore) -> None:
    ben = Reader(tenant="acme", user="ben", session_id="s-ben")
    raw = entry("a1", "the parcel is lost", session_id="s-anna")
    kept = entry("b1", "the parcel is late", reader=ben, session_id="s-ben")
    wrote(store, raw, session_id="s-anna")
    wrote(store, kept, session_id="s-ben", reader=ben)
    first = entry("d1", "parcels get lost", derived_from=("a1",))
    store.derive([first, entry("d2", "things get lost", derived_from=("d1",))])
    store.learn([SessionMemory(session_id="s-2", reader=ANNA, uses=(Use(memory_id="a1", retrieved=1),))])
    told = {(one.record_id, one.session_id, one.user, one.text) for one in store.sessions()}
    assert told == {("a1", "s-anna", "anna", ""), ("b1", "s-ben", "ben", ""), ("", "s-2", None, "")}
    assert store.forget(["s-anna"], []) == ("a1", "d1", "d2")
    assert ids(store, "lost parcel") == []
    assert ids(store, "late parcel", reader=ben) == ["b1"]
    assert store.known(["a1", "d1", "d2", "b1"]) == (kept,)
    assert store.forget(["s-anna"], ["nothing"]) == ()
    assert store.forget([], ["b1"]) == ("b1",)
    assert store.scrub() == ""
    wrote(store, raw, session_id="s-anna")
    assert ids(store, "lost parcel") == ["a1"]
