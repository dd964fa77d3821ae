"""Compaction and pruning over seeded memories: nothing is lost, and what is in order stays as it is."""

import random
import re

import msgspec
import pytest
from memory_world import NOW, generated

from prx.domain.changes import MemoryAdd, MemoryArchive, MemoryPatch
from prx.domain.codec import encode
from prx.domain.ids import Ids
from prx.domain.memory import EntryStatus, InForce, MemoryEntry, derived_entry, in_force
from prx.domain.versions import MemoryState
from prx.memory.stored import told
from prx.propose.memoryedit import MemoryRules
from prx.propose.tending import tend
from prx.prove.memoryreplay import MemoryReplayRules, change_verdict

RULES = MemoryRules()
IDS = Ids(random.Random(9))
# found by another way than the guard's own
_NUMBERS = re.compile(r"[0-9]+")
_CODE = re.compile(r"`[^`]+`")
_DENIALS = ("never", "not ", "Не ", "不要", "Only")
_NAMES = re.compile(r"Maria\d|Ivan Petrov|Анне")


def protected(texts: list[str]) -> set[str]:
    whole = "\n".join(texts)
    denied = {word for word in _DENIALS if word in whole}
    return {*_NUMBERS.findall(whole), *_CODE.findall(whole), *_NAMES.findall(whole)} | denied


def cycle(entries: list[MemoryEntry], state: MemoryState, ids: Ids) -> tuple[MemoryPatch | None, MemoryState]:
    """One tending of the memory under `state`, and the state after it."""
    shown = told(entries, {}, force=in_force(state), at=NOW)
    draft = tend(shown, rules=RULES, ids=ids, now=NOW).draft
    if draft is None:
        return None, state
    assert isinstance(draft.change, MemoryPatch)
    step = change_verdict(draft.change, shown, MemoryReplayRules(), NOW)
    assert step.answer == "pass", step.why
    known = {entry.memory_id: entry for entry in entries}
    for op in draft.change.ops:
        if isinstance(op, MemoryAdd):
            derived = derived_entry(op, [known[source] for source in op.derived_from])
            assert derived is not None
            entries.append(derived)
    more = tuple(encode(op).decode() for op in draft.change.ops)
    return draft.change, MemoryState(operations=state.operations + more)


@pytest.mark.parametrize("seed", range(0, 1000, 10))
def test_no_protected_fact_is_lost_by_an_accepted_compaction(seed: int) -> None:
    entries = generated(seed)
    originals = {entry.memory_id: entry for entry in entries}
    state = MemoryState()
    while True:
        change, state = cycle(entries, state, IDS)
        if change is None:
            break
        for op in change.ops:
            if isinstance(op, MemoryAdd):
                sources = [originals[source] for source in op.derived_from]
                assert len({source.scope for source in sources}) == 1
                assert protected([source.text for source in sources]) <= protected([op.text])
                assert set(op.text.split()) <= {w for s in sources for w in s.text.split()}
        assert len(state.operations) < 1000, "it never comes to rest"
    left = told(entries, {}, force=in_force(state), at=NOW)
    texts = [entry.text for entry in left if entry.status is EntryStatus.ACTIVE]
    assert protected([entry.text for entry in originals.values()]) == protected(texts)


@pytest.mark.slow
def test_no_protected_fact_is_lost_over_a_thousand_memories() -> None:
    for seed in range(1000):
        test_no_protected_fact_is_lost_by_an_accepted_compaction(seed)


def test_the_seeded_memories_are_compacted_often_enough_to_prove_something() -> None:
    changed = sum(cycle(generated(seed), MemoryState(), IDS)[0] is not None for seed in range(100))
    assert changed > 50


@pytest.mark.parametrize("seed", range(0, 200, 10))
def test_a_memory_in_order_is_left_alone(seed: int) -> None:
    entries, state = generated(seed), MemoryState()
    while (found := cycle(entries, state, IDS))[0] is not None:
        state = found[1]
    assert cycle(entries, state, IDS) == (None, state)
    assert cycle(entries, state, IDS) == (None, state)


@pytest.mark.parametrize("seed", range(0, 300, 10))
def test_going_back_to_any_earlier_state_brings_back_exactly_its_entries(seed: int) -> None:
    rng = random.Random(seed)
    entries, state = generated(seed), MemoryState()
    passed = [(state, _active(entries, state))]
    while (found := cycle(entries, state, IDS))[0] is not None:
        state = found[1]
        passed.append((state, _active(entries, state)))
    rng.shuffle(passed)
    for earlier, active in passed:
        assert _active(entries, earlier) == active


def _active(entries: list[MemoryEntry], state: MemoryState) -> tuple[str, ...]:
    shown = told(entries, {}, force=in_force(state), at=NOW)
    return tuple(entry.memory_id for entry in shown if entry.status is EntryStatus.ACTIVE)


def test_undoing_a_summary_undoes_what_was_derived_from_it() -> None:
    first = MemoryAdd(memory_id="s1", text="a b", derived_from=("a", "b"))
    second = MemoryAdd(memory_id="s2", text="a b c", derived_from=("s1", "c"))
    ops = [
        first,
        *(MemoryArchive(memory_id=key, why="compacted") for key in "ab"),
        second,
        *(MemoryArchive(memory_id=key, why="compacted") for key in ("s1", "c")),
    ]
    whole = in_force(MemoryState(operations=tuple(encode(op).decode() for op in ops)))
    part = in_force(MemoryState(operations=tuple(encode(op).decode() for op in ops[:3])))
    assert whole.behind("s2") == {"s2", "s1", "a", "b", "c"}
    assert part.archived == {"a", "b"}
    assert set(part.derived) == {"s1"}
    assert in_force(MemoryState()) == InForce()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("The port is 5432 on Sundays", None),
        ("The port is open on Sundays", "lost_fact"),
        ("The port is 5432 or 5433 on Sundays", "invented_fact"),
        ("The harbour port is 5432 on Sundays", "invented_text"),
    ],
)
def test_the_proof_reads_a_summary_itself_and_trusts_no_author(text: str, code: str | None) -> None:
    sources = [
        msgspec.structs.replace(entry, text=said, status=EntryStatus.ACTIVE)
        for entry, said in zip(
            generated(1, scopes=1), ("The port is 5432 on Sundays", "the port is open or"), strict=False
        )
    ]
    add = MemoryAdd(memory_id="s", text=text, derived_from=tuple(one.memory_id for one in sources))
    step = change_verdict(MemoryPatch(ops=(add,)), sources, MemoryReplayRules(), NOW)
    assert step.code == code


def test_the_proof_refuses_what_is_gone_pinned_mixed_or_too_much() -> None:
    entries = [msgspec.structs.replace(one, pinned=n == 0) for n, one in enumerate(generated(1))]
    again = MemoryAdd(memory_id="m2", text=entries[1].text, derived_from=("m1",))
    rules = MemoryReplayRules()

    def code(*ops: MemoryAdd | MemoryArchive, by_person: bool = False) -> str | None:
        return change_verdict(MemoryPatch(ops=ops), entries, rules, NOW, by_person=by_person).code

    gone = [MemoryArchive(memory_id=entry.memory_id, why="stale") for entry in entries]
    others = {entry.scope: entry for entry in entries}
    mixed = MemoryAdd(memory_id="s", text="x", derived_from=tuple(one.memory_id for one in others.values()))
    assert len(others) == 2
    assert code(gone[0]) == "pinned"
    assert code(gone[1]) is None
    assert code(MemoryArchive(memory_id="unknown", why="stale")) == "stale_source"
    assert code(mixed) == "mixed_scope"
    assert code(again) == "id_taken"
    assert code(*gone[1 : 3 + int(len(entries) * 0.02)]) == "too_much_at_once"
    assert code(*gone[1 : 3 + int(len(entries) * 0.02)], by_person=True) is None
