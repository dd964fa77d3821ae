"""What every ledger keeps, whichever store is under it."""

import threading
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from ledger_samples import NOW, acts, proposal, store_parts, version, walk, write

from prx.domain.accepted import AcceptedPrompt
from prx.domain.answers import Passed
from prx.domain.baselines import Baseline
from prx.domain.errors import Conflict, IllegalTransition, InvalidInput, NotFound, StoreError
from prx.domain.events import Breaker, Control, Due, Event, EventName, Incident
from prx.domain.layers import Layer
from prx.domain.proposals import TRANSITIONS, Proposal, ProposalState
from prx.domain.versions import Manifest, PromptSet, Version, VersionStatus, part_hash
from prx.ledger import Ledger, verify_chain


@pytest.mark.parametrize("here", list(ProposalState))
def test_every_step_outside_the_table_is_refused_and_leaves_no_trace(
    ledger: Ledger, here: ProposalState
) -> None:
    stored = write(ledger, lambda tx: walk(tx, proposal(), here))
    with ledger.view() as view:
        before = view.audit_rows()
    for there in set(ProposalState) - TRANSITIONS[here]:
        with pytest.raises(IllegalTransition, match="cannot become"):
            write(ledger, lambda tx, there=there: tx.move(stored, there, why="no"))
    with ledger.view() as view:
        assert view.find(Proposal) == (stored,)
        assert view.audit_rows() == before


@pytest.mark.parametrize("here", list(ProposalState))
def test_every_step_of_the_table_is_taken_with_its_audit_row(ledger: Ledger, here: ProposalState) -> None:
    later = NOW + timedelta(hours=1)
    for there in sorted(TRANSITIONS[here]):
        stored = write(ledger, lambda tx, name=f"p-{there}": walk(tx, proposal(name), here))
        moved = write(
            ledger,
            lambda tx, stored=stored, there=there: tx.move(stored, there, why="because", risk=0.3),
            at=later,
        )
        with ledger.view() as view:
            assert view.get(Proposal, f"p-{there}") == moved
            last = acts(view)[-1]
        assert (moved.state, moved.why, moved.risk, moved.state_since) == (there, "because", 0.3, later)
        assert (last.kind, last.subject, last.at, last.actor) == (
            "proposal.moved",
            f"p-{there}",
            later,
            "engine",
        )
        step = msgspec.json.decode(last.body or "")
        assert (step["from"], step["to"]) == (here, there)


def test_a_step_from_a_state_that_is_no_longer_true_is_a_conflict(ledger: Ledger) -> None:
    first = proposal()
    write(ledger, lambda tx: walk(tx, first, ProposalState.GATED))
    with pytest.raises(Conflict, match=r"gated by now.*read it again"):
        write(ledger, lambda tx: tx.move(first, ProposalState.GATED, why="late"))


def test_a_step_cannot_rewrite_who_the_proposal_is(ledger: Ledger) -> None:
    write(ledger, lambda tx: tx.put(proposal()))
    with pytest.raises(InvalidInput, match="agent"):
        write(ledger, lambda tx: tx.move(proposal(), ProposalState.GATED, why="x", agent="other"))


def test_put_changes_fields_of_a_proposal_but_never_its_state(ledger: Ledger) -> None:
    write(ledger, lambda tx: tx.put(proposal()))
    write(ledger, lambda tx: tx.put(proposal(risk=0.4)))
    with pytest.raises(IllegalTransition, match="use `move`"):
        write(ledger, lambda tx: tx.put(proposal(state=ProposalState.WATCHING)))
    with pytest.raises(IllegalTransition, match="starts as proposed"):
        write(ledger, lambda tx: tx.put(proposal("p2", state=ProposalState.JUDGED)))
    with ledger.view() as view:
        assert view.find(Proposal) == (proposal(risk=0.4),)


def test_an_unknown_id_is_answered_with_the_command_that_lists(ledger: Ledger) -> None:
    with ledger.view() as view:
        assert view.maybe(Proposal, "nope") is None
        with pytest.raises(NotFound, match=r"'nope'.*prx evolution proposals"):
            view.get(Proposal, "nope")
        with pytest.raises(NotFound, match=r"v9\.9.*versions list"):
            view.version("default", "v9.9")
        with pytest.raises(InvalidInput, match="keeps no int"):
            view.find(int)


def test_find_filters_orders_and_pages(ledger: Ledger) -> None:
    made = [
        proposal(f"p{n}", agent=f"a{n % 2}", created_at=NOW + timedelta(minutes=n), risk=n / 10)
        for n in range(6)
    ]
    made[4] = msgspec.structs.replace(made[4], layer=Layer.STRATEGY)
    write(ledger, lambda tx: [tx.put(one) for one in made])
    write(ledger, lambda tx: tx.move(made[2], ProposalState.GATED, why="ok"))

    def found(**wanted: Any) -> list[str]:
        with ledger.view() as view:
            return [one.proposal_id for one in view.find(Proposal, **wanted)]

    assert found() == ["p0", "p1", "p2", "p3", "p4", "p5"]
    assert found(agent="a0") == ["p0", "p2", "p4"]
    assert found(layer=Layer.STRATEGY) == ["p4"]
    assert found(state=ProposalState.GATED) == ["p2"]
    assert found(state=["gated", "proposed"], agent="a1") == ["p1", "p3", "p5"]
    assert found(state=[]) == []
    assert found(since=made[1].created_at, until=made[3].created_at) == ["p1", "p2"]
    assert found(newest_first=True, limit=2) == ["p5", "p4"]
    assert found(newest_first=True, limit=2, offset=3) == ["p2", "p1"]
    assert found(limit=0) == []
    assert found(offset=4) == ["p4", "p5"]
    with ledger.view() as view:
        assert view.count(Proposal) == 6
        assert view.count(Proposal, agent="a0", layer=Layer.PROMPT) == 2


def test_every_kind_comes_back_equal(ledger: Ledger) -> None:
    kept = [
        Incident(
            incident_id="i1",
            agent="a",
            layer=Layer.PROMPT,
            at=NOW,
            detector="breaker",
            summary="s",
            proposal_id=None,
            version="v1.0",
            restored=None,
            numbers={"p": 1e-9},
        ),
        Due(due_id="a/analyze", agent="a", job="analyze", at=NOW),
        Breaker(breaker_id="a/prompt", agent="a", layer=Layer.PROMPT, until=NOW),
        Control(agent="a", paused=True, why="holiday"),
        Baseline(baseline_id="a/system", agent="a", name="system", text_hashes=("sha256:1",)),
        AcceptedPrompt(
            accepted_id="a/system", agent="a", name="system", text="Be {x}.", slots=("x",), at=NOW
        ),
    ]
    write(ledger, lambda tx: [tx.put(one) for one in kept])
    with ledger.view() as view:
        keys = ["i1", "a/analyze", "a/prompt", "a", "a/system", "a/system"]
        assert [view.get(type(one), key) for one, key in zip(kept, keys, strict=True)] == kept
        assert view.find(Due, state="analyze", until=NOW + timedelta(microseconds=1)) == (kept[1],)
        assert view.find(Due, until=NOW) == ()


def test_a_record_that_could_not_be_read_back_is_refused_when_written(ledger: Ledger) -> None:
    wrong: Any = "high"
    with pytest.raises(InvalidInput, match=r"proposal 'p1'.*wrong type.*risk"):
        write(ledger, lambda tx: tx.put(proposal(risk=wrong)))
    with ledger.view() as view:
        assert view.count(Proposal) == 0


def test_a_block_that_raises_changes_nothing(ledger: Ledger) -> None:
    write(ledger, lambda tx: tx.put(proposal()))
    with ledger.view() as view:
        before = (view.find(Proposal), view.events(), view.audit_rows(), view.find(Version))
    version_before = ledger.data_version()

    def half(tx: Any) -> None:
        made = version(tx)
        tx.add_version(made)
        tx.point("default", "v1.0", expected=None)
        tx.move(proposal(), ProposalState.GATED, why="x")
        tx.emit(Event(event_id="e", at=NOW, agent="default", name=EventName.APPLIED, summary="s"))
        assert tx.get(Proposal, "p1").state == "gated"
        assert tx.pointer("default").label == "v1.0"
        raise KeyError("power cut")

    with pytest.raises(KeyError):
        write(ledger, half)
    with ledger.view() as view:
        assert (view.find(Proposal), view.events(), view.audit_rows(), view.find(Version)) == before
        assert view.pointer("default") is None
        with pytest.raises(NotFound):
            view.part(part_hash(PromptSet(texts={"system": "You help, v1.0."})))
    assert ledger.data_version() == version_before
    assert write(ledger, lambda tx: tx.audit("k", "s", {})).seq == len(before[2]) + 1
    later = Event(event_id="later", at=NOW, agent="default", name=EventName.ALERT, summary="s")
    assert write(ledger, lambda tx: tx.emit(later)) == 1
    with ledger.view() as view:
        assert view.events() == ((1, later),)
        assert [row.kind for row in view.audit_rows()] == ["records.bound", "k"]


def test_a_view_does_not_see_what_is_committed_after_it_opened(ledger: Ledger) -> None:
    write(ledger, lambda tx: tx.put(proposal()))
    with ledger.view() as view:
        worker = threading.Thread(target=lambda: write(ledger, lambda tx: tx.put(proposal("p2"))))
        worker.start()
        worker.join()
        assert view.count(Proposal) == 1
        assert view.maybe(Proposal, "p2") is None
    with ledger.view() as view:
        assert view.count(Proposal) == 2


def test_a_view_or_transaction_refuses_to_be_used_after_its_block(ledger: Ledger) -> None:
    with ledger.view() as view:
        pass
    with pytest.raises(StoreError, match="has ended"):
        view.agents()
    with ledger.transaction(now=NOW, actor="engine") as tx:
        pass
    with pytest.raises(StoreError, match="has ended"):
        tx.put(proposal())


def test_a_transaction_inside_a_transaction_is_refused_not_deadlocked(ledger: Ledger) -> None:
    with ledger.transaction(now=NOW, actor="engine") as outer:
        outer.put(proposal())
        with pytest.raises(StoreError, match="open already"):
            write(ledger, lambda tx: tx.put(proposal("p2")))
    with ledger.view() as view:
        assert view.count(Proposal) == 1


def test_a_view_inside_a_transaction_shows_what_is_committed(ledger: Ledger) -> None:
    with ledger.transaction(now=NOW, actor="engine") as tx:
        tx.put(proposal())
        with ledger.view() as view:
            assert view.count(Proposal) == 0
        assert tx.count(Proposal) == 1


def test_a_transaction_needs_a_zone_and_an_actor(ledger: Ledger) -> None:
    for now, actor in ((NOW.replace(tzinfo=None), "engine"), (NOW, "")):
        with pytest.raises(InvalidInput, match="aware time"), ledger.transaction(now=now, actor=actor):
            pass


def test_versions_keep_their_number_and_their_content(ledger: Ledger) -> None:
    first = write(ledger, lambda tx: (made := version(tx), tx.add_version(made))[0])
    with pytest.raises(Conflict, match="never reused"):
        write(ledger, lambda tx: tx.add_version(version(tx)))
    with pytest.raises(Conflict, match="exists already"):
        write(ledger, lambda tx: tx.add_version(version(tx, "v1.1", snapshot_id=first.snapshot_id)))
    with pytest.raises(Conflict, match="history"):
        write(ledger, lambda tx: tx.put(msgspec.structs.replace(first, label="v2.0")))
    left = msgspec.structs.replace(first, status=VersionStatus.ROLLED_BACK, note="worse")
    write(ledger, lambda tx: tx.put(left))
    other = write(ledger, lambda tx: (made := version(tx, agent="support"), tx.add_version(made))[0])
    with ledger.view() as view:
        assert view.version("default", "v1.0") == left
        assert view.version("support", "v1.0") == other
        assert view.find(Version, agent="default", state="rolled_back") == (left,)
        assert [row.kind for row in acts(view)] == ["version.added", "version.status", "version.added"]


def test_a_version_whose_part_is_missing_is_refused(ledger: Ledger) -> None:
    def incomplete(tx: Any) -> None:
        manifest = store_parts(tx)
        tx.add_version(version(tx, manifest=Manifest(prompt=manifest.prompt, memory="", strategy="x")))

    with pytest.raises(InvalidInput, match="put_part"):
        write(ledger, incomplete)


def test_parts_are_stored_once_and_read_back_by_hash(ledger: Ledger) -> None:
    texts = PromptSet(texts={"system": "é 你好"})
    hashes = [write(ledger, lambda tx: tx.put_part(texts)) for _ in range(2)]
    assert hashes == [part_hash(texts)] * 2
    with ledger.view() as view:
        assert view.part(hashes[0]) == texts


def test_an_erased_part_is_gone_and_the_erasure_is_on_record(ledger: Ledger) -> None:
    made = write(ledger, lambda tx: (made := version(tx), tx.add_version(made))[0])
    write(ledger, lambda tx: tx.erase_part(made.manifest.prompt))
    write(ledger, lambda tx: tx.erase_audit_body(1))
    with ledger.view() as view:
        with pytest.raises(NotFound, match="erased"):
            view.part(made.manifest.prompt)
        rows = acts(view)
        assert [row.kind for row in rows] == ["version.added", "part.erased", "audit.body_erased"]
        assert rows[0].body is None
        assert isinstance(verify_chain(view.audit_rows()), Passed)


def test_the_pointer_moves_only_from_where_it_was_read(ledger: Ledger) -> None:
    def two(tx: Any) -> None:
        tx.add_version(version(tx))
        tx.add_version(version(tx, "v1.1"))

    write(ledger, two)
    first = write(ledger, lambda tx: tx.point("default", "v1.0", expected=None))
    second = write(ledger, lambda tx: tx.point("default", "v1.1", expected=first.revision))
    assert (first.revision, second.revision, second.label) == (1, 2, "v1.1")
    for stale in (None, 1, 3):
        with pytest.raises(Conflict, match="moved meanwhile"):
            write(ledger, lambda tx, stale=stale: tx.point("default", "v1.0", expected=stale))
    with pytest.raises(NotFound):
        write(ledger, lambda tx: tx.point("default", "v7.0", expected=2))
    with ledger.view() as view:
        assert view.pointer("default") == second
        assert view.pointer("support") is None
        sealed = msgspec.structs.replace(view.version("default", "v1.0"), status=VersionStatus.SEALED)
    write(ledger, lambda tx: tx.put(sealed))
    with pytest.raises(Conflict, match="sealed"):
        write(ledger, lambda tx: tx.point("default", "v1.0", expected=2))


def test_of_several_promotions_on_one_base_one_wins_and_the_others_hear_of_it(ledger: Ledger) -> None:
    write(ledger, lambda tx: [tx.add_version(version(tx, f"v1.{n}")) for n in range(5)])
    write(ledger, lambda tx: tx.point("default", "v1.0", expected=None))
    barrier, outcomes = threading.Barrier(4), list[str]()

    def promote(label: str) -> None:
        barrier.wait()
        try:
            write(ledger, lambda tx: tx.point("default", label, expected=1))
            outcomes.append("won")
        except Conflict:
            outcomes.append("conflict")

    threads = [threading.Thread(target=promote, args=(f"v1.{n}",)) for n in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["conflict", "conflict", "conflict", "won"]
    with ledger.view() as view:
        assert view.pointer("default").revision == 2  # type: ignore[union-attr]


def test_events_are_numbered_without_gaps_and_read_from_a_position(ledger: Ledger) -> None:
    made = [
        Event(event_id=f"e{n}", at=NOW, agent="a", name=EventName.PROPOSED, summary=str(n)) for n in range(4)
    ]
    assert [write(ledger, lambda tx, one=one: tx.emit(one)) for one in made] == [1, 2, 3, 4]
    with ledger.view() as view:
        assert view.events() == tuple(enumerate(made, start=1))
        assert view.events(after=1, limit=2) == ((2, made[1]), (3, made[2]))


def test_the_audit_chain_verifies_and_records_control_and_breaker_changes_once(ledger: Ledger) -> None:
    for record in (Control(agent="a", paused=True), Breaker(breaker_id="b", agent="a", layer=Layer.PROMPT)):
        write(ledger, lambda tx, record=record: tx.put(record))
        write(ledger, lambda tx, record=record: tx.put(record))
    write(ledger, lambda tx: tx.audit("note", "a", {"share": 0.1, "text": "é"}))
    with ledger.view() as view:
        rows = view.audit_rows()
        assert view.audit_rows(after=1, limit=1) == rows[1:2]
        assert [row.kind for row in acts(view)] == ["control.set", "breaker.set", "note"]
    assert [row.seq for row in rows] == [1, 2, 3, 4, 5]
    assert isinstance(verify_chain(rows), Passed)


def test_agents_are_those_with_a_version_a_finding_or_a_control_record(ledger: Ledger) -> None:
    write(ledger, lambda tx: tx.add_version(version(tx, agent="b")))
    write(ledger, lambda tx: tx.put(Control(agent="a")))
    write(ledger, lambda tx: tx.put(proposal(agent="c")))
    with ledger.view() as view:
        assert view.agents() == ("a", "b")


def test_data_version_tells_of_every_commit(ledger: Ledger) -> None:
    seen = [ledger.data_version()]
    assert ledger.data_version() == seen[0]
    for n in range(3):
        write(ledger, lambda tx, n=n: tx.put(proposal(f"p{n}")))
        seen.append(ledger.data_version())
    assert len(set(seen)) == 4


def test_a_closed_ledger_says_so(ledger: Ledger) -> None:
    ledger.close()
    with pytest.raises(StoreError, match="closed"), ledger.view():
        pass
