"""The memory layer from what sessions write to a rollback, with a clock that only the test moves."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from arranged import AGENT, Arranged

from prx.domain.changes import MemoryArchive, MemoryPatch
from prx.domain.codec import content_hash
from prx.domain.errors import StoreError
from prx.domain.ids import Ids
from prx.domain.layers import Layer
from prx.domain.memory import EntryStatus, MemoryEntry, in_force
from prx.domain.proposals import Proposal, ProposalState
from prx.domain.records import FeedbackName, Record
from prx.domain.versions import MemoryState, Version
from prx.engine.engine import Engine
from prx.engine.memorypath import memory_state
from prx.ledger.serving import serving
from prx.live.evolution import Evolution
from prx.memory import MemoryStore, StoredRecall, open_memory, open_sqlite
from prx.propose.tending import Task
from prx.records.sqlite import open_sqlite as sqlite_records
from prx.settings import MemoryLayer, Settings
from prx.spool.ship import ship
from prx.spool.writer import SpoolWriter

ON = Settings(enabled=True)
RESTATED = (
    "The refund window for lost parcels is 14 days.",
    "the refund window for lost parcels is 14 days",
    "Note: the refund window for lost parcels is 14 days!",
    "The refund window for lost parcels is 14 days. Case AB-1204 was the first, on 2026-02-11.",
    "The refund window for lost parcels is never 14 days for Maria.",
)
FACTS = ("14 days", "AB-1204", "2026-02-11", "never", "Maria")


@dataclass
class Desk:
    """An app with its SDK, an engine, and the stores between them."""

    arranged: Arranged
    store: MemoryStore
    evolution: Evolution
    ship: Callable[[], object] = lambda: None
    other_facts: int = 60
    agent: str = AGENT
    written: dict[str, str] = field(default_factory=dict)

    def advance(self) -> None:
        self.ship()
        self.arranged.engine.advance(self.arranged.now)

    def note(self, text: str, *, user: str | None = "anna", **more: object) -> str:
        with self.evolution.session(user=user, agent=self.agent) as session:
            memory_id = session.remember(text, **more)  # type: ignore[arg-type]
        assert memory_id is not None
        self.written[memory_id] = text
        return memory_id

    def ask(self, query: str, *, user: str | None = "anna", relevant: float | None = None) -> list[str]:
        """One session that recalls, calls the model and says whether the memory was of use."""
        with self.evolution.session(user=user, agent=self.agent) as session:
            found = session.recall(query)
            with session.call(model="m", messages=query) as call:
                call.reply(text="an answer", tokens={"input": 90, "output": 10}, latency_ms=300)
            if relevant is not None:
                self.evolution.feedback(record=call, name=FeedbackName.MEMORY_RELEVANT, value=relevant)
        return [one.text for one in found]

    def fill(self) -> None:
        """Restated notes, notes that went stale, and sixty other facts; then half a year passes."""
        for n in range(30):
            self.note(RESTATED[n % len(RESTATED)])
            self.arranged.pass_hours(0.1)
        self.note("The staging port is 5432", subject="staging port")
        self.arranged.pass_hours(1)
        self.note("The staging port is 5433", subject="staging port")
        for n in range(self.other_facts):
            self.note(f"Shelf {100 + n} holds {ITEMS[n % len(ITEMS)]} of batch {n}")
        self.ship()
        self.arranged.engine.score(self.arranged.now)
        self.arranged.pass_hours(24 * 180)

    def traffic(self, days: int) -> None:
        """Ten sessions a day that ask for things known; the engine works four times a day."""
        for _ in range(days):
            for n in range(10):
                self.arranged.pass_hours(2.4)
                k = self.arranged.now.toordinal() * 10 + n
                if n % 5 == 0:
                    self.ask("refund window lost parcels", relevant=1.0)
                else:
                    shelf = k % self.other_facts
                    self.ask(f"what is on shelf {100 + shelf}?", relevant=1.0)
                if n % 3 == 0:
                    self.advance()

    def active(self) -> tuple[MemoryEntry, ...]:
        with self.arranged.context.ledger.view() as view:
            force = in_force(memory_state(view, self.agent))
        entries = self.store.entries(self.agent, force=force, at=self.arranged.now)
        return tuple(one for one in entries if one.status is EntryStatus.ACTIVE)

    def active_hash(self, without: frozenset[str] | set[str] = frozenset()) -> str:
        told = [[one.memory_id, one.text] for one in self.active() if one.memory_id not in without]
        return content_hash(told)

    def proposals(self) -> tuple[Proposal, ...]:
        with self.arranged.context.ledger.view() as view:
            return view.find(Proposal, agent=self.agent, layer=Layer.MEMORY)

    def versions(self) -> list[Version]:
        with self.arranged.context.ledger.view() as view:
            return [v for v in view.find(Version, agent=self.agent) if v.layer is Layer.MEMORY]

    def until(self, done: Callable[[], bool], days: int = 20) -> None:
        for _ in range(days):
            if done():
                return
            self.traffic(1)
        raise AssertionError(f"nothing happened: {[(p.state, p.why) for p in self.proposals()]}")

    def rollback(self) -> None:
        self.arranged.engine.rollback(
            self.agent, layer=Layer.MEMORY, actor="person:test", now=self.arranged.now
        )


ITEMS = ("lamps", "ropes", "bolts", "tents", "kayaks", "stoves", "helmets")


def desk(settings: Settings = ON, store: MemoryStore | None = None, *, wired: bool = True) -> Desk:
    """Everything in one process; `wired` False: no memory store anywhere."""
    arranged = Arranged.new(settings)
    kept = store or open_memory()
    if wired:
        arranged.context = replace(arranged.context, memory=kept)
        arranged.engine = Engine(arranged.context)
    return Desk(arranged, kept, sdk(arranged, kept if wired else None, lambda r: arranged.write([r])))


def sdk(arranged: Arranged, store: MemoryStore | None, sink: Callable[[Record], None]) -> Evolution:
    ledger = arranged.context.ledger

    def served(agent: str) -> object:
        with ledger.view() as view:
            return serving(view, agent)

    def part(part_hash: str) -> MemoryState:
        with ledger.view() as view:
            found = view.part(part_hash)
        assert isinstance(found, MemoryState)
        return found

    more = {} if store is None else {"recaller": StoredRecall(lambda: store, part)}
    return Evolution(
        served,  # type: ignore[arg-type]
        sink,
        ids=Ids(random.Random(3)),
        now=lambda: arranged.now,
        **more,  # type: ignore[arg-type]
    )


def test_the_memory_is_compacted_and_pruned_and_a_rollback_brings_back_exactly_what_was() -> None:
    it = desk()
    it.fill()
    before = it.active_hash()
    it.until(lambda: len(it.versions()) == 1)
    compacted = it.active_hash()
    assert compacted != before
    (first,) = it.proposals()
    assert first.trigger == "memory:compact"
    assert first.author == "engine:rule"
    assert [(s.name, s.answer) for s in first.proofs if s.name.startswith("memory.")] == [
        ("memory.change", "pass"),
        ("memory.replay", "pass"),
    ]
    texts = [one.text for one in it.active() if "refund" in one.text.lower()]
    assert len(texts) == 1
    assert all(fact in texts[0] for fact in FACTS)
    assert it.ask("refund window lost parcels")[0] == texts[0]
    assert it.ask("case AB-1204") == texts
    later = it.note("Maria Holm moved to Lima")

    it.until(lambda: len(it.versions()) == 2)
    second = next(p for p in it.proposals() if p.proposal_id != first.proposal_id)
    assert isinstance(second.change, MemoryPatch)
    (gone,) = second.change.ops
    assert isinstance(gone, MemoryArchive)
    assert it.written[gone.memory_id] == "The staging port is 5432"
    assert "and" in gone.why
    assert it.ask("staging port") == ["The staging port is 5433"]
    last = it.note("The new warehouse opens in June")
    it.advance()

    it.rollback()
    assert it.active_hash(without={later, last}) == compacted
    it.rollback()
    assert it.active_hash(without={later, last}) == before
    assert {later, last} <= {one.memory_id for one in it.active()}
    assert it.ask("new warehouse") == ["The new warehouse opens in June"]
    it.traffic(3)
    again = [p.proposal_id for p in it.proposals() if p.trigger == "memory:compact"]
    assert again == [first.proposal_id], "what was rolled back is not tried again"


def test_a_memory_in_order_is_left_alone_for_good() -> None:
    it = desk()
    it.fill()
    it.until(lambda: len(it.versions()) == 2)
    it.traffic(12)
    assert len(it.versions()) == 2
    assert {p.state for p in it.proposals()} == {ProposalState.CONFIRMED}


def test_every_write_survives_the_spool_and_a_lost_memory_file_is_filled_again(tmp_path: Path) -> None:
    arranged = Arranged.new(ON)
    records = sqlite_records(tmp_path / "records.sqlite")
    store = open_sqlite(tmp_path / "memory.sqlite")
    arranged.context = replace(arranged.context, records=records, memory=store)
    arranged.engine = Engine(arranged.context)
    writer = SpoolWriter(tmp_path / "spool", now=lambda: arranged.now)
    it = Desk(arranged, store, sdk(arranged, store, lambda record: writer.append((record,))))

    def shipped() -> object:
        writer.sync()
        return ship(tmp_path / "spool", records.append, now=arranged.now)

    it.ship = shipped
    it.fill()
    it.until(lambda: len(it.versions()) == 1)
    before = it.active_hash()
    answers = it.ask("refund window lost parcels")
    it.advance()
    it.store.close()
    it.store = open_sqlite(tmp_path / "another.sqlite")
    arranged.context = replace(arranged.context, memory=it.store)
    arranged.engine = Engine(arranged.context)
    it.advance()
    assert it.active_hash() == before
    it.evolution = sdk(arranged, it.store, lambda record: writer.append((record,)))
    assert it.ask("refund window lost parcels") == answers
    it.store.close()
    records.close()
    writer.close()


def test_an_agent_without_any_prompt_has_a_memory_that_evolves_too() -> None:
    it = desk()
    it.agent = "notes"
    it.fill()
    it.until(lambda: len(it.versions()) == 1)
    assert [one.text for one in it.active() if one.derived_from]
    it.rollback()
    assert not [one.text for one in it.active() if one.derived_from]


def test_a_person_can_look_compact_and_prune_by_hand_and_a_dry_run_writes_nothing() -> None:
    it = desk(replace(ON, l1=MemoryLayer(enabled=False)))
    it.fill()
    it.traffic(11)
    engine, now = it.arranged.engine, it.arranged.now
    found = engine.memory_stats(AGENT, now)
    assert (found.active, found.superseded, found.archived, found.summaries) == (91, 1, 0, 0)
    assert found.queries == 110
    assert found.confirmed > 0
    told = engine.tend_memory(AGENT, (Task.COMPACT,), now, dry_run=True)
    assert [step.why for step in told.steps] == ["would propose: Add 1 memory entries and archive 30"]
    assert it.proposals() == ()
    engine.tend_memory(AGENT, (Task.COMPACT,), now)
    assert len(it.versions()) == 1
    found = engine.memory_stats(AGENT, now)
    assert (found.active, found.superseded, found.archived, found.summaries) == (62, 1, 30, 1)


def test_with_the_layer_off_sessions_still_write_and_recall_and_nothing_is_proposed() -> None:
    it = desk(replace(ON, l1=MemoryLayer(enabled=False)))
    it.fill()
    it.traffic(8)
    assert it.proposals() == ()
    assert it.ask("staging port") == ["The staging port is 5433"]


def test_with_the_engine_off_sessions_still_write_and_recall() -> None:
    it = desk(Settings())
    it.note("The staging port is 5433")
    it.advance()
    assert it.ask("staging port") == ["The staging port is 5433"]
    assert it.proposals() == ()


def test_without_a_memory_store_everything_is_recorded_and_nothing_fails() -> None:
    it = desk(wired=False)
    it.note("The staging port is 5433")
    assert it.ask("staging port") == []
    it.advance()
    assert it.evolution.faults == {}
    (trace, *_) = it.arranged.context.records.traces(agent=AGENT)
    assert [one.text for one in trace.memories] == ["The staging port is 5433"]


def test_a_memory_that_cannot_be_opened_costs_the_app_its_memories_and_nothing_else(tmp_path: Path) -> None:
    it = desk()
    (tmp_path / "memory.sqlite").write_bytes(b"no database at all, and longer than a header" * 40)

    def opened() -> MemoryStore:
        return open_sqlite(tmp_path / "memory.sqlite")

    with pytest.raises(StoreError):
        opened()
    arranged = it.arranged
    it.evolution = Evolution(
        lambda agent: serving_of(arranged, agent),
        lambda record: arranged.write([record]),
        now=lambda: arranged.now,
        recaller=StoredRecall(opened, lambda _hash: MemoryState()),
    )
    assert it.ask("anything") == []
    assert it.ask("anything") == []
    assert it.evolution.faults == {"recall": 2}
    assert arranged.context.records.counts()["interactions"] == 2


def serving_of(arranged: Arranged, agent: str):  # type: ignore[no-untyped-def]
    with arranged.context.ledger.view() as view:
        return serving(view, agent)


def test_a_memory_store_that_fails_leaves_the_engine_working() -> None:
    class Failing:
        def __getattr__(self, name: str) -> Callable[..., object]:
            def refuse(*_: object, **__: object) -> object:
                raise StoreError("the memory is damaged; restore it")

            return refuse

    it = desk()
    it.arranged.context = replace(it.arranged.context, memory=Failing())  # type: ignore[arg-type]
    it.arranged.engine = Engine(it.arranged.context)
    report = it.arranged.engine.advance(it.arranged.now)
    told = [step for step in report.steps if step.what == "memory"]
    assert {step.answer for step in told} == {"error"}


def test_told_relevance_is_a_confirmed_use_and_mere_recall_is_not() -> None:
    it = desk()
    it.note("The staging port is 5433")
    it.note("The wiki is at hill street")
    it.advance()
    it.ask("staging port", relevant=1.0)
    it.ask("staging port", relevant=0.0)
    it.ask("wiki street")
    it.advance()
    told = {one.text: (one.retrieved, one.confirmed, one.contradicted, one.alone) for one in it.active()}
    assert told == {"The staging port is 5433": (2, 1, 1, 1), "The wiki is at hill street": (1, 0, 0, 0)}


def test_one_users_notes_never_reach_another_or_another_users_summary() -> None:
    it = desk()
    for n in range(12):
        it.note(f"My secret garden gate code is {4000 + n % 2}", user="anna")
        it.note(f"My secret garden gate code is {9000 + n % 2}", user="bob")
    it.fill()
    it.until(lambda: len(it.versions()) >= 3, days=40)
    for user, own, other in (("anna", "400", "900"), ("bob", "900", "400")):
        found = " ".join(it.ask("secret garden gate code", user=user))
        assert own in found
        assert other not in found
    assert it.ask("secret garden gate code", user="eve") == []
    assert it.ask("secret garden gate code", user=None) == []


def test_where_the_operator_wants_to_be_asked_a_person_decides() -> None:
    it = desk(replace(ON, l1=MemoryLayer(risk_threshold=0.0)))
    it.fill()
    it.until(lambda: any(p.state is ProposalState.AWAITING_APPROVAL for p in it.proposals()))
    assert it.versions() == []
    (waiting,) = it.proposals()
    it.arranged.engine.approve(waiting.proposal_id, actor="person:ada", now=it.arranged.now)
    it.advance()
    assert len(it.versions()) == 1


def test_few_logged_queries_are_not_enough_to_change_the_memory() -> None:
    it = desk()
    it.fill()
    for _ in range(60):
        it.arranged.pass_hours(1)
        it.ask("weather on the moon")
        it.ask("weather on the moon")
    it.ask("refund window", relevant=1.0)
    it.advance()
    (proposal,) = it.proposals()
    assert proposal.state is ProposalState.DEFERRED
    assert "50 needed" in proposal.why
    assert it.versions() == []


def test_a_change_in_a_window_with_hardly_any_traffic_is_taken_back_and_the_entries_are_there_again() -> None:
    it = desk()
    it.fill()
    before = it.active_hash()
    it.until(lambda: len(it.versions()) == 1)
    assert it.active_hash() != before
    for _ in range(6):
        it.arranged.pass_hours(24)
        it.advance()
    assert it.proposals()[0].state is ProposalState.WATCHING
    it.arranged.engine.pause(AGENT, actor="person:test", why="only the revert", now=it.arranged.now)
    it.arranged.pass_hours(25)
    it.advance()
    assert it.proposals()[0].state is ProposalState.ROLLED_BACK
    assert it.active_hash() == before


def test_records_that_arrive_twice_or_in_another_order_give_the_same_memory() -> None:
    it = desk()
    it.fill()
    it.traffic(2)
    records = it.arranged.context.records
    every: list[Record] = [
        one
        for trace in records.traces()
        for one in (trace.start, *trace.memories, *trace.recalls, *trace.interactions, *trace.feedback)
    ]
    random.Random(4).shuffle(every)
    again = desk()
    again.arranged.now = it.arranged.now
    for start in range(0, len(every), 37):
        again.arranged.write(every[start : start + 50])
        again.advance()
    told = [(one.memory_id, one.text, one.retrieved, one.confirmed) for one in it.active()]
    assert [(one.memory_id, one.text, one.retrieved, one.confirmed) for one in again.active()] == told
