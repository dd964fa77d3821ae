"""Tampering with the audit chain, kind by kind."""

import hashlib
import json
import random
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prx.domain.answers import Failed, Passed
from prx.domain.events import AuditRow
from prx.ledger.audit import EMPTY, GENESIS, Head, next_link, verify_chain

T0 = datetime(2026, 12, 1, 8, 0, tzinfo=UTC)
LENGTH = 12


def chain(length: int = LENGTH, *, word: str = "row") -> list[AuditRow]:
    rows, head = list[AuditRow](), EMPTY
    for number in range(length):
        row = next_link(
            head,
            at=T0 + timedelta(seconds=number),
            actor="engine",
            kind="note",
            subject=f"s{number}",
            body={"text": f"{word} {number}"},
        )
        rows.append(row)
        head = Head(row.seq, row.hash)
    return rows


def head_of(rows: list[AuditRow]) -> Head:
    return Head(rows[-1].seq, rows[-1].hash)


def code(answer: Passed | Failed) -> str:
    return answer.code if isinstance(answer, Failed) else "passed"


def relinked(rows: list[AuditRow], start: int) -> list[AuditRow]:
    """What a forger who knows the hash rule makes of the rows from `start` on."""
    head = Head(rows[start - 1].seq, rows[start - 1].hash) if start else EMPTY
    out = rows[:start]
    for row in rows[start:]:
        body = json.loads(row.body or "{}")
        made = next_link(head, at=row.at, actor=row.actor, kind=row.kind, subject=row.subject, body=body)
        out.append(made)
        head = Head(made.seq, made.hash)
    return out


def test_an_untouched_chain_passes_with_and_without_its_head() -> None:
    rows = chain()
    assert isinstance(verify_chain(rows), Passed)
    assert isinstance(verify_chain(iter(rows), head=head_of(rows)), Passed)
    assert isinstance(verify_chain(rows[5:], head=head_of(rows), after=head_of(rows[:5])), Passed)
    assert isinstance(verify_chain([]), Passed)


def test_a_link_covers_every_field_with_its_length_as_documented() -> None:
    row = chain(1)[0]
    at_us = int(T0.timestamp()) * 1_000_000
    body_hash = hashlib.sha256(b'{"text":"row 0"}').hexdigest()
    fields = ["prx.audit.v1", GENESIS, "1", "note", "engine", str(at_us), "s0", body_hash]
    raw = b"".join(len(text).to_bytes(8, "big") + text.encode() for text in fields)
    assert row.hash == hashlib.sha256(raw).hexdigest()
    assert row.prev == "0" * 64


def test_moving_a_letter_between_neighbouring_fields_changes_the_hash() -> None:
    one = next_link(EMPTY, at=T0, actor="ab", kind="note", subject="c", body={})
    other = next_link(EMPTY, at=T0, actor="a", kind="note", subject="bc", body={})
    assert one.hash != other.hash


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("actor", "person:eve"),
        ("kind", "other"),
        ("subject", "s99"),
        ("at", T0 + timedelta(microseconds=1)),
        ("body", '{"text":"forged"}'),
        ("body_hash", "f" * 64),
        ("hash", "e" * 64),
    ],
)
@given(position=st.integers(0, LENGTH - 1))
def test_an_edit_of_any_field_is_found_at_its_row(field: str, value: Any, position: int) -> None:
    rows = chain()
    rows[position] = msgspec.structs.replace(rows[position], **{field: value})
    answer = verify_chain(rows)
    assert code(answer) == "audit_edited"
    assert f"audit row {position + 1} " in answer.why


def test_an_edit_with_a_matching_body_hash_is_found() -> None:
    rows = chain()
    text = '{"text":"forged"}'
    rows[3] = msgspec.structs.replace(rows[3], body=text, body_hash=hashlib.sha256(text.encode()).hexdigest())
    assert code(verify_chain(rows)) == "audit_edited"


def test_an_edit_with_a_recomputed_hash_is_found_at_the_next_row() -> None:
    rows = chain()
    rows[3] = relinked([*rows[:3], msgspec.structs.replace(rows[3], actor="person:eve")], 3)[3]
    answer = verify_chain(rows)
    assert isinstance(answer, Failed)
    assert "audit row 5 " in answer.why


@given(position=st.integers(0, LENGTH - 2), count=st.integers(1, 4))
def test_a_deletion_is_found_at_the_row_after_it(position: int, count: int) -> None:
    rows = chain()
    count = min(count, LENGTH - 1 - position)
    del rows[position : position + count]
    answer = verify_chain(rows)
    assert code(answer) == "audit_deleted"
    assert f"audit row {position + count + 1} " in answer.why


def test_a_deletion_with_later_rows_renumbered_is_found() -> None:
    rows = chain()
    kept = [*rows[:4], *(msgspec.structs.replace(row, seq=row.seq - 1) for row in rows[5:])]
    assert code(verify_chain(kept)) == "audit_deleted"


@given(position=st.integers(1, LENGTH - 1))
def test_an_inserted_row_is_found(position: int) -> None:
    rows = chain()
    stranger = msgspec.structs.replace(chain(1, word="other")[0], seq=position + 1, prev="d" * 64)
    answer = verify_chain([*rows[:position], stranger, *rows[position:]])
    assert code(answer) == "audit_inserted"
    assert f"audit row {position + 1} " in answer.why


def test_an_inserted_row_with_a_true_link_and_later_rows_renumbered_is_found() -> None:
    rows = chain()
    extra = next_link(head_of(rows[:4]), at=T0, actor="eve", kind="note", subject="x", body={})
    later = [msgspec.structs.replace(row, seq=row.seq + 1) for row in rows[4:]]
    answer = verify_chain([*rows[:4], extra, *later])
    assert code(answer) == "audit_forked"
    assert "audit row 6 " in answer.why


@given(seed=st.integers(0, 2**32 - 1))
def test_a_reordering_is_found(seed: int) -> None:
    rows = chain()
    first, second = sorted(random.Random(seed).sample(range(LENGTH), 2))
    rows[first], rows[second] = rows[second], rows[first]
    answer = verify_chain(rows)
    assert code(answer) == "audit_reordered"
    assert f"audit row {second + 1} " in answer.why


def test_a_reordering_with_numbers_swapped_is_found() -> None:
    rows = chain()
    third, fourth = rows[2], rows[3]
    rows[2] = msgspec.structs.replace(fourth, seq=3)
    rows[3] = msgspec.structs.replace(third, seq=4)
    answer = verify_chain(rows)
    assert code(answer) == "audit_reordered"
    assert "audit row 3 " in answer.why


@given(kept=st.integers(0, LENGTH - 1))
def test_a_cut_end_is_found_against_the_noted_head_only(kept: int) -> None:
    rows = chain()
    assert isinstance(verify_chain(rows[:kept]), Passed)
    answer = verify_chain(rows[:kept], head=head_of(rows))
    assert code(answer) == "audit_truncated"
    assert f"ends at row {kept}" in answer.why


@given(position=st.integers(1, LENGTH - 1))
def test_a_fork_is_found_where_two_rows_follow_one(position: int) -> None:
    rows = chain()
    branch = next_link(
        head_of(rows[:position]), at=T0, actor="engine", kind="note", subject="x", body={"text": "branch"}
    )
    answer = verify_chain([*rows[: position + 1], branch, *rows[position + 1 :]])
    assert code(answer) == "audit_forked"
    assert f"audit row {position + 1} " in answer.why


@given(position=st.integers(0, LENGTH - 1))
def test_a_whole_rewrite_passes_alone_and_is_found_against_the_noted_head(position: int) -> None:
    rows = chain()
    head = head_of(rows)
    rows[position] = msgspec.structs.replace(rows[position], actor="person:eve")
    forged = relinked(rows, position)
    assert isinstance(verify_chain(forged), Passed)
    assert code(verify_chain(forged, head=head)) == "audit_rewritten"


def test_an_erased_body_keeps_the_chain_valid() -> None:
    rows = chain()
    rows[4] = msgspec.structs.replace(rows[4], body=None)
    assert isinstance(verify_chain(rows, head=head_of(rows)), Passed)
