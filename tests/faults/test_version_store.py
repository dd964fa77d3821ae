"""Any version comes back exactly; what is damaged, or of a newer release, is refused before it serves."""

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from kept import Kept

from prx.domain.changes import MemoryAdd, MemoryArchive
from prx.domain.codec import content_hash, encode
from prx.domain.errors import Conflict, StoreError, StoreTooNew
from prx.domain.layers import Layer
from prx.domain.memory import in_force
from prx.domain.versions import (
    SNAPSHOT_SCHEMA,
    Manifest,
    MemoryState,
    PromptSet,
    Strategy,
    Version,
    VersionSource,
    VersionStatus,
    part_hash,
)
from prx.ledger import Ledger, serving
from prx.ledger.checksum import with_checksum
from prx.ledger.port import Transaction
from prx.live.poller import ServingPoller
from prx.release.applied import current
from prx.release.promote import initial_version, new_version
from prx.release.rollback import RollbackResult, execute_rollback, plan_rollback

NOW = datetime(2026, 12, 1, 8, 0, tzinfo=UTC)
SIZES = [(150, 15), pytest.param(1000, 100, marks=pytest.mark.slow)]


def write(ledger: Ledger, work: Callable[[Transaction], Any], *, minute: int = 0) -> Any:
    with ledger.transaction(now=NOW + timedelta(minutes=minute), actor="test") as tx:
        return work(tx)


def begin(tx: Transaction, text: str = "You help.") -> Version:
    prompts = PromptSet(texts={"system": text})
    return initial_version(tx, "a", prompts=prompts, source=VersionSource.INITIAL, note="first")


def prompt(tx: Transaction, text: str) -> Version:
    made = PromptSet(texts={"system": text})
    return new_version(tx, "a", Layer.PROMPT, made, source=VersionSource.ENGINE, note=text)


def restore(tx: Transaction, **target: Any) -> RollbackResult:
    return execute_rollback(tx, plan_rollback(tx, "a", **target), why="drill")


@pytest.mark.parametrize(("versions", "restores"), SIZES)
def test_random_restores_of_many_versions_are_exact(kept: Kept, versions: int, restores: int) -> None:
    rng, made = random.Random(11), dict[str, Manifest]()

    def fill(tx: Transaction) -> None:
        made["v1.0"] = begin(tx).manifest
        for number in range(1, versions):
            state = MemoryState(operations=(encode(MemoryAdd(memory_id=f"m{number}", text="t")).decode(),))
            layer, part = rng.choice(
                (
                    (Layer.PROMPT, PromptSet(texts={"system": f"é {rng.random()}", "other": "x"})),
                    (Layer.MEMORY, state),
                    (Layer.STRATEGY, Strategy(automix_threshold=rng.random())),
                )
            )
            version = new_version(tx, "a", layer, part, source=VersionSource.ENGINE, note="n")
            made[version.label] = version.manifest

    write(kept.ledger, fill)
    assert len(made) == versions
    revision = versions
    for number, label in enumerate(rng.sample(sorted(set(made) - {f"v1.{versions - 1}"}), restores)):
        write(kept.ledger, lambda tx, label=label: restore(tx, target=label), minute=number)
        revision += 1
        with kept.ledger.view() as view:
            served, pointer = current(view, "a"), view.pointer("a")
            parts = {layer: view.part(served.manifest.part(layer)) for layer in Layer}
        assert pointer is not None
        assert (pointer.label, pointer.revision, served.status) == (label, revision, VersionStatus.LIVE)
        assert content_hash(served.manifest) == content_hash(made[label])
        assert {layer: part_hash(part) for layer, part in parts.items()} == {
            layer: made[label].part(layer) for layer in Layer
        }


def test_equal_parts_are_stored_once_however_they_were_built(kept: Kept) -> None:
    one = {"b": "2", "a": "1"}
    other = {"a": "1", "b": "2"}
    names = {write(kept.ledger, lambda tx, t=t: tx.put_part(PromptSet(texts=t))) for t in (one, other)}
    assert len(names) == 1
    assert kept.ask(f"SELECT COUNT(*) FROM {kept.schema}part") == [(1,)]


def damage(kept: Kept, part: str) -> None:
    kept.run(f"UPDATE {kept.schema}part SET body = {kept.place} WHERE hash = '{part}'", [(b'{"texts":{}',)])


def test_a_damaged_part_is_refused_before_it_serves_and_the_last_good_one_stays(kept: Kept) -> None:
    first = write(kept.ledger, begin)
    second = write(kept.ledger, lambda tx: prompt(tx, "You help more."))
    reads = []

    def fetch(agent: str) -> Any:
        with kept.ledger.view() as view:
            reads.append(agent)
            return serving(view, agent)

    poller = ServingPoller(fetch, interval_s=3600, first_wait_s=60)
    assert poller("a").prompts == {"system": "You help more."}
    damage(kept, first.manifest.prompt)
    for target in ({"target": "v1.0"}, {"layer": Layer.PROMPT, "target": "v1.0"}, {}):
        with pytest.raises(StoreError, match="damaged"):
            write(kept.ledger, lambda tx, target=target: restore(tx, **target))
    with pytest.raises(StoreError, match="damaged"):
        write(
            kept.ledger,
            lambda tx: new_version(
                tx, "a", Layer.PROMPT, first.manifest.prompt, source=VersionSource.ENGINE, note="again"
            ),
        )
    with kept.ledger.view() as view:
        assert current(view, "a") == second
        assert [one.label for one in view.find(Version)] == ["v1.0", "v1.1"]
    damage(kept, second.manifest.prompt)
    poller.refresh()
    assert (poller.failures, len(reads)) == (1, 2)
    assert poller("a").prompts == {"system": "You help more."}
    poller.close()


def test_a_snapshot_of_a_newer_release_is_refused_in_clear_words(kept: Kept) -> None:
    write(kept.ledger, begin)

    def newer(tx: Transaction) -> Version:
        made = msgspec.structs.replace(
            current(tx, "a"), snapshot_id="snap_x", label="v1.1", schema=SNAPSHOT_SCHEMA + 1
        )
        tx.add_version(made)
        return made

    write(kept.ledger, newer)
    said = r"v1\.1 .*schema 2.*up to schema 1; nothing was changed.*pip install --upgrade"
    for target in ({"target": "v1.1"}, {"snapshot": "snap_x"}, {"target": "v1.1", "layer": Layer.MEMORY}):
        with pytest.raises(StoreTooNew, match=said):
            write(kept.ledger, lambda tx, target=target: restore(tx, **target))
    with pytest.raises(StoreTooNew, match=said):
        write(kept.ledger, lambda tx: tx.point("a", "v1.1", expected=1))
    with kept.ledger.view() as view:
        assert current(view, "a").label == "v1.0"


def test_a_part_of_a_kind_of_a_newer_release_is_refused_too(kept: Kept) -> None:
    body = b'{"type":"habits"}'
    name = content_hash({"type": "habits"})
    kept.run(f"INSERT INTO {kept.schema}part (hash, body) VALUES ('{name}', {kept.place})", [(body,)])
    with kept.ledger.view() as view, pytest.raises(StoreTooNew, match="of a kind not known here"):
        view.part(name)


def test_a_label_that_points_elsewhere_is_damage(kept: Kept) -> None:
    write(kept.ledger, begin)
    row = kept.ask(
        f"SELECT kind, key, agent, layer, state, at, body FROM {kept.schema}document WHERE kind = 'version'"
    )[0]
    forged = with_checksum((*row[:6], row[6].replace('"label":"v1.0"', '"label":"v9.9"')))
    fields = f"body = {kept.place}, checksum = {kept.place}"
    kept.run(f"UPDATE {kept.schema}document SET {fields} WHERE kind = 'version'", [forged[6:]])
    with kept.ledger.view() as view, pytest.raises(StoreError, match=r"label v1\.0 of agent 'a' is damaged"):
        view.version("a", "v1.0")


def test_restoring_memory_takes_every_descendant_of_a_later_operation_along(kept: Kept) -> None:
    def state(*ops: Any) -> MemoryState:
        return MemoryState(operations=tuple(encode(op).decode() for op in ops))

    good = MemoryAdd(memory_id="good", text="g", derived_from=("raw1",))
    poison = MemoryAdd(memory_id="poison", text="p", derived_from=("raw2",))
    heirs = [
        MemoryAdd(memory_id=f"heir{n}", text="h", derived_from=(f"heir{n - 1}" if n else "poison",))
        for n in range(200)
    ]
    write(kept.ledger, begin)

    def grow(tx: Transaction, *ops: Any) -> None:
        new_version(tx, "a", Layer.MEMORY, state(*ops), source=VersionSource.ENGINE, note="m")

    write(kept.ledger, lambda tx: grow(tx, good))
    write(kept.ledger, lambda tx: grow(tx, good, poison))
    write(kept.ledger, lambda tx: grow(tx, good, poison, *heirs, MemoryArchive(memory_id="raw1", why="old")))
    with kept.ledger.view() as view:
        part = view.part(current(view, "a").manifest.memory)
    assert isinstance(part, MemoryState)
    assert in_force(part).behind("heir199") >= {"poison", "raw2"}
    write(kept.ledger, lambda tx: restore(tx, target="v1.1"))
    with kept.ledger.view() as view:
        part = view.part(current(view, "a").manifest.memory)
    assert isinstance(part, MemoryState)
    force = in_force(part)
    assert (set(force.derived), force.archived) == ({"good"}, frozenset())


def test_numbers_are_never_used_again_after_a_rollback(kept: Kept) -> None:
    write(kept.ledger, begin)
    for text in ("one", "two"):
        write(kept.ledger, lambda tx, text=text: prompt(tx, text))
    write(kept.ledger, lambda tx: restore(tx, target="v1.0"))
    made = write(kept.ledger, lambda tx: prompt(tx, "three"))
    assert (made.label, made.parents) == ("v1.3", ("v1.0",))
    with pytest.raises(Conflict, match="never reused"):
        write(kept.ledger, lambda tx: tx.add_version(msgspec.structs.replace(made, snapshot_id="snap_y")))
