"""Whoever owns the store can change a record as well as the log: the log tells when they did."""

from datetime import UTC, datetime
from typing import Any

import pytest
from kept import Kept

from prx.domain.codec import encode
from prx.domain.events import Breaker, Control, Due
from prx.domain.layers import Layer
from prx.domain.versions import Manifest, MemoryState, PromptSet, Strategy, Version, part_hash
from prx.ledger import Ledger
from prx.ledger.checksum import with_checksum
from prx.ledger.port import Transaction
from prx.views.audit import AuditCheck, verify

NOW = datetime(2026, 12, 1, 8, 0, tzinfo=UTC)
TRIGGERS = ["document_kept", "label_fixed", "label_kept", "pointer_rises", "audit_body_fixed"]


def served(tx: Transaction, number: int) -> None:
    manifest = Manifest(
        prompt=tx.put_part(PromptSet(texts={"system": f"You help, {number}."})),
        memory=tx.put_part(MemoryState()),
        strategy=tx.put_part(Strategy()),
    )
    label, before = f"v1.{number}", tx.pointer("a")
    tx.add_version(
        Version(snapshot_id=f"snap_{number}", agent="a", label=label, created_at=NOW, manifest=manifest)
    )
    tx.point("a", label, expected=before and before.revision)


def fill(ledger: Ledger) -> None:
    for number in range(3):
        with ledger.transaction(now=NOW, actor="engine") as tx:
            served(tx, number)
            tx.put(Control(agent="a", why=f"run {number}"))
            tx.put(Breaker(breaker_id="a/prompt", agent="a", layer=Layer.PROMPT, trips=number))
            tx.put(Due(due_id="d", agent="a", job="j", at=NOW, runs=number))
            tx.audit("note", "a", {"text": f"said {number}"})


def seen(ledger: Ledger) -> AuditCheck:
    with ledger.view() as view:
        return verify(view)


def disarm(kept: Kept) -> None:
    """Take the tables' own rules away, as their owner can."""
    for trigger in TRIGGERS:
        table = {"document_kept": "document", "pointer_rises": "pointer", "audit_body_fixed": "audit_body"}
        where = f" ON {kept.schema}{table.get(trigger, 'label')}" if kept.schema else ""
        kept.run(f"DROP TRIGGER IF EXISTS {trigger}{where}", [()])


def document(kept: Kept, kind: str, key: str) -> tuple[Any, ...]:
    columns = "kind, key, agent, layer, state, at, body"
    return kept.ask(f"SELECT {columns} FROM {kept.schema}document WHERE kind = '{kind}' AND key = '{key}'")[0]


def store_document(kept: Kept, row: tuple[Any, ...]) -> None:
    """Replace or insert, with the checksum that fits."""
    places = ", ".join([kept.place] * 8)
    kept.run(f"DELETE FROM {kept.schema}document WHERE kind = {kept.place} AND key = {kept.place}", [row[:2]])
    kept.run(
        f"INSERT INTO {kept.schema}document (kind, key, agent, layer, state, at, body, checksum) "
        f"VALUES ({places})",
        [with_checksum(row)],
    )


def edit_version(kept: Kept) -> None:
    row = document(kept, "version", "snap_1")
    store_document(kept, (*row[:6], row[6].replace('"v1.1"', '"v1.1","note":"never written"')))


def edit_column(kept: Kept) -> None:
    row = document(kept, "breaker", "a/prompt")
    store_document(kept, (*row[:4], "open", *row[5:]))


def bring_back_an_older_record(kept: Kept) -> None:
    row = document(kept, "control", "a")
    store_document(kept, (*row[:6], row[6].replace("run 2", "run 1")))


def insert_record(kept: Kept) -> None:
    row = document(kept, "control", "a")
    store_document(kept, ("control", "b", "b", *row[3:6], row[6].replace('"agent":"a"', '"agent":"b"')))


def delete_record(kept: Kept) -> None:
    kept.run(f"DELETE FROM {kept.schema}document WHERE kind = 'breaker'", [()])


def move_pointer(kept: Kept) -> None:
    agent, label, revision, since, _ = kept.ask(
        f"SELECT agent, label, revision, since, checksum FROM {kept.schema}pointer"
    )[0]
    assert label == "v1.2"
    checksum = with_checksum((agent, "v1.0", revision, since))[-1]
    kept.run(f"UPDATE {kept.schema}pointer SET label = 'v1.0', checksum = {checksum}", [()])


def swap_part(kept: Kept) -> None:
    evil = PromptSet(texts={"system": "You obey."})
    old = part_hash(PromptSet(texts={"system": "You help, 2."}))
    kept.run(f"UPDATE {kept.schema}part SET body = {kept.place} WHERE hash = '{old}'", [(encode(evil),)])


def empty_part(kept: Kept) -> None:
    old = part_hash(PromptSet(texts={"system": "You help, 0."}))
    kept.run(f"UPDATE {kept.schema}part SET body = {kept.place} WHERE hash = '{old}'", [(b"",)])


def relabel(kept: Kept) -> None:
    for label, other in (("v1.0", "v1.9"), ("v1.1", "v1.0"), ("v1.9", "v1.1")):
        kept.run(f"UPDATE {kept.schema}label SET label = '{other}' WHERE label = '{label}'", [()])


def hide_text(kept: Kept) -> None:
    note = next(row.seq for row in rows(kept) if row.kind == "note")
    kept.run(f"DELETE FROM {kept.schema}audit_body WHERE seq = {note}", [()])


def hide_proof(kept: Kept) -> None:
    bound = next(row.seq for row in rows(kept) if row.kind == "records.bound")
    kept.run(f"DELETE FROM {kept.schema}audit_body WHERE seq = {bound}", [()])


def rows(kept: Kept) -> Any:
    with kept.ledger.view() as view:
        return view.audit_rows()


FORGED = {
    "record_changed": (edit_version, edit_column, bring_back_an_older_record),
    "record_inserted": (insert_record,),
    "record_deleted": (delete_record,),
    "pointer_changed": (move_pointer,),
    "part_changed": (swap_part, empty_part),
    "label_changed": (relabel,),
    "audit_body_missing": (hide_text, hide_proof),
}


@pytest.mark.parametrize(
    ("code", "forge"),
    [(code, forge) for code, forgers in FORGED.items() for forge in forgers],
    ids=lambda given: given if isinstance(given, str) else given.__name__,
)
def test_a_change_behind_the_log_is_detected(kept: Kept, code: str, forge: Any) -> None:
    fill(kept.ledger)
    assert seen(kept.ledger).whole
    disarm(kept)
    forge(kept)
    found = seen(kept.ledger)
    assert (found.whole, found.code) == (False, code), found.why


def test_what_is_erased_with_its_row_is_no_tampering(kept: Kept) -> None:
    fill(kept.ledger)
    with kept.ledger.transaction(now=NOW, actor="person:me") as tx:
        tx.erase_part(part_hash(PromptSet(texts={"system": "You help, 0."})))
        tx.erase_audit_body(next(row.seq for row in tx.audit_rows() if row.kind == "note"))
    assert seen(kept.ledger).whole


def test_a_restored_copy_of_the_tables_alone_is_detected(kept: Kept) -> None:
    fill(kept.ledger)
    older = document(kept, "version", "snap_2")
    with kept.ledger.transaction(now=NOW, actor="engine") as tx:
        served(tx, 3)
    disarm(kept)
    store_document(kept, ("version", "snap_3", *older[2:]))
    assert seen(kept.ledger).code == "record_changed"
