import random
from datetime import datetime, timedelta

import pytest
from propose_desk import NOW

from prx.domain.answers import Failed, NotEnoughData
from prx.domain.changes import MemoryAdd, MemoryArchive, MemoryPatch
from prx.domain.facts import facts_of, lost_facts
from prx.domain.ids import Ids
from prx.propose.memoryedit import MemoryEntry, MemoryRules, clusters, compact, prune


def entry(n: int, text: str, **more: object) -> MemoryEntry:
    created: datetime = NOW - timedelta(days=200 - n)
    return MemoryEntry(memory_id=f"m{n}", text=text, created_at=created, **more)  # type: ignore[arg-type]


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
    mine, theirs = topic(8, scope=("t", "u1")), topic(8, start=50, scope=("t", "u2"))
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


def test_pruning_takes_the_stalest_unused_entries_and_at_most_a_tenth() -> None:
    old = [entry(n, "x", uses=0) for n in range(6)]
    used = [entry(10 + n, "x", uses=2) for n in range(20)]
    fresh = [entry(60 + n, "x", uses=0, last_used=NOW - timedelta(days=3)) for n in range(4)]
    patch = prune([*fresh, *used, *old], rules=MemoryRules(), now=NOW)
    assert isinstance(patch, MemoryPatch)
    assert [op.memory_id for op in patch.ops] == ["m0", "m1", "m2"]
    assert all(isinstance(op, MemoryArchive) for op in patch.ops)


def test_nothing_is_pruned_where_everything_is_used_or_little_is_stored() -> None:
    used = [entry(n, "x", uses=5) for n in range(40)]
    assert isinstance(prune(used, rules=MemoryRules(), now=NOW), NotEnoughData)
    assert isinstance(prune([entry(0, "x")], rules=MemoryRules(), now=NOW), NotEnoughData)
