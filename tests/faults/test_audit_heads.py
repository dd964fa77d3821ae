"""Signed heads in a second place: what the store's owner cannot undo, and what a signer never signs."""

import json
import random
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from kept import Kept

from prx.domain.events import AuditRow
from prx.ledger import Ledger
from prx.ledger.audit import EMPTY, Head, next_link
from prx.ledger.heads import BEGAN, read_heads
from prx.views.audit import AuditCheck, verify
from prx.wiring.auditheads import AuditHeads

T0 = datetime(2026, 12, 1, 8, 0, tzinfo=UTC)
KEY = b"a key that the store's owner does not have"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "second place").mkdir()
    return tmp_path / "second place" / "heads.jsonl"


def note(ledger: Ledger, number: int) -> None:
    with ledger.transaction(now=T0, actor="engine") as tx:
        for place in range(number):
            tx.audit("note", f"s{place}", {"text": f"row {place}"})


def rows_of(ledger: Ledger) -> list[AuditRow]:
    with ledger.view() as view:
        return list(view.audit_rows())


def seen(ledger: Ledger, file: Path | None, *, key: bytes = KEY) -> AuditCheck:
    with ledger.view() as view:
        return verify(view, signed=read_heads(file) if file else None, key=key)


def signer(kept: Kept, file: Path, *, key: bytes = KEY) -> AuditHeads:
    return AuditHeads(kept.ledger, file, key)


def relinked(rows: list[AuditRow], start: int = 0) -> list[AuditRow]:
    """What a forger who knows the hash rule makes of the rows from `start` on."""
    head = Head(rows[start - 1].seq, rows[start - 1].hash) if start else EMPTY
    out = rows[:start]
    for row in rows[start:]:
        body = json.loads(row.body or "{}")
        made = next_link(head, at=row.at, actor=row.actor, kind=row.kind, subject=row.subject, body=body)
        out.append(made)
        head = Head(made.seq, made.hash)
    return out


def changed(row: AuditRow, **fields: Any) -> AuditRow:
    return msgspec.structs.replace(row, **fields)


def renumbered(rows: list[AuditRow]) -> list[AuditRow]:
    return [changed(row, seq=number) for number, row in enumerate(rows, start=1)]


def forked(rows: list[AuditRow]) -> list[AuditRow]:
    """Row 7 follows row 5 instead of row 6."""
    after = rows[4]
    made = next_link(
        Head(rows[5].seq, after.hash), at=T0, actor="engine", kind="note", subject="other", body={}
    )
    return [*rows[:6], made, *rows[7:]]


TAMPERED: dict[str, tuple[Callable[[list[AuditRow]], list[AuditRow]], set[str]]] = {
    "edit": (lambda rows: [*rows[:5], changed(rows[5], actor="person:nobody"), *rows[6:]], {"audit_edited"}),
    "delete": (lambda rows: [*rows[:5], *rows[6:]], {"audit_deleted"}),
    "insert": (
        lambda rows: renumbered([*rows[:5], changed(rows[3], prev="f" * 64), *rows[5:]]),
        {"audit_inserted"},
    ),
    "reorder": (lambda rows: renumbered([*rows[:5], rows[6], rows[5], *rows[7:]]), {"audit_reordered"}),
    "fork": (forked, {"audit_forked"}),
    "truncate": (lambda rows: rows[:-3], {"audit_truncated"}),
    "rewrite": (
        lambda rows: relinked([changed(rows[0], body='{"text":"never happened"}'), *rows[1:]]),
        {"audit_rewritten"},
    ),
    "rewrite the end": (
        lambda rows: relinked([*rows[:-2], changed(rows[-2], actor="person:nobody"), rows[-1]], 5),
        {"audit_rewritten"},
    ),
    "delete and rewrite": (lambda rows: relinked([*rows[:5], *rows[6:]]), {"audit_truncated"}),
    "everything": (lambda _: [], {"audit_truncated"}),
}

CONSISTENT = ["truncate", "rewrite", "rewrite the end", "delete and rewrite", "everything"]
"""Kinds after which every link fits, so that only a head from outside tells."""


@pytest.mark.parametrize("kind", TAMPERED)
def test_whatever_the_owner_of_the_store_does_to_the_log_is_detected(
    kept: Kept, file: Path, kind: str
) -> None:
    note(kept.ledger, 12)
    assert signer(kept, file).follow(T0).head is not None
    true = seen(kept.ledger, file)
    assert (true.whole, true.rows, true.signed_heads) == (True, 13, 1)
    tamper, codes = TAMPERED[kind]
    kept.replace_rows(tamper(rows_of(kept.ledger)))
    found = seen(kept.ledger, file)
    assert not found.whole
    assert found.code in codes
    alone = seen(kept.ledger, None)
    assert alone.whole is (kind in CONSISTENT)


@pytest.mark.parametrize("kind", CONSISTENT)
def test_a_rewritten_log_is_never_signed_however_well_it_fits(kept: Kept, file: Path, kind: str) -> None:
    note(kept.ledger, 12)
    signing = signer(kept, file)
    signing.follow(T0)
    tamper, _ = TAMPERED[kind]
    forged, before = tamper(rows_of(kept.ledger)), file.read_bytes()
    for number in range(3):  # and it grows, past the signed row where it can
        end = Head(forged[-1].seq, forged[-1].hash) if forged else EMPTY
        row = next_link(end, at=T0, actor="engine", kind="note", subject=f"later {number}", body={})
        forged = [*forged, row]
    kept.replace_rows(forged)
    signing.seen = None  # raw changes of a table are no commits of ours
    done = signing.follow(T0 + timedelta(hours=1))
    assert "does not hold row 13 as it was signed" in done.why
    assert "run `prx evolution audit verify`" in done.why
    assert file.read_bytes() == before
    assert not seen(kept.ledger, file).whole


@pytest.mark.parametrize("position", range(3))
def test_a_break_after_the_last_signed_row_stops_the_signing(kept: Kept, file: Path, position: int) -> None:
    note(kept.ledger, 5)
    signing = signer(kept, file)
    signing.follow(T0)
    note(kept.ledger, 5)
    rows = rows_of(kept.ledger)
    place = 7 + position
    kept.replace_rows([*rows[:place], changed(rows[place], actor="person:nobody"), *rows[place + 1 :]])
    signing.seen = None
    before = file.read_bytes()
    assert f"audit row {place + 1} " in signing.follow(T0 + timedelta(hours=1)).why
    assert file.read_bytes() == before


def test_a_head_is_signed_at_once_then_every_100_rows_or_10_minutes(kept: Kept, file: Path) -> None:
    signing = signer(kept, file)
    note(kept.ledger, 1)
    assert signing.follow(T0).head == Head(2, rows_of(kept.ledger)[1].hash)
    assert rows_of(kept.ledger)[1].kind == BEGAN
    note(kept.ledger, 99)
    assert signing.follow(T0 + timedelta(minutes=9, seconds=59)).head is None
    assert signing.follow(T0 + timedelta(minutes=10)).head == Head(101, rows_of(kept.ledger)[100].hash)
    note(kept.ledger, 99)
    assert signing.follow(T0 + timedelta(minutes=11)).head is None
    note(kept.ledger, 1)
    assert signing.follow(T0 + timedelta(minutes=11)).head == Head(201, rows_of(kept.ledger)[200].hash)
    assert signing.follow(T0 + timedelta(days=1)).head is None  # nothing new
    note(kept.ledger, 1)
    assert signing.follow(T0 - timedelta(days=1)).head is None  # the clock went back; 100 rows still count
    note(kept.ledger, 99)
    assert signing.follow(T0 - timedelta(days=1)).head is not None
    assert [line.seq for line in read_heads(file).heads] == [2, 101, 201, 301]
    assert seen(kept.ledger, file).whole


def test_several_signers_write_one_chain_of_heads(kept: Kept, file: Path) -> None:
    note(kept.ledger, 1)

    def work(seed: int) -> None:
        signing, rng = signer(kept, file), random.Random(seed)
        for step in range(10):
            note(kept.ledger, rng.choice([1, 30, 120]))
            done = signing.follow(T0 + timedelta(minutes=11 * step))
            assert not done.why

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = seen(kept.ledger, file)
    assert found.whole
    assert found.signed_heads == len(read_heads(file).heads) > 5
    assert sum(row.kind == BEGAN for row in rows_of(kept.ledger)) == 1


def lines_of(file: Path) -> list[bytes]:
    return file.read_bytes().splitlines(keepends=True)


FORGED: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "a line is taken out": lambda lines: [lines[0], *lines[2:]],
    "the first line is taken out": lambda lines: lines[1:],
    "two lines change places": lambda lines: [lines[1], lines[0], *lines[2:]],
    "a line stands twice": lambda lines: [*lines, lines[-1]],
    "a row number is changed": lambda lines: [lines[0].replace(b'"seq":4', b'"seq":3'), *lines[1:]],
    "a hash is changed": lambda lines: [*lines[:-1], lines[-1].replace(b'"hash":"', b'"hash":"0')],
    "a time is changed": lambda lines: [lines[0].replace(b"2026-12-01", b"2026-12-02"), *lines[1:]],
}


@pytest.mark.parametrize("how", FORGED)
def test_a_changed_head_file_is_detected_and_nothing_is_added_to_it(kept: Kept, file: Path, how: str) -> None:
    signing = signer(kept, file)
    for step in range(4):
        note(kept.ledger, 3)
        assert signing.follow(T0 + timedelta(hours=step)).head is not None
    forged = FORGED[how](lines_of(file))
    assert forged != lines_of(file)
    file.write_bytes(b"".join(forged))
    found = seen(kept.ledger, file)
    assert (found.whole, found.code) == (False, "audit_heads_forged")
    note(kept.ledger, 1)
    assert "nothing more is signed" in signing.follow(T0 + timedelta(days=1)).why
    assert file.read_bytes() == b"".join(forged)


def test_another_key_verifies_nothing_and_signs_nothing(kept: Kept, file: Path) -> None:
    note(kept.ledger, 3)
    signer(kept, file).follow(T0)
    assert seen(kept.ledger, file, key=b"another key of 16").code == "audit_heads_forged"
    note(kept.ledger, 200)
    assert "the key is another one" in signer(kept, file, key=b"another key of 16").follow(T0).why
    assert len(read_heads(file).heads) == 1


@pytest.mark.parametrize("how", ["emptied", "removed"])
def test_a_head_file_that_is_gone_is_missed(kept: Kept, file: Path, how: str) -> None:
    note(kept.ledger, 3)
    signer(kept, file).follow(T0)
    file.unlink() if how == "removed" else file.write_bytes(b"")
    found = seen(kept.ledger, file)
    assert (found.whole, found.code) == (False, "audit_heads_missing")
    note(kept.ledger, 1)
    assert "it was emptied or moved" in signer(kept, file).follow(T0).why
    assert seen(kept.ledger, file.with_name("new.jsonl")).whole  # a new place begins anew
    assert signer(kept, file.with_name("new.jsonl")).follow(T0).head is not None


@pytest.mark.parametrize("cut", [1, 2, 30, 150])
def test_a_line_cut_off_by_a_crash_hides_nothing(kept: Kept, file: Path, cut: int) -> None:
    signing = signer(kept, file)
    for step in range(3):
        note(kept.ledger, 3)
        signing.follow(T0 + timedelta(hours=step))
    file.write_bytes(file.read_bytes()[:-cut])
    assert seen(kept.ledger, file).whole
    note(kept.ledger, 3)
    assert signing.follow(T0 + timedelta(hours=9)).head is not None
    noted = read_heads(file)
    assert noted.torn == (0 if cut == 1 else 1)
    assert noted.heads[-1].seq == len(rows_of(kept.ledger))
    assert seen(kept.ledger, file).whole


def test_a_second_place_that_cannot_be_written_is_said_and_tried_again(kept: Kept, tmp_path: Path) -> None:
    note(kept.ledger, 1)
    signing = signer(kept, tmp_path / "later" / "heads.jsonl")
    assert "cannot be written to" in signing.follow(T0).why
    (tmp_path / "later").mkdir()
    assert signing.follow(T0).head is not None


def test_the_key_is_in_no_text_of_the_signer(kept: Kept, file: Path) -> None:
    note(kept.ledger, 1)
    signing = signer(kept, file)
    signing.follow(T0)
    assert KEY.decode() not in repr(signing)
    assert KEY not in file.read_bytes()
