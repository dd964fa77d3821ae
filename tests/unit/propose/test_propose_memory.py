import random
from datetime import datetime, timedelta

import pytest
from propose_desk import NOW

from prx.domain.answers import Failed, NotEnoughData
from prx.domain.changes import MemoryAdd, MemoryArchive, MemoryPatch
from prx.domain.facts import facts_of, lost_facts
from prx.domain.ids import Ids
from prx.domain.memory import EntryStatus, MemoryEntry, Scope
from prx.propose.draft import PastChange
from prx.propose.memoryedit import MemoryRules, clusters, compact, compactable
from prx.propose.memoryprune import prune
from prx.propose.tending import Task, tend


def entry(n: int, text: str, **more: object) -> MemoryEntry:
    created: datetime = NOW - timedelta(days=200 - n)
    given: dict[str, object] = {"scope": Scope(), "valid_from": created} | more
    return MemoryEntry(memory_id=f"m{n}", text=text, created_at=created, **given)  # type: ignore[arg-type]


def topic(count: int, start: int = 0, **more: object) -> list[MemoryEntry]:
    texts = [
        "Refunds for lost parcels take 14 days.",
        "Refunds for lost parcels take 14 days",
        "refunds for  lost parcels take 14 days.",
        "Refunds for lost parcels never go to Maria Holm.",
        "Refunds for lost parcels take 14 days. Case AB-1204 was on 2026-03-01.",
    ]
    return [entry(start + n, texts[n % len(texts)], **more) for n in range(count)]


def test_a_cluster_is_a_topic_above_the_threshold_and_other_topics_stay_out() -> None:
    others = [entry(100 + n, f"weather report number {n} sunny") for n in range(10)]
    rules = MemoryRules(cluster_similarity=0.5)
    (found,) = clusters([*topic(12), *others], rules)
    assert {e.memory_id for e in found} == {f"m{n}" for n in range(12)}
    assert clusters(topic(10), rules) == ()


def test_entries_of_two_users_never_share_a_cluster_or_a_summary() -> None:
    mine = topic(8, scope=Scope(tenant="t", owner="user:u1"))
    theirs = topic(8, start=50, scope=Scope(tenant="t", owner="user:u2"))
    assert clusters([*mine, *theirs], MemoryRules(cluster_similarity=0.5)) == ()
    assert isinstance(compact([*mine, *theirs], ids=Ids(random.Random(1)), now=NOW), Failed)


def test_compaction_keeps_every_fact_and_archives_its_sources() -> None:
    cluster = topic(12)
    patch = compact(cluster, ids=Ids(random.Random(1)), now=NOW)
    assert isinstance(patch, MemoryPatch)
    added, *gone = patch.ops
    assert isinstance(added, MemoryAdd)
    assert added.derived_from == tuple(e.memory_id for e in cluster)
    assert {op.memory_id for op in gone if isinstance(op, MemoryArchive)} == {f"m{n}" for n in range(12)}
    for fact in ("14", "Maria Holm", "AB-1204", "2026-03-01", "never"):
        assert fact in added.text
    assert added.text.lower().count("take 14 days") == 1


def test_two_sentences_of_the_same_words_that_deny_different_things_both_stay() -> None:
    texts = ("Accept shoes, not gift cards, here.", "Accept gift cards, not shoes, here.")
    patch = compact([entry(n, texts[n % 2]) for n in range(12)], ids=Ids(random.Random(1)), now=NOW)
    assert isinstance(patch, MemoryPatch)
    (added,) = (op for op in patch.ops if isinstance(op, MemoryAdd))
    assert added.text.splitlines() == list(texts)


def test_a_cluster_in_which_nothing_repeats_is_left_alone() -> None:
    cluster = [entry(n, f"Rule {n}: only case {n} counts") for n in range(12)]
    assert isinstance(compact(cluster, ids=Ids(random.Random(1)), now=NOW), NotEnoughData)


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        ("Pay 40 euros.", "Pay euros.", "number"),
        ("Ask about order AB-12.", "Ask about the order.", "id"),
        ("Send it to Maria today.", "Send it to her today.", "name"),
        ("Do not refund gift cards.", "Refund gift cards.", "negation"),
        ("Nunca devolver tarjetas.", "Devolver tarjetas.", "negation"),
        ("Не возвращать карты.", "Возвращать карты.", "negation"),
        ("不要退款给客户", "退款给客户", "negation"),
        ("カードは返金できません", "カードは返金できます", "negation"),
        ("카드는 환불할 수 없습니다", "카드는 환불할 수 있습니다", "negation"),
    ],
)
def test_the_fact_guard_sees_each_kind_of_loss_in_each_language(before: str, after: str, kind: str) -> None:
    assert kind in {lost[0] for lost in lost_facts(before, after)}
    assert lost_facts(before, before) == ()


def test_a_negation_moved_to_another_verb_is_a_lost_fact() -> None:
    before = "Do not refund gift cards. Accept returns of shoes."
    after = "Refund gift cards. Do not accept returns of shoes."
    assert lost_facts(before, after)


def test_facts_are_found_whatever_the_case() -> None:
    assert ("name", "holm") in facts_of("ask Holm")


@pytest.mark.parametrize("text", ["Version 3.14 runs on example.com now", "Ask Dr. Smith at 10.30 a.m. then"])
def test_points_inside_numbers_and_names_do_not_end_a_sentence_that_is_lost(text: str) -> None:
    patch = compact([entry(n, text) for n in range(12)], ids=Ids(random.Random(1)), now=NOW)
    assert isinstance(patch, MemoryPatch)
    (added,) = (op for op in patch.ops if isinstance(op, MemoryAdd))
    assert added.text.replace("\n", " ") == text


@pytest.mark.parametrize(
    ("general", "narrower"),
    [
        ("Refunds are possible here", "Refunds are possible here only for members"),
        ("Refunds are possible here", "Refunds are not possible here"),
        ("Alice lent Bob the key", "Bob lent Alice the key"),
        ("We ship to the islands", "We ship to the islands unless it storms"),
        ("可以退款给客户", "不可以退款给客户"),
    ],
)
def test_a_sentence_is_not_covered_by_one_that_narrows_or_turns_it(general: str, narrower: str) -> None:
    cluster = [entry(n, (general, narrower)[n % 2]) for n in range(12)]
    patch = compact(cluster, ids=Ids(random.Random(1)), now=NOW)
    assert isinstance(patch, MemoryPatch)
    (added,) = (op for op in patch.ops if isinstance(op, MemoryAdd))
    assert sorted(added.text.splitlines()) == sorted((general, narrower))


def test_code_is_a_fact() -> None:
    assert ("code", "rm -rf build") in facts_of("Run `rm -rf build` first")
    assert lost_facts("Run `make x` now", "Run make x now") == (("code", "make x"),)


def test_what_a_summary_would_outlive_is_not_compacted() -> None:
    soon = NOW + timedelta(days=1)
    kinds = [
        entry(1, "x", pinned=True),
        entry(2, "x", subject="port"),
        entry(3, "x", valid_to=soon),
        entry(4, "x", derived_from=("m9",)),
        entry(5, "x", status=EntryStatus.ARCHIVED),
        entry(6, "x", status=EntryStatus.SUPERSEDED),
        entry(7, "x", valid_from=soon),
    ]
    fresh = MemoryEntry(memory_id="m8", text="x", created_at=NOW, valid_from=NOW, scope=Scope())
    kept = entry(9, "x")
    assert compactable([*kinds, fresh, kept], rules=MemoryRules(), now=NOW) == [kept]


def filler(count: int, start: int = 1000) -> list[MemoryEntry]:
    """Entries that nothing speaks against, none like another."""
    return [entry(start + n, f"unrelated{n} thing{n} number {n}", confirmed=5) for n in range(count)]


def stale(n: int, text: str = "", **more: object) -> MemoryEntry:
    """Old and unused: one sign."""
    return entry(n, text or f"forgotten{n} matter{n}", **more)


def pruned(*entries: MemoryEntry) -> set[str]:
    patch = prune([*entries, *filler(300)], rules=MemoryRules(), now=NOW)
    return {op.memory_id for op in patch.ops} if isinstance(patch, MemoryPatch) else set()


def test_one_sign_prunes_nothing_and_two_signs_prune() -> None:
    over = EntryStatus.SUPERSEDED
    assert pruned(stale(1)) == set()
    assert pruned(entry(180, "young but over", status=over)) == set()
    assert pruned(stale(1, status=over)) == {"m1"}
    assert pruned(stale(1, retrieved=40, contradicted=9)) == {"m1"}


def test_of_entries_that_say_the_same_one_stays() -> None:
    twins = [stale(n, "The parcel office closes at noon on Fridays") for n in range(3)]
    assert pruned(*twins) == {"m0", "m1"}
    other = stale(9, "The parcel office closes at noon on Mondays")
    assert pruned(stale(1, "The parcel office closes at noon on Fridays"), other) == set()


def test_pinned_confirmed_young_derived_and_load_bearing_entries_stay() -> None:
    over = EntryStatus.SUPERSEDED
    kept: list[dict[str, object]] = [
        {"pinned": True},
        {"confirmed": 2},
        {"alone": 1, "confirmed": 1},
        {"derived_from": ("x",)},
    ]
    assert pruned(*(stale(n, status=over, **one) for n, one in enumerate(kept))) == set()
    assert pruned(entry(190, "young", status=over, retrieved=90, contradicted=50)) == set()


def test_a_change_prunes_at_most_two_percent_stalest_first() -> None:
    many = [stale(n, status=EntryStatus.SUPERSEDED) for n in range(30)]
    assert pruned(*many) == {f"m{n}" for n in range(6)}
    few = prune(many, rules=MemoryRules(), now=NOW)
    assert isinstance(few, NotEnoughData)


def test_a_change_that_failed_before_is_not_proposed_again_and_the_next_topic_is_taken() -> None:
    first, second = (
        topic(14),
        [entry(50 + n, "Bikes are serviced in May by Jo" + "." * n) for n in range(12)],
    )
    rules, ids = MemoryRules(cluster_similarity=0.5), Ids(random.Random(1))
    found = tend([*first, *second], rules=rules, ids=ids, now=NOW)
    assert found.draft is not None
    assert found.draft.trigger == "memory:compact"
    past = [PastChange(found.draft.fingerprint, found.draft.change, "rolled back")]
    again = tend([*first, *second], rules=rules, ids=ids, now=NOW, past=past)
    assert again.draft is not None
    assert isinstance(again.draft.change, MemoryPatch)
    (added,) = (op for op in again.draft.change.ops if isinstance(op, MemoryAdd))
    assert added.derived_from == tuple(e.memory_id for e in second)
    assert tend(first, rules=rules, ids=ids, now=NOW, tasks=(Task.PRUNE,)).draft is None
